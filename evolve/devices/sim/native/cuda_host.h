// The CUDA language as the host compiler sees it. Force-included before prepared device text.
//
// No header of the system is needed, so that a bare compiler is enough. Vector types carry a
// vector_size member that all copies go through: one load or store is one access, as on the GPU.
#pragma once

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;

#define EV_HIDDEN __attribute__((visibility("hidden")))
// nodebug: inlined code takes the line of the call. gcc has no such attribute (see elf.py).
#if defined(__clang__)
#define EV_INLINE inline __attribute__((always_inline, nodebug))
#else
#define EV_INLINE inline __attribute__((always_inline))
#endif
#define EV_PLAIN __attribute__((noinline, no_sanitize("thread")))

extern "C" {
float expf(float); float exp2f(float); float exp10f(float); float expm1f(float); float logf(float);
float log2f(float); float log10f(float); float log1pf(float); float sqrtf(float); float cbrtf(float);
float sinf(float); float cosf(float); float tanf(float); float asinf(float); float acosf(float);
float atanf(float); float atan2f(float, float); float sinhf(float); float coshf(float); float tanhf(float);
float asinhf(float); float acoshf(float); float atanhf(float); float erff(float); float erfcf(float);
float tgammaf(float); float lgammaf(float); float powf(float, float); float fmodf(float, float);
float hypotf(float, float); float fmaf(float, float, float); float floorf(float); float ceilf(float);
float truncf(float); float roundf(float); float rintf(float); float nearbyintf(float);
float ldexpf(float, int); float copysignf(float, float); float fdimf(float, float);
float remainderf(float, float);
double exp(double); double exp2(double); double exp10(double); double expm1(double); double log(double);
double log2(double); double log10(double); double log1p(double); double sqrt(double); double cbrt(double);
double sin(double); double cos(double); double tan(double); double asin(double); double acos(double);
double atan(double); double atan2(double, double); double sinh(double); double cosh(double);
double tanh(double); double asinh(double); double acosh(double); double atanh(double); double erf(double);
double erfc(double); double tgamma(double); double lgamma(double); double pow(double, double);
double fmod(double, double); double hypot(double, double); double fma(double, double, double);
double floor(double); double ceil(double); double trunc(double); double round(double); double rint(double);
double nearbyint(double); double ldexp(double, int); double copysign(double, double);
double fdim(double, double); double remainder(double, double);
}

#define EV_MATH1(name) EV_INLINE float name(float x) { return name##f(x); }
EV_MATH1(exp) EV_MATH1(exp2) EV_MATH1(exp10) EV_MATH1(expm1) EV_MATH1(log) EV_MATH1(log2) EV_MATH1(log10)
EV_MATH1(log1p) EV_MATH1(sqrt) EV_MATH1(cbrt) EV_MATH1(sin) EV_MATH1(cos) EV_MATH1(tan) EV_MATH1(asin)
EV_MATH1(acos) EV_MATH1(atan) EV_MATH1(sinh) EV_MATH1(cosh) EV_MATH1(tanh) EV_MATH1(asinh) EV_MATH1(acosh)
EV_MATH1(atanh) EV_MATH1(erf) EV_MATH1(erfc) EV_MATH1(tgamma) EV_MATH1(lgamma) EV_MATH1(floor)
EV_MATH1(ceil) EV_MATH1(trunc) EV_MATH1(round) EV_MATH1(rint) EV_MATH1(nearbyint)
EV_INLINE float pow(float a, float b) { return powf(a, b); }
EV_INLINE float pow(float a, int b) { return powf(a, (float)b); }
EV_INLINE double pow(double a, int b) { return pow(a, (double)b); }
EV_INLINE float copysign(float a, float b) { return copysignf(a, b); }
EV_INLINE float fmod(float a, float b) { return fmodf(a, b); }
EV_INLINE float atan2(float a, float b) { return atan2f(a, b); }
EV_INLINE float hypot(float a, float b) { return hypotf(a, b); }
EV_INLINE float fma(float a, float b, float c) { return fmaf(a, b, c); }
EV_INLINE float fabsf(float x) { return __builtin_fabsf(x); }
EV_INLINE double fabs(double x) { return __builtin_fabs(x); }
EV_INLINE float fabs(float x) { return __builtin_fabsf(x); }
EV_INLINE int abs(int x) { return x < 0 ? -x : x; }
EV_INLINE long abs(long x) { return x < 0 ? -x : x; }
EV_INLINE long long abs(long long x) { return x < 0 ? -x : x; }
EV_INLINE float abs(float x) { return __builtin_fabsf(x); }
EV_INLINE double abs(double x) { return __builtin_fabs(x); }
EV_INLINE bool isnan(double x) { return x != x; }
EV_INLINE bool isinf(double x) { return __builtin_isinf(x); }
EV_INLINE bool isfinite(double x) { return __builtin_isfinite(x); }
EV_INLINE bool signbit(double x) { return __builtin_signbit(x); }

// IEEE maxNum and minNum, as the GPU's FMNMX: a NaN operand yields the other one; of two zeros the maximum
// is +0 and the minimum -0.
EV_INLINE float fmaxf(float a, float b) { return a != a ? b : b != b ? a : a == b ? (__builtin_signbitf(b) ? a : b) : a > b ? a : b; }
EV_INLINE float fminf(float a, float b) { return a != a ? b : b != b ? a : a == b ? (__builtin_signbitf(a) ? a : b) : a < b ? a : b; }
EV_INLINE double fmax(double a, double b) { return a != a ? b : b != b ? a : a == b ? (__builtin_signbit(b) ? a : b) : a > b ? a : b; }
EV_INLINE double fmin(double a, double b) { return a != a ? b : b != b ? a : a == b ? (__builtin_signbit(a) ? a : b) : a < b ? a : b; }
EV_INLINE float fmax(float a, float b) { return fmaxf(a, b); }
EV_INLINE float fmin(float a, float b) { return fminf(a, b); }
#define EV_MINMAX(T)                                   \
    EV_INLINE T max(T a, T b) { return a > b ? a : b; } \
    EV_INLINE T min(T a, T b) { return a < b ? a : b; }
EV_MINMAX(int) EV_MINMAX(unsigned) EV_MINMAX(long) EV_MINMAX(unsigned long) EV_MINMAX(long long)
EV_MINMAX(unsigned long long)
EV_INLINE unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
EV_INLINE unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
EV_INLINE unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
EV_INLINE unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
EV_INLINE long min(long a, int b) { return min(a, (long)b); }
EV_INLINE long min(int a, long b) { return min((long)a, b); }
EV_INLINE long max(long a, int b) { return max(a, (long)b); }
EV_INLINE long max(int a, long b) { return max((long)a, b); }
EV_INLINE unsigned long min(unsigned long a, int b) { return min(a, (unsigned long)b); }
EV_INLINE unsigned long min(int a, unsigned long b) { return min((unsigned long)a, b); }
EV_INLINE unsigned long max(unsigned long a, int b) { return max(a, (unsigned long)b); }
EV_INLINE unsigned long max(int a, unsigned long b) { return max((unsigned long)a, b); }
EV_INLINE float max(float a, float b) { return fmaxf(a, b); }
EV_INLINE float min(float a, float b) { return fminf(a, b); }
EV_INLINE double max(double a, double b) { return fmax(a, b); }
EV_INLINE double min(double a, double b) { return fmin(a, b); }
EV_INLINE double max(double a, float b) { return fmax(a, (double)b); }
EV_INLINE double max(float a, double b) { return fmax((double)a, b); }
EV_INLINE double min(double a, float b) { return fmin(a, (double)b); }
EV_INLINE double min(float a, double b) { return fmin((double)a, b); }

EV_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
EV_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
EV_INLINE float rsqrt(float x) { return rsqrtf(x); }
EV_INLINE float rcbrtf(float x) { return 1.0f / cbrtf(x); }
EV_INLINE float normcdff(float x) { return 0.5f * erfcf(-0.70710678118654752f * x); }
EV_INLINE double normcdf(double x) { return 0.5 * erfc(-0.70710678118654752 * x); }
EV_INLINE void sincosf(float x, float* s, float* c) { *s = sinf(x); *c = cosf(x); }
// The fast functions are off by up to what the programming guide allows them, upwards or downwards as a hash of
// the argument says: what passes here does not rest on the host's functions being better than the GPU's.
EV_INLINE double ev_noise(float x) {  // in [-1, 1], and 0 for 0
    unsigned b = 0;
    __builtin_memcpy(&b, &x, 4);
    b *= 2654435769u;
    b ^= b >> 15;
    b *= 2246822519u;
    return (double)(int)(b ^ (b >> 13)) * 0x1p-31;
}
// v off by up to so many ulps, half of one being the rounding to float, and by an absolute error.
EV_INLINE float ev_off(double v, float x, double ulps, double absolute) {
    if (!(v - v == 0.0)) return (float)v;
    const double most = ulps > 0.5 ? (ulps - 0.5) * 0x1p-24 : 0.0;
    return (float)(v + ev_noise(x) * (most * __builtin_fabs(v) + absolute));
}
EV_INLINE float ev_fast_log(double v, float x, double ulps, double near) {
    const bool close = x >= 0.5f && x <= 2.0f;
    return ev_off(v, x, close ? 0.0 : ulps, close ? near - 0x1p-25 : 0.0);
}
EV_INLINE float __expf(float x) {
    const double v = exp((double)x);
    return v > 0.0 ? ev_off(v, x, 2.0 + floor(1.173 * __builtin_fabs((double)x)), 0.0) : (float)v;
}
EV_INLINE float __exp10f(float x) {
    const double v = exp10((double)x);
    return v > 0.0 ? ev_off(v, x, 2.0 + floor(2.97 * __builtin_fabs((double)x)), 0.0) : (float)v;
}
EV_INLINE float __logf(float x) { return ev_fast_log(log((double)x), x, 3.0, 3.5889e-07); }
EV_INLINE float __log2f(float x) { return ev_fast_log(log2((double)x), x, 2.0, 0x1p-22); }
EV_INLINE float __log10f(float x) { return ev_fast_log(log10((double)x), x, 3.0, 0x1p-24); }
EV_INLINE double ev_reduced(float x) {  // what reducing the argument adds outside [-pi, pi]
    const double size = __builtin_fabs((double)x);
    return size > 3.15 ? 0x1p-24 * size : 0.0;
}
EV_INLINE float __sinf(float x) { return ev_off(sin((double)x), x, 0.0, 3.2e-07 + ev_reduced(x)); }
EV_INLINE float __cosf(float x) { return ev_off(cos((double)x), x, 0.0, 3.8e-07 + ev_reduced(x)); }
EV_INLINE float __tanf(float x) { return __sinf(x) / __cosf(x); }
EV_INLINE float __tanhf(float x) {
    const double v = tanh((double)x);
    return ev_off(v, x, 0.0, 0x1.ffp-12 * __builtin_fabs(v));
}
EV_INLINE float __powf(float a, float b) { return exp2f(b * __log2f(a)); }
EV_INLINE float __fdividef(float a, float b) {
    const float size = __builtin_fabsf(b);
    if (size > 0x1p126f && size < __builtin_inff()) return a * 0.0f;  // its reciprocal is flushed
    return ev_off((double)a / (double)b, b, 2.0, 0.0);
}
EV_INLINE float fdividef(float a, float b) { return __fdividef(a, b); }
EV_INLINE float __frcp_rn(float x) { return 1.0f / x; }
EV_INLINE float __fsqrt_rn(float x) { return sqrtf(x); }
EV_INLINE float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }
EV_INLINE float __fdiv_rn(float a, float b) { return a / b; }
EV_INLINE float __fadd_rn(float a, float b) { return a + b; }
EV_INLINE float __fsub_rn(float a, float b) { return a - b; }
EV_INLINE float __fmul_rn(float a, float b) { return a * b; }
EV_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
EV_INLINE double __dadd_rn(double a, double b) { return a + b; }
EV_INLINE double __dmul_rn(double a, double b) { return a * b; }
EV_INLINE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
EV_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
EV_INLINE int __mul24(int a, int b) { return ((a << 8) >> 8) * ((b << 8) >> 8); }
EV_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
EV_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
EV_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
EV_INLINE int __ffs(int x) { return __builtin_ffs(x); }
EV_INLINE unsigned __brev(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= ((x >> i) & 1u) << (31 - i);
    return r;
}
EV_INLINE int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
EV_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
template <class To, class From> EV_INLINE To ev_bits(From v) {
    static_assert(sizeof(To) == sizeof(From), "bit casts keep the size");
    union U { From f; To t; EV_INLINE U(From x) : f(x) {} } u(v);
    return u.t;
}
EV_INLINE int __float_as_int(float x) { return ev_bits<int>(x); }
EV_INLINE unsigned __float_as_uint(float x) { return ev_bits<unsigned>(x); }
EV_INLINE float __int_as_float(int x) { return ev_bits<float>(x); }
EV_INLINE float __uint_as_float(unsigned x) { return ev_bits<float>(x); }
EV_INLINE long long __double_as_longlong(double x) { return ev_bits<long long>(x); }
EV_INLINE double __longlong_as_double(long long x) { return ev_bits<double>(x); }
EV_INLINE int __float2int_rn(float x) { return (int)rintf(x); }
EV_INLINE int __float2int_rd(float x) { return (int)floorf(x); }
EV_INLINE int __float2int_ru(float x) { return (int)ceilf(x); }
EV_INLINE int __float2int_rz(float x) { return (int)x; }
EV_INLINE float __int2float_rn(int x) { return (float)x; }
EV_INLINE float __uint2float_rn(unsigned x) { return (float)x; }
template <class... A> EV_INLINE int printf(const char*, A...) { return 0; }
#define assert(x) ((void)0)

// Limits and constants of the usual C headers.
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define LLONG_MAX 9223372036854775807LL
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF __builtin_inff()
#define CUDART_INF_F __builtin_inff()
#define CUDART_INF __builtin_inf()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_PI_F 3.141592654f
#define M_PI 3.14159265358979323846
#define M_SQRT1_2 0.70710678118654752440
#define M_SQRT2 1.41421356237309504880
#define M_2_SQRTPI 1.12837916709551257390
#define M_E 2.7182818284590452354
#define M_LN2 0.69314718055994530942
#define M_LOG2E 1.4426950408889634074
#define NULL 0

#include "cuda_host_vector.h"

// Built-in variables. Constant to the kernel; the runtime sets them before it resumes a thread.
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct ev_index { unsigned x, y, z; };
extern "C" EV_HIDDEN const ev_index threadIdx, blockIdx, blockDim, gridDim;
constexpr int warpSize = 32;

#include "cuda_host_sync.h"

#define __CUDA_ARCH__ 900
#define __CUDACC__ 1
#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
