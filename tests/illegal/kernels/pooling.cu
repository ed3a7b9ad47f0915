// y[r] = the mean of the values of row r, weighted by the exponentials of its scores.
#include <math.h>

__global__ void pooling(const float *scores, const float *values, float *y, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = -INFINITY;
    for (int c = 0; c < cols; c++)
        top = fmaxf(top, scores[r * cols + c]);
    float sum = 0.0f, mean = 0.0f;
    for (int c = 0; c < cols; c++) {
        sum += expf(scores[r * cols + c] - top);
        mean += expf(scores[r * cols + c] - top) * values[r * cols + c];
    }
    y[r] = mean / sum;
}
