// A row of the table for each token.
__global__ void embedding(const float *table, const int *ids, float *out, int tokens, int d)
{
    int t = blockIdx.x;
    int id = ids[t];
    for (int c = threadIdx.x; c < d; c += blockDim.x)
        out[t * d + c] = table[(long long)id * d + c];
}

void run(const float *table, const int *ids, float *out, int tokens, int d)
{
    embedding<<<tokens, 64>>>(table, ids, out, tokens, d);
}
