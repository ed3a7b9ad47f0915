// Every element of a row replaced by the mean of its neighbours, from a copy that the thread keeps of the row.

#define COLS 24

__global__ void relax(float *y, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float old[COLS];
    for (int k = 0; k < COLS; ++k)
        old[k] = y[r * COLS + k] * 0.5f;
    for (int c = 1; c < COLS - 1; ++c)
        y[r * COLS + c] = old[c - 1] + old[c + 1];
}
