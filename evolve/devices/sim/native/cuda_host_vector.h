// float2, float4, int4 ...: every copy is one access of the whole vector.
#pragma once

// gcc and clang both keep a copy of `v` as one hook call of sizeof(v), and `.x` as one of sizeof(T).
#define EV_VECTOR2(T, N, BYTES)                                                       \
    typedef T N##_bits __attribute__((vector_size(BYTES)));                            \
    struct __attribute__((aligned(BYTES))) N {                                         \
        union { struct { T x, y; }; N##_bits v; };                                     \
        EV_INLINE N() = default;                                                       \
        EV_INLINE N(T a, T b) : x(a), y(b) {}                                          \
        EV_INLINE N(const N& o) : v(o.v) {}                                            \
        EV_INLINE N& operator=(const N& o) { v = o.v; return *this; }                  \
    };                                                                                 \
    EV_INLINE N make_##N(T a, T b) { return N(a, b); }
#define EV_VECTOR4(T, N, BYTES)                                                       \
    typedef T N##_bits __attribute__((vector_size(BYTES)));                            \
    struct __attribute__((aligned(BYTES))) N {                                         \
        union { struct { T x, y, z, w; }; N##_bits v; };                               \
        EV_INLINE N() = default;                                                       \
        EV_INLINE N(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}                    \
        EV_INLINE N(const N& o) : v(o.v) {}                                            \
        EV_INLINE N& operator=(const N& o) { v = o.v; return *this; }                  \
    };                                                                                 \
    EV_INLINE N make_##N(T a, T b, T c, T d) { return N(a, b, c, d); }
#define EV_VECTOR3(T, N)                                                              \
    struct N {                                                                         \
        T x, y, z;                                                                     \
        EV_INLINE N() = default;                                                       \
        EV_INLINE N(T a, T b, T c) : x(a), y(b), z(c) {}                               \
        EV_INLINE N(const N& o) : x(o.x), y(o.y), z(o.z) {}                            \
        EV_INLINE N& operator=(const N& o) { x = o.x; y = o.y; z = o.z; return *this; } \
    };                                                                                 \
    EV_INLINE N make_##N(T a, T b, T c) { return N(a, b, c); }

EV_VECTOR2(float, float2, 8) EV_VECTOR4(float, float4, 16) EV_VECTOR3(float, float3)
EV_VECTOR2(int, int2, 8) EV_VECTOR4(int, int4, 16) EV_VECTOR3(int, int3)
EV_VECTOR2(unsigned, uint2, 8) EV_VECTOR4(unsigned, uint4, 16) EV_VECTOR3(unsigned, uint3)
EV_VECTOR2(double, double2, 16) EV_VECTOR2(long long, longlong2, 16)
EV_VECTOR2(unsigned long long, ulonglong2, 16)
EV_VECTOR4(unsigned char, uchar4, 4) EV_VECTOR4(signed char, char4, 4)
EV_VECTOR4(short, short4, 8) EV_VECTOR4(unsigned short, ushort4, 8) EV_VECTOR2(short, short2, 4)
EV_VECTOR2(unsigned short, ushort2, 4)

// Cached and streaming loads and stores are ordinary accesses here.
#define EV_LOAD(name) template <class T> EV_INLINE T name(const T* p) { return *p; }
#define EV_STORE(name) template <class T> EV_INLINE void name(T* p, T v) { *p = v; }
EV_LOAD(__ldg) EV_LOAD(__ldcg) EV_LOAD(__ldca) EV_LOAD(__ldcs) EV_LOAD(__ldcv) EV_LOAD(__ldlu)
EV_STORE(__stwb) EV_STORE(__stcg) EV_STORE(__stcs) EV_STORE(__stwt)
