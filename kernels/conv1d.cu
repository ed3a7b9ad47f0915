// Correlation of each row of a batch with one filter, where the filter lies inside the row.

/* evolve
timed = [{batch = 8192, n = 8192, taps = 9}]
*/

__global__ void conv1d(const float *signal, const float *filter, float *out, int batch, int n, int taps)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int b = blockIdx.y;
    int valid = n - taps + 1;
    if (b < batch && t < valid) {
        float sum = 0.0f;
        for (int k = 0; k < taps; ++k) {
            sum += filter[k] * signal[b * n + t + k];
        }
        out[b * valid + t] = sum;
    }
}
