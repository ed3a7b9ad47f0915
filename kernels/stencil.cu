// Five-point average on the interior of a rows x cols grid, one thread per point, flat launch.

#define WEIGHT 0.2f

__global__ void stencil(const float *x, float *y, int rows, int cols)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= rows * cols) return;

    int i = idx / cols;
    int j = idx % cols;
    if (i > 0 && i < rows - 1 && j > 0 && j < cols - 1) {
        float around = x[idx - cols] + x[idx + cols] + x[idx - 1] + x[idx + 1];
        y[idx] = WEIGHT * (x[idx] + around);
    }
}
