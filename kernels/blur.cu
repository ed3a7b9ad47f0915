// A 5 x 5 binomial filter of an image with a border of two pixels, in strips of 64 rows: one thread has a column of
// a strip, and filters it along the rows first, into an array of its own, then along the column.

/* evolve
timed = [{strips = 128, cols = 8192}]
*/

#define STRIP 64

__global__ void blur(const float *__restrict__ in, float *__restrict__ out, int strips, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int strip = blockIdx.y;
    if (strip >= strips || c >= cols) return;

    float h[STRIP + 4];
    for (int r = 0; r < STRIP + 4; ++r) {
        const float *row = in + (strip * STRIP + r) * (cols + 4) + c;
        h[r] = 0.0625f * (row[0] + row[4]) + 0.25f * (row[1] + row[3]) + 0.375f * row[2];
    }
    for (int r = 0; r < STRIP; ++r) {
        out[(strip * STRIP + r) * cols + c] =
            0.0625f * (h[r] + h[r + 4]) + 0.25f * (h[r + 1] + h[r + 3]) + 0.375f * h[r + 2];
    }
}
