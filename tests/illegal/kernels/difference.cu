// Differences along each row; the first column and negative steps are treated apart.
__global__ void difference(const float *x, float *y, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= rows || c >= cols) return;
    float v = x[r * cols + c];
    if (c > 0) {
        float d = v - x[r * cols + c - 1];
        y[r * cols + c] = d > 0.0f ? d : 0.1f * d;
    } else {
        y[r * cols + c] = v;
    }
}
