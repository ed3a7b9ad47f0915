// *out += the sum of the n elements of x, one thread per element.

/* evolve
timed = [{n = 268435456}]
*/

__global__ void total(const float *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(out, x[i]);
}
