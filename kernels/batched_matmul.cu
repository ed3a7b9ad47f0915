// C[b] = A[b] * B[b] for a batch of small row-major matrices, one thread per element of C.

/* evolve
timed = [{batch = 32768, m = 32, n = 32, k = 32}]
*/

__global__ void batched_matmul(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C,
                               int batch, int m, int n, int k)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int b = blockIdx.z;
    if (b >= batch || row >= m || col >= n) return;

    const float *a = A + (size_t)b * m * k;
    const float *bm = B + (size_t)b * k * n;
    float acc = 0.0f;
    for (int l = 0; l < k; l++)
        acc += a[row * k + l] * bm[l * n + col];
    C[(size_t)b * m * n + row * n + col] = acc;
}
