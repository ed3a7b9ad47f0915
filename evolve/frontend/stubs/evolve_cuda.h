// The CUDA language as far as the frontend needs it: declarations only, for parsing, never compiled.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __CUDACC__ 1

typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
#ifndef NULL
#define NULL 0
#endif

#define EV_VEC(T, N) \
    struct N##1 { T x; }; struct N##2 { T x, y; }; struct N##3 { T x, y, z; }; struct N##4 { T x, y, z, w; }; \
    static __host__ __device__ N##2 make_##N##2(T, T); static __host__ __device__ N##3 make_##N##3(T, T, T); \
    static __host__ __device__ N##4 make_##N##4(T, T, T, T);
EV_VEC(float, float) EV_VEC(double, double) EV_VEC(int, int) EV_VEC(unsigned int, uint)
EV_VEC(char, char) EV_VEC(unsigned char, uchar) EV_VEC(short, short) EV_VEC(long long, longlong)
#undef EV_VEC

struct dim3 {
    unsigned int x, y, z;
    __host__ __device__ dim3(unsigned int a = 1, unsigned int b = 1, unsigned int c = 1) : x(a), y(b), z(c) {}
    __host__ __device__ dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

extern const __device__ uint3 threadIdx, blockIdx;
extern const __device__ dim3 blockDim, gridDim;
extern const __device__ int warpSize;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
extern "C" unsigned int __cudaPushCallConfiguration(dim3, dim3, size_t = 0, void * = 0);

#define EV_FN(R, name, ...) extern "C" __host__ __device__ R name(__VA_ARGS__);
#define EV_MATH1(n) EV_FN(float, n##f, float) __host__ __device__ float n(float); EV_FN(double, n, double)
#define EV_MATH2(n) EV_FN(float, n##f, float, float) __host__ __device__ float n(float, float); \
    EV_FN(double, n, double, double)
EV_MATH1(exp) EV_MATH1(exp2) EV_MATH1(exp10) EV_MATH1(expm1) EV_MATH1(log) EV_MATH1(log2) EV_MATH1(log10)
EV_MATH1(log1p) EV_MATH1(sqrt) EV_MATH1(rsqrt) EV_MATH1(cbrt) EV_MATH1(sin) EV_MATH1(cos) EV_MATH1(tan)
EV_MATH1(asin) EV_MATH1(acos) EV_MATH1(atan) EV_MATH1(sinh) EV_MATH1(cosh) EV_MATH1(tanh) EV_MATH1(erf)
EV_MATH1(erfc) EV_MATH1(floor) EV_MATH1(ceil) EV_MATH1(trunc) EV_MATH1(round) EV_MATH1(rint) EV_MATH1(fabs)
EV_MATH1(nearbyint)
EV_MATH2(pow) EV_MATH2(fmod) EV_MATH2(atan2) EV_MATH2(hypot) EV_MATH2(fmax) EV_MATH2(fmin) EV_MATH2(fdim)
EV_MATH2(copysign)
#undef EV_MATH1
#undef EV_MATH2
// A float beside a double: the result is double, as with the C++ library (see `original`).
#define EV_MIXED(n) inline __host__ __device__ double n(float, double); inline __host__ __device__ double n(double, float);
EV_MIXED(pow) EV_MIXED(fmod) EV_MIXED(atan2) EV_MIXED(hypot) EV_MIXED(fmax) EV_MIXED(fmin) EV_MIXED(copysign)
#undef EV_MIXED
__host__ __device__ float pow(float, int); __host__ __device__ double pow(double, int);
EV_FN(float, fmaf, float, float, float) EV_FN(double, fma, double, double, double)
__host__ __device__ float fma(float, float, float);
EV_FN(int, abs, int) __host__ __device__ float abs(float); __host__ __device__ double abs(double);
__host__ __device__ long abs(long); __host__ __device__ long long abs(long long);
EV_FN(long, labs, long) EV_FN(long long, llabs, long long)
#define EV_TEST(n) EV_FN(int, n, double) __host__ __device__ int n(float);
EV_TEST(isnan) EV_TEST(isinf) EV_TEST(isfinite)
#undef EV_TEST
#define EV_MINMAX(T) __host__ __device__ T min(T, T); __host__ __device__ T max(T, T);
EV_MINMAX(int) EV_MINMAX(unsigned int) EV_MINMAX(long) EV_MINMAX(unsigned long) EV_MINMAX(long long)
EV_MINMAX(unsigned long long) EV_MINMAX(float) EV_MINMAX(double)
#undef EV_MINMAX
#define EV_MINMAX(R, A, B) __host__ __device__ R min(A, B); __host__ __device__ R max(A, B); \
    __host__ __device__ R min(B, A); __host__ __device__ R max(B, A);
EV_MINMAX(double, float, double) EV_MINMAX(unsigned int, int, unsigned int)
EV_MINMAX(unsigned long, long, unsigned long) EV_MINMAX(unsigned long long, long long, unsigned long long)
#undef EV_MINMAX

#define EV_DEV(R, name, ...) extern "C" __device__ R name(__VA_ARGS__);
EV_DEV(float, __expf, float) EV_DEV(float, __exp10f, float) EV_DEV(float, __logf, float)
EV_DEV(float, __log2f, float) EV_DEV(float, __log10f, float) EV_DEV(float, __sinf, float)
EV_DEV(float, __cosf, float) EV_DEV(float, __tanf, float) EV_DEV(float, __powf, float, float)
EV_DEV(float, __fdividef, float, float) EV_DEV(float, __saturatef, float) EV_DEV(float, __tanhf, float)
EV_DEV(float, __fadd_rn, float, float) EV_DEV(float, __fmul_rn, float, float)
EV_DEV(float, __fmaf_rn, float, float, float) EV_DEV(float, __frsqrt_rn, float)
EV_DEV(float, __fsqrt_rn, float) EV_DEV(float, __frcp_rn, float) EV_DEV(float, __fdiv_rn, float, float)
EV_DEV(int, __mul24, int, int) EV_DEV(float, __int2float_rn, int) EV_DEV(float, __uint2float_rn, unsigned int)
EV_DEV(float, __fsub_rn, float, float) EV_DEV(float, fdividef, float, float)
EV_DEV(int, __float2int_rn, float) EV_DEV(int, __float2int_rz, float) EV_DEV(int, __float2int_rd, float)
EV_DEV(int, __float2int_ru, float) EV_DEV(double, __dadd_rn, double, double)
EV_DEV(double, __dmul_rn, double, double) EV_DEV(double, __fma_rn, double, double, double)
EV_DEV(float, __int_as_float, int) EV_DEV(int, __float_as_int, float)
EV_DEV(void, __syncthreads, void) EV_DEV(void, __syncwarp, unsigned int = 0xffffffffu)
EV_DEV(void, __threadfence, void) EV_DEV(void, __threadfence_block, void)
EV_DEV(int, __syncthreads_count, int) EV_DEV(int, __syncthreads_or, int) EV_DEV(int, __syncthreads_and, int)
EV_DEV(unsigned int, __ballot_sync, unsigned int, int) EV_DEV(unsigned int, __activemask, void)
EV_DEV(int, printf, const char *, ...)
#undef EV_DEV
template <typename T> __device__ T __shfl_sync(unsigned int, T, int, int = 32);
template <typename T> __device__ T __shfl_up_sync(unsigned int, T, unsigned int, int = 32);
template <typename T> __device__ T __shfl_down_sync(unsigned int, T, unsigned int, int = 32);
template <typename T> __device__ T __shfl_xor_sync(unsigned int, T, int, int = 32);
template <typename T> __device__ T __ldg(const T *);
#define EV_ATOMIC(name, T) __device__ T name(T *, T);
EV_ATOMIC(atomicAdd, int) EV_ATOMIC(atomicAdd, unsigned int) EV_ATOMIC(atomicAdd, unsigned long long)
EV_ATOMIC(atomicAdd, float) EV_ATOMIC(atomicAdd, double)
EV_ATOMIC(atomicSub, int) EV_ATOMIC(atomicSub, unsigned int)
EV_ATOMIC(atomicMin, int) EV_ATOMIC(atomicMin, unsigned int)
EV_ATOMIC(atomicMin, long long) EV_ATOMIC(atomicMin, unsigned long long)
EV_ATOMIC(atomicMax, int) EV_ATOMIC(atomicMax, unsigned int)
EV_ATOMIC(atomicMax, long long) EV_ATOMIC(atomicMax, unsigned long long)
#undef EV_ATOMIC
template <typename T> __device__ T atomicExch(T *, T);
template <typename T> __device__ T atomicCAS(T *, T, T);

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define HUGE_VALF (__builtin_inff())
#define CUDART_INF_F (__builtin_inff())
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define DBL_EPSILON 2.2204460492503131e-16
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define M_PI 3.14159265358979323846
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define M_2_SQRTPI 1.12837916709551257390
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
