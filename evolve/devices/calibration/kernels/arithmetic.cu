// Rates of the arithmetic pipes and of shared memory. One block of 1024 threads on each SM; every thread runs
// CHAINS independent chains of dependent instructions. `cycles` gets each block's SM clocks; `sink` every
// thread's result, so that nothing is dead code.

#define CHAINS 8
#define EACH _Pragma("unroll") for (int k = 0; k < CHAINS; ++k)

#define BENCH(name, T, P, STEPS, INIT, STEP)                                                          \
    extern "C" __global__ void __launch_bounds__(1024)                                                \
        name(T* sink, long long* cycles, P a, P b, int n) {                                           \
        T x[CHAINS];                                                                                  \
        EACH x[k] = INIT;                                                                             \
        __syncthreads();                                                                              \
        const long long start = clock64();                                                            \
        _Pragma("unroll 1") for (int i = 0; i < n; ++i) {                                             \
            _Pragma("unroll") for (int s = 0; s < STEPS; ++s) { EACH STEP; }                          \
        }                                                                                             \
        __syncthreads();                                                                              \
        if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;                                 \
        T sum = x[0];                                                                                 \
        _Pragma("unroll") for (int k = 1; k < CHAINS; ++k) sum += x[k];                               \
        sink[blockIdx.x * 1024 + threadIdx.x] = sum;                                                  \
    }

// Assembly, because the compiler may regroup integer arithmetic; `volatile` keeps each one.
__device__ __forceinline__ void imad(unsigned& x, unsigned a, unsigned b) {
    asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b));
}

// Three live operands: the machine's addition takes three, so no two of these can be merged.
__device__ __forceinline__ void iadd(unsigned& x, unsigned y, unsigned z) {
    asm volatile("{ .reg .u32 t; add.u32 t, %1, %2; add.u32 %0, %0, t; }" : "+r"(x) : "r"(y), "r"(z));
}

// exp2(-x): stays between 0 and 1; the sign is part of the operand and costs nothing.
__device__ __forceinline__ void ex2(float& x) {
    asm volatile("{ .reg .f32 t; neg.f32 t, %0; ex2.approx.ftz.f32 %0, t; }" : "+f"(x));
}

BENCH(fma_f32, float, float, 32, (float)(threadIdx.x + k), x[k] = fmaf(x[k], a, b))
BENCH(fma_f64, double, double, 16, (double)(threadIdx.x + k), x[k] = fma(x[k], a, b))
BENCH(int_mad, unsigned, unsigned, 32, threadIdx.x + k, imad(x[k], a, b))
BENCH(int_add, unsigned, unsigned, 32, threadIdx.x + k + a,
      iadd(x[k], x[(k + 1) % CHAINS], x[(k + 3) % CHAINS]))
BENCH(ex2_f32, float, float, 16, (float)(threadIdx.x + k) * a, ex2(x[k]))

// Conflict-free 16-byte loads: a warp's 512 bytes are four wavefronts of all 32 banks.
extern "C" __global__ void __launch_bounds__(1024)
    shared_read(unsigned* sink, long long* cycles, unsigned a, unsigned b, int n) {
    __shared__ uint4 tile[1024];
    tile[threadIdx.x] = make_uint4(threadIdx.x, a, b, 0);
    __syncthreads();
    const unsigned at = (unsigned)__cvta_generic_to_shared(tile) + (threadIdx.x & 511) * 16;
    unsigned all = 0;
    const long long start = clock64();
#pragma unroll 1
    for (int i = 0; i < n; ++i) {
#pragma unroll
        for (int s = 0; s < 16; ++s) {
            uint4 v;
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                         : "r"(at + s * 512));
            all ^= v.x ^ v.y ^ v.z ^ v.w;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
    sink[blockIdx.x * 1024 + threadIdx.x] = all;
}
