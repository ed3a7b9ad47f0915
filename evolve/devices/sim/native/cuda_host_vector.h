// float2, float4, int4 ...: every copy is one access of the whole vector.
#pragma once

// clang would copy the struct with memcpy, so there a copy goes through a vector_size member, which is
// one hook call. gcc makes one hook call of a whole-struct copy by itself (without -ftree-sra), and keeps
// the line of the caller, which it would lose to an inlined copy function.
#if defined(__clang__)
#define EV_VECTOR_COPY(N)                                                              \
    EV_INLINE N(const N& o) : v(o.v) {}                                                \
    EV_INLINE N& operator=(const N& o) { v = o.v; return *this; }
#else
#define EV_VECTOR_COPY(N)
#endif
#define EV_VECTOR2(T, N, BYTES)                                                        \
    typedef T N##_bits __attribute__((vector_size(BYTES)));                            \
    struct __attribute__((aligned(BYTES))) N {                                         \
        union { struct { T x, y; }; N##_bits v; };                                     \
        EV_INLINE N() = default;                                                       \
        EV_INLINE N(T a, T b) : x(a), y(b) {}                                          \
        EV_VECTOR_COPY(N)                                                              \
    };                                                                                 \
    EV_INLINE N make_##N(T a, T b) { return N(a, b); }
#define EV_VECTOR4(T, N, BYTES)                                                        \
    typedef T N##_bits __attribute__((vector_size(BYTES)));                            \
    struct __attribute__((aligned(BYTES))) N {                                         \
        union { struct { T x, y, z, w; }; N##_bits v; };                               \
        EV_INLINE N() = default;                                                       \
        EV_INLINE N(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}                    \
        EV_VECTOR_COPY(N)                                                              \
    };                                                                                 \
    EV_INLINE N make_##N(T a, T b, T c, T d) { return N(a, b, c, d); }
#define EV_VECTOR3(T, N)                                                               \
    struct N {                                                                         \
        T x, y, z;                                                                     \
        EV_INLINE N() = default;                                                       \
        EV_INLINE N(T a, T b, T c) : x(a), y(b), z(c) {}                               \
    };                                                                                 \
    EV_INLINE N make_##N(T a, T b, T c) { return N(a, b, c); }

EV_VECTOR2(float, float2, 8) EV_VECTOR4(float, float4, 16) EV_VECTOR3(float, float3)
EV_VECTOR2(int, int2, 8) EV_VECTOR4(int, int4, 16) EV_VECTOR3(int, int3)
EV_VECTOR2(unsigned, uint2, 8) EV_VECTOR4(unsigned, uint4, 16) EV_VECTOR3(unsigned, uint3)
EV_VECTOR2(double, double2, 16) EV_VECTOR2(long long, longlong2, 16)
EV_VECTOR2(unsigned long long, ulonglong2, 16)
EV_VECTOR2(unsigned char, uchar2, 2) EV_VECTOR4(unsigned char, uchar4, 4) EV_VECTOR4(signed char, char4, 4)
EV_VECTOR4(short, short4, 8) EV_VECTOR4(unsigned short, ushort4, 8) EV_VECTOR2(short, short2, 4)
EV_VECTOR2(unsigned short, ushort2, 4)

// Cached and streaming loads and stores are ordinary accesses here. Macros, for the caller's line.
#define __ldg(p) (*(p))
#define __ldcg(p) (*(p))
#define __ldca(p) (*(p))
#define __ldcs(p) (*(p))
#define __ldcv(p) (*(p))
#define __ldlu(p) (*(p))
#define __stwb(p, v) ((void)(*(p) = (v)))
#define __stcg(p, v) ((void)(*(p) = (v)))
#define __stcs(p, v) ((void)(*(p) = (v)))
#define __stwt(p, v) ((void)(*(p) = (v)))
