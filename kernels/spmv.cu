// y = A x for a sparse matrix in compressed rows (CSR), one thread a row.

__global__ void spmv(int rows, const int *rowptr, const int *col, const float *val, const float *x, float *y)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float sum = 0.0f;
        for (int k = rowptr[row]; k < rowptr[row + 1]; k++)
            sum += val[k] * x[col[k]];
        y[row] = sum;
    }
}
