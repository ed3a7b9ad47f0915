// Layer normalisation over the last dimension, one thread per row.

#include <math.h>

#define EPSILON 1e-5f

__global__ void layernorm(const float *__restrict__ x, const float *__restrict__ gamma,
                          const float *__restrict__ beta, float *__restrict__ y,
                          int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;

    const float *in = x + (size_t)r * cols;
    float *out = y + (size_t)r * cols;

    float sum = 0.0f;
    for (int c = 0; c < cols; ++c) {
        sum += in[c];
    }
    float mean = sum / cols;

    float var = 0.0f;
    for (int c = 0; c < cols; ++c) {
        float d = in[c] - mean;
        var += d * d;
    }
    float rstd = rsqrtf(var / cols + EPSILON);

    for (int c = 0; c < cols; ++c) {
        out[c] = (in[c] - mean) * rstd * gamma[c] + beta[c];
    }
}
