// Matrix units by warp-level multiply-adds (16 x 8 x 16, fp16 in, fp32 out), which exist from compute capability
// 8.0 on. From 9.0 on other instructions reach more; what this measures is then no ceiling of the unit.

#define CHAINS 8

extern "C" __global__ void __launch_bounds__(1024)
    mma_f16(float* sink, long long* cycles, float a, float b, int n) {
    // Fragments with different finite values: constant data would draw less power and so run faster.
    unsigned left[4], right[2];
#pragma unroll
    for (int k = 0; k < 4; ++k) left[k] = 0x34003400u + (((threadIdx.x * 37 + k * 11) & 0x1ff) * 0x00010003u);
#pragma unroll
    for (int k = 0; k < 2; ++k) right[k] = 0xb4003400u + (((threadIdx.x * 53 + k * 7) & 0x1ff) * 0x00030001u);
    float d[CHAINS][4];
#pragma unroll
    for (int k = 0; k < CHAINS; ++k)
#pragma unroll
        for (int j = 0; j < 4; ++j) d[k][j] = a * (float)(threadIdx.x + k) + b * (float)j;
    __syncthreads();
    const long long start = clock64();
#pragma unroll 1
    for (int i = 0; i < n; ++i) {
#pragma unroll
        for (int s = 0; s < 8; ++s) {
#pragma unroll
            for (int k = 0; k < CHAINS; ++k)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(d[k][0]), "+f"(d[k][1]), "+f"(d[k][2]), "+f"(d[k][3])
                             : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]),
                               "r"(right[1]));
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < CHAINS; ++k) sum += d[k][0] + d[k][1] + d[k][2] + d[k][3];
    sink[blockIdx.x * 1024 + threadIdx.x] = sum;
}
