// Rotary position embedding (Su et al., arXiv:2104.09864) of vectors split in halves, one thread per pair.

/* evolve
timed = [{tokens = 16384, heads = 32, half = 64}]
*/

__global__ void rope(const float *x, const float *cosines, const float *sines, float *y,
                     int tokens, int heads, int half)
{
    int d = threadIdx.x;
    int head = blockIdx.x;
    int token = blockIdx.y;
    if (token >= tokens || head >= heads || d >= half) return;

    float c = cosines[token * half + d];
    float s = sines[token * half + d];
    int at = (token * heads + head) * 2 * half + d;
    float first = x[at];
    float second = x[at + half];
    y[at] = first * c - second * s;
    y[at + half] = second * c + first * s;
}
