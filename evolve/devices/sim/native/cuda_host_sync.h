// Barriers, warp collectives, atomics and the calling convention of a kernel launch.
#pragma once

extern "C" {
EV_HIDDEN int ev_barrier(int kind, int predicate, int site, int line);
EV_HIDDEN uint64_t ev_meet(int kind, uint32_t mask, uint64_t value, int source, int line);
EV_HIDDEN void ev_atomic(void* p, int size, void* pc);
EV_HIDDEN void ev_fence(int scope);
EV_HIDDEN uint32_t ev_active_mask(int line);
EV_HIDDEN void ev_copy_start(void* to, const void* from, size_t bytes, void* pc);
EV_HIDDEN void ev_copy_commit(void);
EV_HIDDEN void ev_copy_wait(int pending);
EV_HIDDEN void* ev_shared(int id, size_t bytes, size_t align);
EV_HIDDEN void* ev_placed(int id, size_t offset, size_t bytes, int line);
EV_HIDDEN void ev_bad_call(void);
EV_HIDDEN void ev_trap(void);
}

// Where the runtime puts the dynamic array: the first place after the arena's head (schedule.h).
#define EV_DYNAMIC_SHARED ((char*)((1ull << 36) + (1 << 16) + 256))

// The site is a constant of the text, not the return address: an optimiser may duplicate a call.
#define __syncthreads() ((void)ev_barrier(0, 0, __COUNTER__, __LINE__))
#define __syncthreads_count(p) ev_barrier(1, (p) != 0, __COUNTER__, __LINE__)
#define __syncthreads_and(p) ev_barrier(2, (p) != 0, __COUNTER__, __LINE__)
#define __syncthreads_or(p) ev_barrier(3, (p) != 0, __COUNTER__, __LINE__)
#define __threadfence() ev_fence(1)
#define __threadfence_block() ev_fence(0)
#define __threadfence_system() ev_fence(2)
#define __trap() ev_trap()

enum { EV_SYNCWARP = 1, EV_SHFL, EV_BALLOT, EV_ADD_I, EV_ADD_U, EV_MIN_I, EV_MIN_U, EV_MAX_I, EV_MAX_U,
       EV_AND, EV_OR, EV_XOR, EV_MATCH };

EV_INLINE void ev_syncwarp(int line, uint32_t mask = 0xffffffffu) { ev_meet(EV_SYNCWARP, mask, 0, -1, line); }
#define __activemask() ev_active_mask(__LINE__)
EV_INLINE unsigned ev_lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31u;
}

// A value of 1 to 8 bytes, carried through a shuffle as 64 bits.
template <class T> EV_INLINE uint64_t ev_pack(T v) {
    static_assert(sizeof(T) <= 8, "shuffles carry at most 8 bytes");
    union U { uint64_t u; T t; EV_INLINE U() : u(0) {} } x;
    x.t = v;
    return x.u;
}
template <class T> EV_INLINE T ev_unpack(uint64_t v) {
    union U { uint64_t u; T t; EV_INLINE U(uint64_t a) : u(a) {} } x(v);
    return x.t;
}
template <class T> EV_INLINE T ev_shfl(int line, uint32_t mask, T v, int src) {
    return ev_unpack<T>(ev_meet(EV_SHFL, mask, ev_pack(v), src, line));
}
template <class T> EV_INLINE T ev_shfl_idx(int line, uint32_t mask, T v, int src, int width = 32) {
    int lane = (int)ev_lane(), base = lane & ~(width - 1);
    return ev_shfl(line, mask, v, base + (src & (width - 1)));
}
template <class T> EV_INLINE T ev_shfl_xor(int line, uint32_t mask, T v, int x, int width = 32) {
    int lane = (int)ev_lane(), end = (lane & ~(width - 1)) + width, src = lane ^ x;
    return ev_shfl(line, mask, v, src < end ? src : lane);
}
template <class T> EV_INLINE T ev_shfl_down(int line, uint32_t mask, T v, unsigned d, int width = 32) {
    int lane = (int)ev_lane(), end = (lane & ~(width - 1)) + width, src = lane + (int)d;
    return ev_shfl(line, mask, v, src < end ? src : lane);
}
template <class T> EV_INLINE T ev_shfl_up(int line, uint32_t mask, T v, unsigned d, int width = 32) {
    int lane = (int)ev_lane(), base = lane & ~(width - 1), src = lane - (int)d;
    return ev_shfl(line, mask, v, src >= base ? src : lane);
}
#define __syncwarp(...) ev_syncwarp(__LINE__, ##__VA_ARGS__)
#define __shfl_sync(...) ev_shfl_idx(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) ev_shfl_xor(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) ev_shfl_down(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) ev_shfl_up(__LINE__, __VA_ARGS__)
#define __ballot_sync(m, p) ((unsigned)ev_meet(EV_BALLOT, (m), (p) != 0, -1, __LINE__))
#define __any_sync(m, p) (__ballot_sync(m, p) != 0)
#define __all_sync(m, p) (__ballot_sync(m, !(p)) == 0)
#define __match_any_sync(m, v) ((unsigned)ev_meet(EV_MATCH, (m), ev_pack(v), -1, __LINE__))

EV_INLINE int ev_reduce(int kind, int line, unsigned m, int v) { return (int)ev_meet(kind, m, (uint64_t)(int64_t)v, -1, line); }
EV_INLINE unsigned ev_reduce(int kind, int line, unsigned m, unsigned v) { return (unsigned)ev_meet(kind + 1, m, v, -1, line); }
#define __reduce_add_sync(m, v) ev_reduce(EV_ADD_I, __LINE__, m, v)
#define __reduce_min_sync(m, v) ev_reduce(EV_MIN_I, __LINE__, m, v)
#define __reduce_max_sync(m, v) ev_reduce(EV_MAX_I, __LINE__, m, v)
#define __reduce_and_sync(m, v) ((unsigned)ev_meet(EV_AND, m, v, -1, __LINE__))
#define __reduce_or_sync(m, v) ((unsigned)ev_meet(EV_OR, m, v, -1, __LINE__))
#define __reduce_xor_sync(m, v) ((unsigned)ev_meet(EV_XOR, m, v, -1, __LINE__))

// Threads of a block take turns on one CPU thread, so a plain update is atomic; the hook tells the
// checker that it is. noinline, so that the return address names the line of the call.
#define EV_ATOMIC(NAME, EXPR)                                                          \
    template <class T, class V> EV_PLAIN T NAME(T* p, V w) {                           \
        ev_atomic((void*)p, (int)sizeof(T), __builtin_return_address(0));              \
        T old = *p, v = (T)w;                                                          \
        *p = (EXPR);                                                                   \
        return old;                                                                    \
    }
EV_ATOMIC(atomicAdd, old + v) EV_ATOMIC(atomicSub, old - v) EV_ATOMIC(atomicExch, v)
EV_ATOMIC(atomicMin, v < old ? v : old) EV_ATOMIC(atomicMax, v > old ? v : old)
EV_ATOMIC(atomicAnd, old & v) EV_ATOMIC(atomicOr, old | v) EV_ATOMIC(atomicXor, old ^ v)
EV_ATOMIC(atomicInc, old >= v ? 0 : old + 1) EV_ATOMIC(atomicDec, (old == 0 || old > v) ? v : old - 1)
template <class T, class C, class V> EV_PLAIN T atomicCAS(T* p, C c, V v) {
    ev_atomic((void*)p, (int)sizeof(T), __builtin_return_address(0));
    T old = *p;
    if (old == (T)c) *p = (T)v;
    return old;
}

// Asynchronous copies (cuda_pipeline.h). noinline, so that the return address names the line of the call.
template <class T, class F> EV_PLAIN void __pipeline_memcpy_async(T* to, const F* from, size_t bytes) {
    ev_copy_start((void*)to, (const void*)from, bytes, __builtin_return_address(0));
}
EV_INLINE void __pipeline_commit() { ev_copy_commit(); }
EV_INLINE void __pipeline_wait_prior(int pending) { ev_copy_wait(pending); }

// A launch passes each argument as a tagged 8-byte value; the parameter's own type decides.
struct ev_arg { uint64_t kind; union { void* p; int64_t i; uint64_t u; double d; }; };
template <class T> struct ev_param {
    static EV_INLINE T get(const ev_arg& a) {
        if (a.kind == 0) ev_bad_call();
        return a.kind == 1 ? (T)a.i : a.kind == 2 ? (T)a.u : (T)a.d;
    }
};
template <class T> struct ev_param<T*> {
    static EV_INLINE T* get(const ev_arg& a) {
        if (a.kind != 0) ev_bad_call();
        return (T*)a.p;
    }
};
template <size_t...> struct ev_seq {};
template <size_t N, size_t... I> struct ev_make : ev_make<N - 1, N - 1, I...> {};
template <size_t... I> struct ev_make<0, I...> { typedef ev_seq<I...> type; };
template <class... P, size_t... I>
__attribute__((no_sanitize("thread"))) void ev_apply(void (*f)(P...), const ev_arg* a, ev_seq<I...>) {
    f(ev_param<P>::get(a[I])...);
}
template <class... P>
__attribute__((no_sanitize("thread"))) void ev_invoke(void (*f)(P...), const ev_arg* a, int n) {
    if (n != (int)sizeof...(P)) ev_bad_call();
    ev_apply(f, a, typename ev_make<sizeof...(P)>::type());
}
#define EV_LAUNCHER(NAME)                                                              \
    extern "C" __attribute__((visibility("default"), no_sanitize("thread"))) void ev_launch_##NAME(const ev_arg* a, int n) { ev_invoke(NAME, a, n); }
