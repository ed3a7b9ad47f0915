"""Device text that the execution tests share."""

SOFTMAX = """\
#include <cuda_runtime.h>
#define B 128
extern "C" __global__ void __launch_bounds__(B)
softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  __shared__ float s[B];
  int r = blockIdx.x, t = threadIdx.x;
  float m = -INFINITY;
  for (int c = t; c < cols; c += blockDim.x) m = fmaxf(m, x[r * cols + c]);
  s[t] = m;
  __syncthreads();
  for (int o = B / 2; o > 0; o >>= 1) {
    if (t < o) s[t] = fmaxf(s[t], s[t + o]);
    __syncthreads();
  }
  m = s[0];
  __syncthreads();
  float a = 0;
  for (int c = t; c < cols; c += blockDim.x) a += __expf(x[r * cols + c] - m);
  s[t] = a;
  __syncthreads();
  for (int o = B / 2; o > 0; o >>= 1) {
    if (t < o) s[t] += s[t + o];
    __syncthreads();
  }
  a = s[0];
  for (int c = t; c < cols; c += blockDim.x) y[r * cols + c] = __expf(x[r * cols + c] - m) / a;
}
"""
