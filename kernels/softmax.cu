// Softmax over each row of a rows x cols matrix, one thread per row.

#include <math.h>

__global__ void softmax(const float *x, float *y, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float m = -INFINITY;
        for (int c = 0; c < cols; c++)
            m = fmaxf(m, x[row * cols + c]);

        float s = 0.0f;
        for (int c = 0; c < cols; c++)
            s += expf(x[row * cols + c] - m);

        for (int c = 0; c < cols; c++)
            y[row * cols + c] = expf(x[row * cols + c] - m) / s;
    }
}
