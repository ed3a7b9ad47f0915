// y[i] = x[idx[i]].

__global__ void gather(const float *__restrict__ x, const int *__restrict__ idx, float *__restrict__ y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[idx[i]];
}
