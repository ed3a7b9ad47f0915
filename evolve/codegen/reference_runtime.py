"""Arithmetic of the reference: a double and a first-order bound of the binary32 rounding error in it.

`e` counts errors in units that a tolerance multiplies (`TOLERANCE_FACTOR`): every operation adds
u * |result| (u = 2^-24, or 2^-53 for doubles) to what its operands bring along, by the derivative.
A sum of n terms, in any order, adds u * max(1, sqrt(n) / 8) * sum |terms|: the rule "16 u sum|terms|
for data of any sign, 2 sqrt(n) u sum|terms| for positive data" once the factor is applied. Values
beyond binary32 become infinite and values below its smallest subnormal zero, as in the kernel. A
reduction to a product that leaves the range of its type has an infinite error: reordering it is
allowed, and no order is right.
"""

from __future__ import annotations

TOLERANCE_FACTOR = 16.0
"""A result is accepted within TOLERANCE_FACTOR times the error array, element by element."""

RUNTIME = """\
struct ev_num { double v; double e; };

__device__ inline double ev_abs(double x) { return x < 0.0 ? -x : x; }
__device__ inline double ev_larger(double a, double b) { return a > b ? a : b; }

#define EV_U32 5.9604644775390625e-08
#define EV_U64 1.1102230246251565e-16
#define EV_ANY (1e300 * 1e300)

// v rounded into the range of the type with unit roundoff u, its own rounding added to e.
__device__ inline ev_num ev_result(double v, double e, double u) {
    ev_num r;
    if (u == EV_U32) {
        const double a = ev_abs(v);
        if (a >= 3.4028235677973366e+38) v = v > 0.0 ? 1e300 * 1e300 : -1e300 * 1e300;
        if (a < 7.006492321624085e-46) v = v * 0.0;
        e += 7.006492321624085e-46;
    }
    r.v = v;
    r.e = v - v == 0.0 ? e + u * ev_abs(v) : e == EV_ANY ? EV_ANY : 0.0;
    return r;
}
__device__ inline ev_num ev_exact(double v) { ev_num r; r.v = v; r.e = 0.0; return r; }
__device__ inline ev_num ev_pair(double v, double e) { ev_num r; r.v = v; r.e = e; return r; }
// An integer converted to float.
__device__ inline ev_num ev_int(double v, double u) {
    return u == EV_U32 && v != (double)(float)v ? ev_result(v, 0.0, u) : ev_exact(v);
}
// The value of an accumulator of n terms whose absolute values sum to a.
__device__ inline ev_num ev_total(ev_num s, double a, double n, double u) {
    return ev_result(s.v, s.e + u * ev_larger(1.0, sqrt(n) / 8.0) * a, u);
}
__device__ inline ev_num ev_add(ev_num a, ev_num b, double u) { return ev_result(a.v + b.v, a.e + b.e, u); }
__device__ inline ev_num ev_sub(ev_num a, ev_num b, double u) { return ev_result(a.v - b.v, a.e + b.e, u); }
__device__ inline ev_num ev_mul(ev_num a, ev_num b, double u) {
    return ev_result(a.v * b.v, ev_abs(a.v) * b.e + ev_abs(b.v) * a.e, u);
}
// One step of a product. Once it leaves the normal range, another order may leave it elsewhere or not at
// all, so what comes out says nothing: an infinite error accepts any result.
__device__ inline ev_num ev_prod(ev_num a, ev_num b, double u) {
    ev_num r = ev_mul(a, b, u);
    const double size = ev_abs(a.v * b.v);
    const double largest = u == EV_U32 ? 3.4028234663852886e+38 : 1.7976931348623157e+308;
    const double smallest = u == EV_U32 ? 1.1754943508222875e-38 : 2.2250738585072014e-308;
    const bool zero = a.v == 0.0 || b.v == 0.0;
    if (a.e == EV_ANY || size > largest || (size < smallest && !zero)) r.e = EV_ANY;
    return r;
}
__device__ inline ev_num ev_div(ev_num a, ev_num b, double u) {
    const double v = a.v / b.v;
    return ev_result(v, (a.e + ev_abs(v) * b.e) / ev_abs(b.v), u);
}
__device__ inline ev_num ev_neg(ev_num a) { a.v = -a.v; return a; }
__device__ inline ev_num ev_max(ev_num a, ev_num b) {
    const double e = ev_larger(a.e, b.e);
    ev_num r = ev_pair(fmax(a.v, b.v), e);
    if (!(r.v - r.v == 0.0)) r.e = 0.0;
    return r;
}
__device__ inline ev_num ev_min(ev_num a, ev_num b) { return ev_neg(ev_max(ev_neg(a), ev_neg(b))); }
__device__ inline ev_num ev_cast(ev_num a, double u) { return ev_result(a.v, a.e, u); }

// A product with a factor that may be infinite where the other is zero.
__device__ inline double ev_scaled(double slope, double e) { return e == 0.0 ? 0.0 : ev_abs(slope) * e; }

__device__ inline ev_num ev_exp(ev_num a, double u) {
    const double v = exp(a.v);
    return ev_result(v, ev_scaled(v, a.e), u);
}
__device__ inline ev_num ev_exp2(ev_num a, double u) {
    const double v = exp2(a.v);
    return ev_result(v, ev_scaled(v * 0.6931471805599453, a.e), u);
}
__device__ inline ev_num ev_log(ev_num a, double u) {
    return ev_result(log(a.v), ev_scaled(1.0 / a.v, a.e), u);
}
__device__ inline ev_num ev_log2(ev_num a, double u) {
    return ev_result(log2(a.v), ev_scaled(1.4426950408889634 / a.v, a.e), u);
}
__device__ inline ev_num ev_log1p(ev_num a, double u) {
    return ev_result(log1p(a.v), ev_scaled(1.0 / (1.0 + a.v), a.e), u);
}
__device__ inline ev_num ev_expm1(ev_num a, double u) {
    const double v = expm1(a.v);
    return ev_result(v, ev_scaled(v + 1.0, a.e), u);
}
__device__ inline ev_num ev_sqrt(ev_num a, double u) {
    const double v = sqrt(a.v);
    return ev_result(v, a.v > a.e ? ev_scaled(0.5 / v, a.e) : sqrt(a.e), u);
}
__device__ inline ev_num ev_rsqrt(ev_num a, double u) {
    const double v = 1.0 / sqrt(a.v);
    return ev_result(v, ev_scaled(0.5 * v / a.v, a.e), u);
}
__device__ inline ev_num ev_tanh(ev_num a, double u) {
    const double v = tanh(a.v);
    return ev_result(v, ev_scaled(1.0 - v * v, a.e), u);
}
__device__ inline ev_num ev_erf(ev_num a, double u) {
    return ev_result(erf(a.v), ev_scaled(1.1283791670955126 * exp(-a.v * a.v), a.e), u);
}
__device__ inline ev_num ev_sin(ev_num a, double u) { return ev_result(sin(a.v), a.e, u); }
__device__ inline ev_num ev_cos(ev_num a, double u) { return ev_result(cos(a.v), a.e, u); }
__device__ inline ev_num ev_pow(ev_num a, ev_num b, double u) {
    const double v = pow(a.v, b.v);
    const double e = ev_scaled(b.v * pow(a.v, b.v - 1.0), a.e) + ev_scaled(v * log(ev_abs(a.v)), b.e);
    return ev_result(v, e, u);
}
__device__ inline ev_num ev_fabs(ev_num a, double u) { a.v = ev_abs(a.v); return a; }
__device__ inline ev_num ev_floor(ev_num a, double u) { return ev_exact(floor(a.v)); }
__device__ inline ev_num ev_ceil(ev_num a, double u) { return ev_exact(ceil(a.v)); }
__device__ inline ev_num ev_fma(ev_num a, ev_num b, ev_num c, double u) {
    return ev_result(a.v * b.v + c.v, ev_abs(a.v) * b.e + ev_abs(b.v) * a.e + c.e, u);
}
// The fast functions are as accurate as the CUDA programming guide's table of intrinsics says.
__device__ inline ev_num ev_fast_exp(ev_num a, double u) {
    const double v = exp(a.v);
    return ev_result(v, ev_scaled(v, a.e) + u * v * 0.15 * ev_abs(a.v), u);
}
__device__ inline ev_num ev_fast_log(ev_num a, double u) {
    return ev_result(log(a.v), ev_scaled(1.0 / a.v, a.e) + u, u);
}
__device__ inline ev_num ev_fast_div(ev_num a, ev_num b, double u) { return ev_div(a, b, u); }
__device__ inline ev_num ev_fast_sin(ev_num a, double u) {
    return ev_result(sin(a.v), a.e + u * (1.0 + ev_abs(a.v)), u);
}
__device__ inline ev_num ev_fast_cos(ev_num a, double u) {
    return ev_result(cos(a.v), a.e + u * (1.0 + ev_abs(a.v)), u);
}
__device__ inline ev_num ev_fast_pow(ev_num a, ev_num b, double u) {
    ev_num r = ev_pow(a, b, u);
    const double l = ev_abs(b.v * log2(ev_abs(a.v)));
    if (r.v - r.v == 0.0 && l - l == 0.0) r.e += u * ev_abs(r.v) * 0.3 * l;
    return r;
}
"""
