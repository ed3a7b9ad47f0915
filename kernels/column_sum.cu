// sums[col] = sum of a column of a rows x cols matrix, one thread per column.

__global__ void column_sum(const float *matrix, float *sums, int rows, int cols)
{
    int col = blockDim.x * blockIdx.x + threadIdx.x;
    if (col < cols) {
        float acc = 0.0f;
        for (int row = 0; row < rows; row++) {
            acc += matrix[row * cols + col];
        }
        sums[col] = acc;
    }
}
