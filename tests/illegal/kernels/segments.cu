// Largest value and sum of each segment, in one sweep, through a list of its elements.
__global__ void segments(const float *x, const int *list, const int *first, float *peak, float *total, int n)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    float m = -1.0e30f;
    float sum = 0.0f;
    for (int k = first[s]; k < first[s + 1]; k++) {
        float v = x[list[k]];
        m = fmaxf(m, v);
        sum += v * v;
    }
    peak[s] = m;
    total[s] += sum;
}
