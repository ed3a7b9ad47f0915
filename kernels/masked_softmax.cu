// Softmax over the keys of scaled attention scores, with a mask that all heads share; one thread per query.

#include <math.h>

/* evolve
timed = [{heads = 16, queries = 2048, keys = 2048, scale = 0.125}]
*/

#define MASKED -10000.0f

__global__ void masked_softmax(const float *scores, const unsigned char *mask, float *probs, float scale,
                               int heads, int queries, int keys)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= heads * queries) return;
    int q = row % queries;

    const float *in = scores + row * keys;
    const unsigned char *visible = mask + q * keys;
    float *out = probs + row * keys;

    float top = -INFINITY;
    for (int k = 0; k < keys; k++) {
        float s = visible[k] ? in[k] * scale : MASKED;
        top = fmaxf(top, s);
    }
    float sum = 0.0f;
    for (int k = 0; k < keys; k++) {
        float s = visible[k] ? in[k] * scale : MASKED;
        sum += expf(s - top);
    }
    for (int k = 0; k < keys; k++) {
        float s = visible[k] ? in[k] * scale : MASKED;
        out[k] = expf(s - top) / sum;
    }
}
