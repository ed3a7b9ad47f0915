// GELU activation, tanh approximation (Hendrycks and Gimpel, arXiv:1606.08415, section 2).

#include <math.h>

#define SQRT_2_OVER_PI 0.7978845608f
#define CUBIC 0.044715f

__device__ __forceinline__ float gelu_value(float v)
{
    float inner = SQRT_2_OVER_PI * (v + CUBIC * v * v * v);
    return 0.5f * v * (1.0f + tanhf(inner));
}

__global__ void gelu(const float *__restrict__ in, float *__restrict__ out, size_t count)
{
    size_t idx = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= count) return;
    out[idx] = gelu_value(in[idx]);
}
