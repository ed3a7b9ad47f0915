// y[r][c] = sum of x[r][0 .. c], then scaled by the row's first sum.
__global__ void running_sum(const float *x, float *y, float *z, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0.0f;
    for (int c = 0; c < cols; c++) {
        s += x[r * cols + c];
        y[r * cols + c] = s;
    }
    for (int c = 0; c < cols - 1; c++)
        z[r * cols + c] = y[r * cols + c + 1] - y[r * cols + c];
}
