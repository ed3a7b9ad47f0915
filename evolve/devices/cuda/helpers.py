"""Kernels of our own that the worker runs beside a candidate, and what they mean.

ev_read       reads a buffer, so that L2 holds clean lines of it
ev_empty      nothing: what a launch costs
ev_wait       nothing, for so many cycles of an SM: touches no memory
ev_digest     a keyed 64-bit digest of bytes; sums of mixed words, so it does not depend on the order
ev_left       counts elements that still are poison
ev_compare_T  counts elements outside their bounds, as `devices.compare.within` judges them
ev_bounds_T   the bounds that a value and its tolerance make, as `devices.compare.bounds` does
"""

from __future__ import annotations

import functools

from evolve.ir.errors import EvolveError
from evolve.toolchain.nvrtc import compile_cuda

TYPES = {
    "float32": ("f32", "float"),
    "float64": ("f64", "double"),
    "int32": ("i32", "int"),
    "uint32": ("u32", "unsigned int"),
    "int64": ("i64", "long long"),
    "uint64": ("u64", "unsigned long long"),
    "uint8": ("u8", "unsigned char"),
    "bool": ("bool", "unsigned char"),
}
"""numpy name to (suffix, C type) of the comparing kernels."""

_LIMITS = {
    "i32": ("(-2147483647 - 1)", "2147483647"),
    "u32": ("0u", "4294967295u"),
    "i64": ("(-9223372036854775807ll - 1)", "9223372036854775807ll"),
    "u64": ("0ull", "18446744073709551615ull"),
    "u8": ("0", "255"),
    "bool": ("0", "1"),
}
"""Suffix of an integer type to its least and greatest value as C text."""

BLOCK = 256

_COMMON = """
typedef unsigned long long u64;
#define STRIDE (u64)gridDim.x * blockDim.x
#define FIRST (u64)blockIdx.x * blockDim.x + threadIdx.x

__device__ inline u64 mix(u64 x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// Never stores: `never` is a value that the parent draws, and no compiler can know that.
extern "C" __global__ void ev_read(const uint4* x, u64 n, unsigned int* sink, unsigned int never) {
    unsigned int a = 0;
    for (u64 i = FIRST; i < n; i += STRIDE) {
        const uint4 v = x[i];
        a += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (a == never) *sink = a;
}

extern "C" __global__ void ev_empty(unsigned int nothing) {}

extern "C" __global__ void ev_wait(u64 cycles) {
    const u64 begin = clock64();
    while (clock64() - begin < cycles) {}
}

extern "C" __global__ void ev_digest(const unsigned char* x, u64 bytes, u64 key, u64* out) {
    u64 sum = 0;
    const u64 words = ((u64)x & 3) ? 0 : bytes / 4;
    const unsigned int* w = (const unsigned int*)x;
    for (u64 i = FIRST; i < words; i += STRIDE) sum += mix(w[i] ^ mix(key + 4 * i));
    for (u64 i = 4 * words + FIRST; i < bytes; i += STRIDE) sum += mix(x[i] ^ mix(key + i));
    for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (threadIdx.x % 32 == 0 && sum) atomicAdd(out, sum);
}

__device__ inline bool is_poison(const unsigned char* got, int size, u64 at, unsigned int poison) {
    bool same = true;
    for (int b = 0; b < size; ++b) same &= got[b] == (unsigned char)(poison >> (8 * ((at + b) & 3)));
    return same;
}

extern "C" __global__ void ev_left(const unsigned char* x, u64 n, int size, unsigned int poison, u64* out) {
    u64 count = 0;
    for (u64 i = FIRST; i < n; i += STRIDE) count += is_poison(x + i * size, size, i * size, poison);
    if (count) atomicAdd(out, count);
}
"""

_COMPARE = """
// out: elements that are wrong, the first of them, the worst error as the bits of a double.
extern "C" __global__ void ev_compare_@S(const @T* got, const @T* low, const @T* high, u64 n,
                                         unsigned int poison, u64* out) {
    u64 wrong = 0;
    for (u64 i = FIRST; i < n; i += STRIDE) {
        const @T g = got[i], a = low[i], b = high[i];
        if (ANY_@S(a, b)) continue;
        const bool left = is_poison((const unsigned char*)(got + i), sizeof(@T), sizeof(@T) * i, poison);
        const double inf = 1e300 * 1e300, half = ((double)b - (double)a) * 0.5;
        bool right;
        double worst = inf;
        if (LEFT_@S(a, b)) {
            right = left;
        } else if (a != a) {
            right = g != g && !left;
        } else {
            right = a <= g && g <= b;
            const double off = fabs((double)g - (double)a - half);
            if (half > 0.0 && half < inf && off < inf) worst = off / half;
        }
        if (right && worst == inf) worst = 0.0;
        if (!right) {
            ++wrong;
            atomicMin(out + 1, i);
        }
        if (worst > 0.0 && (u64)__double_as_longlong(worst) > *(volatile u64*)(out + 2))
            atomicMax(out + 2, (u64)__double_as_longlong(worst));
    }
    if (wrong) atomicAdd(out, wrong);
}
"""

_FLOAT_RULES = """
#define ANY_@S(a, b) ((a) - (a) != 0 && (b) - (b) != 0 && (a) < 0 && (b) > 0)
#define LEFT_@S(a, b) ((a) - (a) != 0 && (b) - (b) != 0 && (a) > 0 && (b) < 0)
"""
_INTEGER_RULES = """
#define ANY_@S(a, b) false
#define LEFT_@S(a, b) ((a) == (@T)@MAX && (b) == (@T)@MIN)
"""

_BOUNDS = """
extern "C" __global__ void ev_bounds_f32(const double* v, const double* e, double factor, u64 n, float* low,
                                         float* high) {
    for (u64 i = FIRST; i < n; i += STRIDE) {
        const double x = v[i], t = factor * e[i];
        const bool any = t - t != 0.0 && t > 0.0, point = x - x != 0.0 || t != t;
        low[i] = any ? -1e300f : point ? (float)x : __double2float_ru(x - t);
        high[i] = any ? 1e300f : point ? (float)x : __double2float_rd(x + t);
    }
}
extern "C" __global__ void ev_bounds_f64(const double* v, const double* e, double factor, u64 n, double* low,
                                         double* high) {
    for (u64 i = FIRST; i < n; i += STRIDE) {
        const double x = v[i], t = factor * e[i], inf = 1e300 * 1e300;
        const bool any = t - t != 0.0 && t > 0.0, point = x - x != 0.0 || t != t;
        low[i] = any ? -inf : point ? x : x - t;
        high[i] = any ? inf : point ? x : x + t;
    }
}
"""
_INTEGER_BOUNDS = """
extern "C" __global__ void ev_bounds_@S(const double* v, const double* e, double factor, u64 n, @T* low,
                                        @T* high) {
    for (u64 i = FIRST; i < n; i += STRIDE) {
        const double x = v[i], t = factor * e[i], a = ceil(x - t), b = floor(x + t), inf = 1e300 * 1e300;
        // From 2^53 on several integers round to one double.
        low[i] = a <= (double)@MIN ? @MIN : (@T)a - (@T)((a - nextafter(a, -inf)) * 0.5);
        high[i] = b >= (double)@MAX ? @MAX : (@T)b + (@T)((nextafter(b, inf) - b) * 0.5);
    }
}
"""


def helper_text() -> str:
    """The CUDA text of all of them."""
    parts = [_COMMON]
    for suffix, c_type in TYPES.values():
        is_float = suffix not in _LIMITS
        text = _FLOAT_RULES + _COMPARE if is_float else _INTEGER_RULES + _COMPARE + _INTEGER_BOUNDS
        least, greatest = _LIMITS.get(suffix, ("", ""))
        for mark, word in (("@S", suffix), ("@T", c_type), ("@MIN", least), ("@MAX", greatest)):
            text = text.replace(mark, word)
        parts.append(text)
    return "\n".join([*parts, _BOUNDS]).replace("1e300f", "__int_as_float(0x7f800000)")


@functools.cache
def helper_image(arch: str) -> bytes:
    """The cubin of `helper_text`. Raises EvolveError as `compile_cuda`, and `helpers` when it is rejected."""
    built = compile_cuda(helper_text(), arch)
    if built.cubin is None:
        raise EvolveError("helpers", f"the worker's own kernels do not compile: {built.log}")
    return built.cubin
