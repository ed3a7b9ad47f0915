// Gauss-Seidel sweep of many small grids, one thread per grid: each point uses its neighbours' new and
// old values.
__global__ void sweep(float *u, int grids, int rows, int cols)
{
    int g = blockIdx.x * blockDim.x + threadIdx.x;
    if (g >= grids) return;
    for (int i = 1; i < rows; i++)
        for (int j = 0; j < cols - 1; j++)
            u[(g * rows + i) * cols + j] =
                0.5f * (u[(g * rows + i) * cols + j] + u[(g * rows + i - 1) * cols + j + 1]);
}
