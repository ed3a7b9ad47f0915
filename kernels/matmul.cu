// C = A * B with A of M x K, B of K x N, all row-major; one thread per element of C.

#include <cuda_runtime.h>
#include <vector>

__global__ void matmul(const float *A, const float *B, float *C, int M, int N, int K)
{
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M || j >= N)
        return;

    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
        sum += A[i * K + k] * B[k * N + j];
    C[i * N + j] = sum;
}

int main()
{
    const int M = 1024, N = 1024, K = 1024;
    std::vector<float> a(M * K, 1.0f), b(K * N, 0.5f), c(M * N);
    float *dA, *dB, *dC;
    cudaMalloc(&dA, a.size() * sizeof(float));
    cudaMalloc(&dB, b.size() * sizeof(float));
    cudaMalloc(&dC, c.size() * sizeof(float));
    cudaMemcpy(dA, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dB, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice);

    const dim3 threads(16, 16);
    const dim3 blocks((N + threads.x - 1) / threads.x, (M + threads.y - 1) / threads.y);
    matmul<<<blocks, threads>>>(dA, dB, dC, M, N, K);

    cudaMemcpy(c.data(), dC, c.size() * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(dA);
    cudaFree(dB);
    cudaFree(dC);
    return c[0] == K * 0.5f ? 0 : 1;
}
