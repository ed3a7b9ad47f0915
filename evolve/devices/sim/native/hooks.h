// The call-backs of -fsanitize=thread, and the ones of the atomics in the device header.
#pragma once

// Not in the arena: a fiber's own stack and the program's constants are no memory traffic; anything
// else is a wild pointer, and the access must not happen.
static __attribute__((noinline)) void outside(u64 address, u64 size, bool write, u64 pc) {
    if (address - (u64)stacks < (u64)(stacks_end - stacks)) return;
    if (address - (u64)image < (u64)(image_end - image)) return;
    if (mode == PLAIN) return;
    Finding* f = report_access(OUT_OF_BOUNDS, address, size, write, pc);
    if (f) f->extra = 2;
    abandon(STOPPED);
}

static __attribute__((noinline)) void out_of_quantum(u64 pc) {
    Finding* f = report(TIMEOUT, pc, 0);
    if (f) f->extra = 1;
    abandon(STOPPED);
}

// Every access as it comes: what the conformance file is compared with.
static void record_access(u64 address, u64 size, u64 kind, u64 pc) {
    if (job->n_records >= job->max_records) abandon(LIMIT);
    Record* r = (Record*)(file + job->off_records) + job->n_records++;
    r->block = block_linear;
    r->thread = cur;
    r->pc = pc - (u64)image;
    r->offset = address - ARENA;
    r->size = size;
    r->kind = kind;
}

template <bool WRITE>
static inline void access(void* p, u64 size, u64 align, u64 atomic, u64 pc) {
    u64 a = (u64)p;
    if (a - ARENA >= arena_bytes) {
        outside(a, size, WRITE, pc);
        return;
    }
    accesses++;
    if (UNLIKELY(--quantum_left == 0)) out_of_quantum(pc);
    if (mode == CHECK) check_access<WRITE>(a, size, pc, align, atomic);
    else if (mode == TRACE) trace_access(a, size, WRITE, pc);
    else if (mode == RECORD) record_access(a, size, atomic ? 2 : WRITE, pc);
}

// Ranges come from copies of whole structures: sequences of word or byte accesses.
template <bool WRITE> static void range(void* p, u64 size, u64 pc) {
    u64 a = (u64)p, step = ((a | size) & 3) ? 1 : 4;
    if (a - ARENA >= arena_bytes) {
        if (size) outside(a, size, WRITE, pc);
        return;
    }
    for (u64 i = 0; i < size; i += step) access<WRITE>((void*)(a + i), step, step, 0, pc);
}

static void* move(void* d, const void* s, u64 n, u64 pc) {
    if (in_fiber) {
        range<false>((void*)s, n, pc);
        range<true>(d, n, pc);
    }
    if (d <= s || (u8*)d >= (const u8*)s + n) copy_bytes(d, s, n);
    else for (u64 i = n; i-- > 0;) ((u8*)d)[i] = ((const u8*)s)[i];
    return d;
}

#define PC ((u64)__builtin_return_address(0))
#define ACCESS_HOOKS(N)                                                                     \
    HIDDEN void __tsan_read##N(void* p) { access<false>(p, N, N, 0, PC); }                    \
    HIDDEN void __tsan_write##N(void* p) { access<true>(p, N, N, 0, PC); }                    \
    HIDDEN void __tsan_volatile_read##N(void* p) { access<false>(p, N, N, 0, PC); }           \
    HIDDEN void __tsan_volatile_write##N(void* p) { access<true>(p, N, N, 0, PC); }           \
    HIDDEN void __tsan_unaligned_read##N(void* p) { access<false>(p, N, N, 0, PC); }          \
    HIDDEN void __tsan_unaligned_write##N(void* p) { access<true>(p, N, N, 0, PC); }          \
    HIDDEN void __tsan_unaligned_volatile_read##N(void* p) { access<false>(p, N, N, 0, PC); } \
    HIDDEN void __tsan_unaligned_volatile_write##N(void* p) { access<true>(p, N, N, 0, PC); } \
    HIDDEN void __tsan_read_write##N(void* p) {                                               \
        access<false>(p, N, N, 0, PC);                                                        \
        access<true>(p, N, N, 0, PC);                                                         \
    }                                                                                         \
    HIDDEN void __tsan_unaligned_read_write##N(void* p) {                                     \
        access<false>(p, N, N, 0, PC);                                                        \
        access<true>(p, N, N, 0, PC);                                                         \
    }
#define ATOMIC_HOOKS(BITS, T)                                                               \
    HIDDEN T __tsan_atomic##BITS##_load(const volatile T* p, int) {                           \
        access<true>((void*)p, BITS / 8, BITS / 8, 1, PC);                                    \
        return *p;                                                                            \
    }                                                                                         \
    HIDDEN void __tsan_atomic##BITS##_store(volatile T* p, T v, int) {                        \
        access<true>((void*)p, BITS / 8, BITS / 8, 1, PC);                                    \
        *p = v;                                                                               \
    }                                                                                         \
    ATOMIC_OP(BITS, T, exchange, v) ATOMIC_OP(BITS, T, fetch_add, old + v)                    \
    ATOMIC_OP(BITS, T, fetch_sub, old - v) ATOMIC_OP(BITS, T, fetch_and, old & v)             \
    ATOMIC_OP(BITS, T, fetch_or, old | v) ATOMIC_OP(BITS, T, fetch_xor, old ^ v)              \
    HIDDEN T __tsan_atomic##BITS##_compare_exchange_val(volatile T* p, T c, T v, int, int) {  \
        access<true>((void*)p, BITS / 8, BITS / 8, 1, PC);                                    \
        T old = *p;                                                                           \
        if (old == c) *p = v;                                                                 \
        return old;                                                                           \
    }                                                                                         \
    HIDDEN int __tsan_atomic##BITS##_compare_exchange_strong(volatile T* p, T* c, T v, int, int) { \
        access<true>((void*)p, BITS / 8, BITS / 8, 1, PC);                                    \
        T old = *p;                                                                           \
        if (old == *c) { *p = v; return 1; }                                                  \
        *c = old;                                                                             \
        return 0;                                                                             \
    }
#define ATOMIC_OP(BITS, T, NAME, EXPR)                                                      \
    HIDDEN T __tsan_atomic##BITS##_##NAME(volatile T* p, T v, int) {                          \
        access<true>((void*)p, BITS / 8, BITS / 8, 1, PC);                                    \
        T old = *p;                                                                           \
        *p = (T)(EXPR);                                                                       \
        return old;                                                                           \
    }

extern "C" {
ACCESS_HOOKS(1) ACCESS_HOOKS(2) ACCESS_HOOKS(4) ACCESS_HOOKS(8) ACCESS_HOOKS(16)
ATOMIC_HOOKS(8, u8) ATOMIC_HOOKS(16, u16) ATOMIC_HOOKS(32, u32) ATOMIC_HOOKS(64, u64)
HIDDEN void __tsan_read_range(void* p, u64 n) { range<false>(p, n, PC); }
HIDDEN void __tsan_write_range(void* p, u64 n) { range<true>(p, n, PC); }
#define COPY_HOOKS(PREFIX)                                                                  \
    HIDDEN void* PREFIX##memcpy(void* d, const void* s, size_t n) { return move(d, s, n, PC); } \
    HIDDEN void* PREFIX##memmove(void* d, const void* s, size_t n) { return move(d, s, n, PC); } \
    HIDDEN void* PREFIX##memset(void* d, int v, size_t n) {                                   \
        if (in_fiber) range<true>(d, n, PC);                                                  \
        fill_bytes(d, (u8)v, n);                                                              \
        return d;                                                                             \
    }
COPY_HOOKS(__tsan_) COPY_HOOKS()
HIDDEN void __tsan_init(void) {}
HIDDEN void __tsan_func_entry(void*) {}
HIDDEN void __tsan_func_exit(void) {}
HIDDEN void __tsan_vptr_update(void**, void*) {}
HIDDEN void __tsan_vptr_read(void**) {}
HIDDEN void __tsan_atomic_thread_fence(int) {}
HIDDEN void __tsan_atomic_signal_fence(int) {}
HIDDEN void ev_atomic(void* p, int size, void* pc) {
    if (mode == TRACE) launch_stats[launch_no].atomics++;
    // A thread that does nothing but atomics may be waiting for another one: let that one run.
    if (++atomics_in_a_row[cur] % 4096 == 0) yield();
    access<true>(p, size, size, 1, (u64)pc);
    if (mode == CHECK) note_atomic((u64)p);
}
HIDDEN void ev_fence(int scope) {
    if (mode == CHECK && scope > 0) note_fence();
}
HIDDEN void ev_bad_call(void) { abandon(BAD_CALL); }
HIDDEN void ev_trap(void) {
    Finding* f = report(CRASH, PC, 0);
    if (f) f->extra = 1000;
    abandon(STOPPED);
}
}
