// Largest value and sum of each row in one sweep, then the row scaled by both.
__global__ void spread(const float *x, float *y, float *peak, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float m = x[r * cols];
    float s = 0.0f;
    for (int c = 0; c < cols; c++) {
        m = fmaxf(m, x[r * cols + c]);
        s += x[r * cols + c];
    }
    peak[r] = m;
    for (int c = 0; c < cols; c++)
        y[r * cols + c] = x[r * cols + c] * m + s;
}
