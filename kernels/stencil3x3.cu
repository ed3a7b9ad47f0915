// A 3 x 3 filter on the interior of a rows x cols image, weights in an array, one thread per pixel.

__global__ void stencil3x3(const float *in, const float *w, float *out, int rows, int cols)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < 1 || i >= rows - 1 || j < 1 || j >= cols - 1)
        return;

    float sum = 0.0f;
    for (int a = -1; a <= 1; a++)
        for (int b = -1; b <= 1; b++)
            sum += w[3 * (a + 1) + b + 1] * in[(i + a) * cols + j + b];
    out[i * cols + j] = sum;
}
