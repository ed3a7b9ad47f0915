// y = A x with A of rows x cols, row-major; one thread per row.

__global__ void matvec(const float *A, const float *x, float *y, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;

    float dot = 0.0f;
    for (int k = 0; k < cols; ++k)
        dot += A[row * cols + k] * x[k];
    y[row] = dot;
}
