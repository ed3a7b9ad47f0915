// How often each value, 0 to 255, occurs in x, added to what hist holds.

#define BINS 256

__global__ void histogram(const int *__restrict__ x, int hist[BINS], int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&hist[x[i]], 1);
}
