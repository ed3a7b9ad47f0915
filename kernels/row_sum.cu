// out[r] = sum of row r of a matrix, one thread per row.

__global__ void row_sum(const float *__restrict__ in, float *__restrict__ out, unsigned int rows,
                        unsigned int cols)
{
    const unsigned int r = threadIdx.x + blockDim.x * blockIdx.x;
    if (r >= rows) return;

    float total = 0.f;
    for (unsigned int c = 0; c < cols; c++) {
        unsigned int idx = r * cols + c;
        total = total + in[idx];
    }
    out[r] = total;
}
