// Streams through DRAM and reads of L2. All work on one buffer, `memory`; `from` and `to` count elements.
// Every grid covers its elements exactly, so nothing but the accesses is in the way.

#define THREADS 256

// N elements a thread, a whole block's width apart; all loads are under way before the first store.
#define COPY(name, T, N)                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS)                                             \
        name(T* memory, unsigned* sink, long long from, long long to) {                               \
        const long long i = (long long)blockIdx.x * (THREADS * N) + threadIdx.x;                      \
        T v[N];                                                                                       \
        _Pragma("unroll") for (int k = 0; k < N; ++k) v[k] = memory[from + i + k * THREADS];          \
        _Pragma("unroll") for (int k = 0; k < N; ++k) memory[to + i + k * THREADS] = v[k];            \
    }

COPY(copy_16b_1, uint4, 1)
COPY(copy_16b_2, uint4, 2)
COPY(copy_16b_4, uint4, 4)
COPY(copy_4b, unsigned, 1)

#define READ(name, N)                                                                                 \
    extern "C" __global__ void __launch_bounds__(THREADS)                                             \
        name(const uint4* memory, unsigned* sink, long long from, long long to) {                     \
        const long long i = (long long)blockIdx.x * (THREADS * N) + threadIdx.x;                      \
        unsigned all = 0;                                                                             \
        _Pragma("unroll") for (int k = 0; k < N; ++k) {                                               \
            const uint4 v = memory[from + i + k * THREADS];                                           \
            all ^= v.x ^ v.y ^ v.z ^ v.w;                                                             \
        }                                                                                             \
        /* A use that the compiler cannot rule out and that next to never happens. */                 \
        if (all == 0x9e3779b9u) sink[threadIdx.x] = all;                                              \
    }

READ(read_4, 4)
READ(read_8, 8)

#define WRITE(name, N)                                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS)                                             \
        name(uint4* memory, unsigned* sink, long long from, long long to) {                           \
        const long long i = (long long)blockIdx.x * (THREADS * N) + threadIdx.x;                      \
        const unsigned x = (unsigned)i * 2654435761u;                                                 \
        _Pragma("unroll") for (int k = 0; k < N; ++k)                                                 \
            memory[to + i + k * THREADS] = make_uint4(x, ~x, x ^ k, x + k);                           \
    }

WRITE(write_1, 1)
WRITE(write_4, 4)

#define TRIAD(name, N)                                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS)                                             \
        name(uint4* memory, unsigned* sink, long long from, long long to) {                           \
        const long long i = (long long)blockIdx.x * (THREADS * N) + threadIdx.x;                      \
        uint4 a[N], b[N];                                                                             \
        /* The second input lies as far behind the first as the output behind the second. */          \
        const long long next = from + (to - from) / 2;                                                \
        _Pragma("unroll") for (int k = 0; k < N; ++k) a[k] = memory[from + i + k * THREADS];          \
        _Pragma("unroll") for (int k = 0; k < N; ++k) b[k] = memory[next + i + k * THREADS];          \
        _Pragma("unroll") for (int k = 0; k < N; ++k)                                                 \
            memory[to + i + k * THREADS] =                                                            \
                make_uint4(a[k].x + 3 * b[k].x, a[k].y + 3 * b[k].y, a[k].z + 3 * b[k].z,             \
                           a[k].w + 3 * b[k].w);                                                      \
    }

TRIAD(triad_1, 1)
TRIAD(triad_2, 2)

__device__ __forceinline__ uint4 load_past_l1(const uint4* at) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at));
    return v;
}

// Each block reads, `n` times L2_LOADS, a tile of 16 KiB out of `tiles`, in a random order of its own. In a common
// order the SMs catch up with one another and then share what is on its way to them: that passes for twice the
// rate of L2.
#define L2_LOADS 8

extern "C" __global__ void __launch_bounds__(1024)
    l2_read(const uint4* memory, unsigned* sink, long long* cycles, int tiles, int n) {
    unsigned all = 0;
    unsigned random = blockIdx.x * 2654435761u + 12345u;
    __syncthreads();
    const long long start = clock64();
#pragma unroll 1
    for (int i = 0; i < n; ++i) {
        uint4 v[L2_LOADS];
#pragma unroll
        for (int k = 0; k < L2_LOADS; ++k) {
            random = random * 1664525u + 1013904223u;
            v[k] = load_past_l1(memory + __umulhi(random, tiles) * 1024 + threadIdx.x);
        }
#pragma unroll
        for (int k = 0; k < L2_LOADS; ++k) all ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - start;
    sink[blockIdx.x * 1024 + threadIdx.x] = all;
}

extern "C" __global__ void empty(int unused) {}
