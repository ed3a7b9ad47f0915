// O = softmax(Q K^T * scale) V for each head of a batch, in float32; one thread per query.

#include <math.h>

/* evolve
timed = [{heads = 16, seq = 2048, scale = 0.125}]
*/

#define D 64

__global__ void attention(const float *__restrict__ Q, const float *__restrict__ K, const float *__restrict__ V,
                          float *__restrict__ O, float scale, int heads, int seq)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int h = blockIdx.y;
    if (h >= heads || i >= seq) return;

    const float *q = Q + ((size_t)h * seq + i) * D;
    const float *k = K + (size_t)h * seq * D;
    const float *v = V + (size_t)h * seq * D;
    float *o = O + ((size_t)h * seq + i) * D;

    float top = -INFINITY;
    for (int j = 0; j < seq; j++) {
        float s = 0.0f;
        for (int d = 0; d < D; d++)
            s += q[d] * k[j * D + d];
        top = fmaxf(top, s * scale);
    }

    float sum = 0.0f;
    float acc[D];
    for (int d = 0; d < D; d++)
        acc[d] = 0.0f;
    for (int j = 0; j < seq; j++) {
        float s = 0.0f;
        for (int d = 0; d < D; d++)
            s += q[d] * k[j * D + d];
        float p = expf(s * scale - top);
        sum += p;
        for (int d = 0; d < D; d++)
            acc[d] += p * v[j * D + d];
    }

    for (int d = 0; d < D; d++)
        o[d] = acc[d] / sum;
}
