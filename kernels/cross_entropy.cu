// loss[r] = log(sum of exp(logits of row r)) - the logit of its target class, one thread per row.

#include <math.h>

/* evolve
timed = [{rows = 8192, classes = 8192}]
*/

__global__ void cross_entropy(const float *__restrict__ logits, const int *__restrict__ target,
                              float *__restrict__ loss, int rows, int classes)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;

    const float *x = logits + (size_t)r * classes;
    float largest = -INFINITY;
    for (int c = 0; c < classes; c++)
        largest = fmaxf(largest, x[c]);

    float sum = 0.0f;
    for (int c = 0; c < classes; c++)
        sum += expf(x[c] - largest);

    loss[r] = logf(sum) + largest - x[target[r]];
}
