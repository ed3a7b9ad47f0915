// y = transpose of x, one thread per element of x, two-dimensional launch.

#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

#define TILE 16

__global__ void transpose(const float *x, float *y, int rows, int cols)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < rows && j < cols) {
        y[j * rows + i] = x[i * cols + j];
    }
}

int main(void)
{
    const int rows = 4096, cols = 4096;
    size_t bytes = (size_t)rows * cols * sizeof(float);
    float *x, *y;
    cudaMalloc(&x, bytes);
    cudaMalloc(&y, bytes);

    dim3 block(TILE, TILE);
    dim3 grid((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
    transpose<<<grid, block>>>(x, y, rows, cols);

    cudaError_t err = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorString(err));
    cudaFree(x);
    cudaFree(y);
    return err == cudaSuccess ? EXIT_SUCCESS : EXIT_FAILURE;
}
