// Running sum of each row of a rows x cols matrix, one thread per row.
__global__ void cumsum(const float *x, float *y, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        float acc = 0.0f;
        for (int c = 0; c < cols; c++) {
            acc += x[r * cols + c];
            y[r * cols + c] = acc;
        }
    }
}
