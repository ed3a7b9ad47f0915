// Root-mean-square normalisation of each row with a gain for each column, one thread per row.

#include <math.h>

#define EPS 1e-6f

__global__ void rmsnorm(const float *__restrict__ x, const float *__restrict__ weight,
                        float *__restrict__ y, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float squares = 0.0f;
        for (int c = 0; c < cols; c++) {
            float v = x[row * cols + c];
            squares += v * v;
        }
        float scale = rsqrtf(squares / cols + EPS);
        for (int c = 0; c < cols; c++)
            y[row * cols + c] = x[row * cols + c] * scale * weight[c];
    }
}
