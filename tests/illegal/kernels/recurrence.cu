// y[r][c] depends on y[r][c - 1]: a first-order filter along each row, in place, one thread per row.
__global__ void recurrence(const float *x, float *y, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    for (int c = 1; c < cols; c++)
        y[r * cols + c] = 0.5f * y[r * cols + c - 1] + x[r * cols + c];
}
