// y[r] = the mean of the rows of v, weighted by the exponentials of what x[r] and the rows of w have in common.
#include <math.h>

#define F 4

__global__ void scores(const float *x, const float *w, const float *v, float *y, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = -INFINITY;
    for (int c = 0; c < cols; c++) {
        float s = 0.0f;
        for (int k = 0; k < F; k++)
            s += x[r * F + k] * w[c * F + k];
        top = fmaxf(top, s);
    }
    float sum = 0.0f, mean[F];
    for (int e = 0; e < F; e++)
        mean[e] = 0.0f;
    for (int c = 0; c < cols; c++) {
        float s = 0.0f;
        for (int k = 0; k < F; k++)
            s += x[r * F + k] * w[c * F + k];
        float p = expf(s - top);
        sum += p;
        for (int e = 0; e < F; e++)
            mean[e] += p * v[c * F + e];
    }
    for (int e = 0; e < F; e++)
        y[r * F + e] = mean[e] / sum;
}
