// Load-to-use latencies by chasing pointers with one thread. The chains hold addresses, so that between two
// loads there is nothing else.

// Makes of the cells `slots[0..count)` of `cells` (8 bytes each) one ring, in this order.
extern "C" __global__ void link(const unsigned* slots, unsigned long long* cells, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        cells[slots[i]] = (unsigned long long)__cvta_generic_to_global(cells + slots[i + 1 == count ? 0 : i + 1]);
}

// Reads `count` times 16 bytes, so that L2 holds these and nothing else.
extern "C" __global__ void sweep(const uint4* other, unsigned long long* result, long long count) {
    unsigned all = 0;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
         i += (long long)gridDim.x * blockDim.x) {
        const uint4 v = other[i];
        all ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    if (all == 0x9e3779b9u) result[3] = all;
}

__device__ __forceinline__ unsigned long long nanoseconds() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

#define HOPS 32

// `warm` and `timed` count rounds of HOPS loads. result: SM clocks, nanoseconds, the cell where it ended.
#define CHASE(name, HOP)                                                                              \
    extern "C" __global__ void name(const unsigned* slots, unsigned long long* cells,                 \
                                    unsigned long long* result, int warm, int timed) {                \
        unsigned long long at = (unsigned long long)__cvta_generic_to_global(cells + slots[0]);       \
        _Pragma("unroll 1") for (int i = 0; i < warm; ++i) {                                          \
            _Pragma("unroll") for (int k = 0; k < HOPS; ++k) HOP;                                     \
        }                                                                                             \
        const unsigned long long t0 = nanoseconds();                                                  \
        const long long start = clock64();                                                            \
        _Pragma("unroll 1") for (int i = 0; i < timed; ++i) {                                         \
            _Pragma("unroll") for (int k = 0; k < HOPS; ++k) HOP;                                     \
        }                                                                                             \
        result[0] = clock64() - start;                                                                \
        result[1] = nanoseconds() - t0;                                                               \
        result[2] = (at - (unsigned long long)__cvta_generic_to_global(cells)) / 8;                   \
    }

// As any program loads; L1 keeps it. The other passes L1 by.
CHASE(chase_l1, asm volatile("ld.global.u64 %0, [%0];" : "+l"(at)))
CHASE(chase_l2, asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)))

// The same in shared memory, where an address has 32 bits; the slots are below 4096.
extern "C" __global__ void chase_shared(const unsigned* slots, unsigned long long* result, int count, int warm,
                                        int timed) {
    __shared__ unsigned cells[4096];
    const unsigned base = (unsigned)__cvta_generic_to_shared(cells);
    for (int i = 0; i < count; ++i) cells[slots[i]] = base + 4 * slots[i + 1 == count ? 0 : i + 1];
    __syncthreads();
    unsigned at = base + 4 * slots[0];
#pragma unroll 1
    for (int i = 0; i < warm; ++i) {
#pragma unroll
        for (int k = 0; k < HOPS; ++k) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at));
    }
    const unsigned long long t0 = nanoseconds();
    const long long start = clock64();
#pragma unroll 1
    for (int i = 0; i < timed; ++i) {
#pragma unroll
        for (int k = 0; k < HOPS; ++k) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at));
    }
    result[0] = clock64() - start;
    result[1] = nanoseconds() - t0;
    result[2] = (at - base) / 4;
}
