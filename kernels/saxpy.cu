// y = alpha * x + y in place, with the program that calls it.

#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                          \
    do {                                                                     \
        cudaError_t status = (call);                                         \
        if (status != cudaSuccess) {                                         \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));  \
            exit(1);                                                         \
        }                                                                    \
    } while (0)

__global__ void saxpy(int n, float alpha, const float *x, float *y)
{
    const int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        y[i] = alpha * x[i] + y[i];
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1 << 24;
    size_t bytes = n * sizeof(float);

    float *x = (float *)malloc(bytes);
    float *y = (float *)malloc(bytes);
    for (int i = 0; i < n; i++) {
        x[i] = i % 10;
        y[i] = 1.0f;
    }

    float *d_x, *d_y;
    CHECK(cudaMalloc((void **)&d_x, bytes));
    CHECK(cudaMalloc((void **)&d_y, bytes));
    CHECK(cudaMemcpy(d_x, x, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_y, y, bytes, cudaMemcpyHostToDevice));

    int threads = 256;
    int blocks = (n + threads - 1) / threads;
    saxpy<<<blocks, threads>>>(n, 2.0f, d_x, d_y);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    CHECK(cudaMemcpy(y, d_y, bytes, cudaMemcpyDeviceToHost));
    printf("y[3] = %f\n", y[3]);

    cudaFree(d_x);
    cudaFree(d_y);
    free(x);
    free(y);
    return 0;
}
