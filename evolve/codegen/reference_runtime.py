"""Arithmetic of the reference: a double and a first-order bound of the binary32 rounding error in it.

`e` counts errors in units that a tolerance multiplies (`TOLERANCE_FACTOR`): every operation adds
u * |result| (u = 2^-24, or 2^-53 for doubles) to what its operands bring along, by the derivative.
A sum of n terms, in any order, adds u * max(1, sqrt(n) / 8) * sum |terms|: the rule "16 u sum|terms|
for data of any sign, 2 sqrt(n) u sum|terms| for positive data" once the factor is applied. Values
beyond binary32 become infinite and values below its smallest subnormal zero, as in the kernel. A
reduction to a product that leaves the range of its type has an infinite error: reordering it is
allowed, and no order is right.

`ev_whole` is an integer that depends on a rounding, see `reference_whole`: its value here, and the least and
the greatest that it may be when a float is off by up to its tolerance. All of long long means: anything.
"""

from __future__ import annotations

TOLERANCE_FACTOR = 16.0
"""A result is accepted within TOLERANCE_FACTOR times the error array, element by element."""

RUNTIME = (
    f"""\
#define EV_FACTOR {TOLERANCE_FACTOR}
"""
    + """\
struct ev_num { double v; double e; };

__device__ inline double ev_abs(double x) { return x < 0.0 ? -x : x; }
__device__ inline double ev_larger(double a, double b) { return a > b ? a : b; }

#define EV_U32 5.9604644775390625e-08
#define EV_U16 3.90625e-03
#define EV_U64 1.1102230246251565e-16
#define EV_ANY (1e300 * 1e300)

// A number with an error that reaches down to zero, by more than what underflow alone adds up to.
__device__ inline bool ev_at_zero(ev_num a) {
    return a.e > 1.1754943508222875e-38 && ev_abs(a.v) <= EV_FACTOR * a.e;
}
// A product with a factor that may be infinite where the other is zero.
__device__ inline double ev_scaled(double slope, double e) {
    return e == 0.0 || e == EV_ANY ? e : ev_abs(slope) * e;
}

// v rounded into the range of the type with unit roundoff u, its own rounding added to e.
__device__ inline ev_num ev_result(double v, double e, double u) {
    ev_num r;
    if (u == EV_U32) {
        const double a = ev_abs(v), reach = EV_FACTOR * e, most = 3.4028235677973366e+38;
        if (a - a == 0.0 && a + reach >= most && a - reach < most) e = EV_ANY;
        if (a >= most) v = v > 0.0 ? 1e300 * 1e300 : -1e300 * 1e300;
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
    return ev_result(a.v * b.v, ev_scaled(a.v, b.e) + ev_scaled(b.v, a.e), u);
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
    if (ev_at_zero(b) || a.e == EV_ANY) return ev_pair(v, EV_ANY);
    return ev_result(v, (a.e + ev_abs(v) * b.e) / ev_abs(b.v), u);
}
__device__ inline ev_num ev_neg(ev_num a) { a.v = -a.v; return a; }
__device__ inline ev_num ev_max(ev_num a, ev_num b) {
    const double e = ev_larger(a.e, b.e);
    ev_num r = ev_pair(fmax(a.v, b.v), e);
    if (!(r.v - r.v == 0.0) && e != EV_ANY) r.e = 0.0;
    return r;
}
__device__ inline ev_num ev_min(ev_num a, ev_num b) { return ev_neg(ev_max(ev_neg(a), ev_neg(b))); }
__device__ inline ev_num ev_cast(ev_num a, double u) {
    ev_num r = ev_result(a.v, a.e, u);
    if (u == EV_U16) {  // bfloat16: it ends where 8 bits of significand do, and below its normal range
        r.e += 4.591774807899561e-41;
        if (ev_abs(a.v) + r.e > 3.3895313892515355e+38 && a.v - a.v == 0.0) r.e = EV_ANY;
    }
    return r;
}

__device__ inline ev_num ev_exp(ev_num a, double u) {
    const double v = exp(a.v);
    return ev_result(v, ev_scaled(v, a.e), u);
}
__device__ inline ev_num ev_exp2(ev_num a, double u) {
    const double v = exp2(a.v);
    return ev_result(v, ev_scaled(v * 0.6931471805599453, a.e), u);
}
// Infinite, or nothing at all, at the end of its domain: an error that reaches over it decides nothing.
__device__ inline ev_num ev_log(ev_num a, double u) {
    if (ev_at_zero(a)) return ev_pair(log(a.v), EV_ANY);
    return ev_result(log(a.v), ev_scaled(1.0 / a.v, a.e), u);
}
__device__ inline ev_num ev_log2(ev_num a, double u) {
    if (ev_at_zero(a)) return ev_pair(log2(a.v), EV_ANY);
    return ev_result(log2(a.v), ev_scaled(1.4426950408889634 / a.v, a.e), u);
}
__device__ inline ev_num ev_log1p(ev_num a, double u) {
    if (ev_at_zero(ev_pair(1.0 + a.v, a.e))) return ev_pair(log1p(a.v), EV_ANY);
    return ev_result(log1p(a.v), ev_scaled(1.0 / (1.0 + a.v), a.e), u);
}
__device__ inline ev_num ev_expm1(ev_num a, double u) {
    const double v = expm1(a.v);
    return ev_result(v, ev_scaled(v + 1.0, a.e), u);
}
__device__ inline ev_num ev_sqrt(ev_num a, double u) {
    const double v = sqrt(a.v);
    if (ev_at_zero(a)) return ev_pair(v, EV_ANY);
    return ev_result(v, a.v > a.e ? ev_scaled(0.5 / v, a.e) : sqrt(a.e), u);
}
__device__ inline ev_num ev_rsqrt(ev_num a, double u) {
    const double v = 1.0 / sqrt(a.v);
    if (ev_at_zero(a)) return ev_pair(v, EV_ANY);
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
__device__ inline ev_num ev_exp10(ev_num a, double u) {
    const double v = exp10(a.v);
    return ev_result(v, ev_scaled(v * 2.302585092994046, a.e), u);
}
__device__ inline ev_num ev_log10(ev_num a, double u) {
    if (ev_at_zero(a)) return ev_pair(log10(a.v), EV_ANY);
    return ev_result(log10(a.v), ev_scaled(0.4342944819032518 / a.v, a.e), u);
}
__device__ inline ev_num ev_cbrt(ev_num a, double u) {
    const double v = cbrt(a.v);
    return ev_result(v, ev_abs(a.v) > a.e ? ev_scaled(v / (3.0 * a.v), a.e) : 2.0 * cbrt(a.e), u);
}
__device__ inline ev_num ev_hypot(ev_num a, ev_num b, double u) {
    return ev_result(hypot(a.v, b.v), a.e + b.e, u);
}
__device__ inline ev_num ev_erfc(ev_num a, double u) {
    return ev_result(erfc(a.v), ev_scaled(1.1283791670955126 * exp(-a.v * a.v), a.e), u);
}
__device__ inline ev_num ev_tan(ev_num a, double u) {
    const double v = tan(a.v);
    return ev_result(v, ev_scaled(1.0 + v * v, a.e), u);
}
__device__ inline ev_num ev_sinh(ev_num a, double u) {
    return ev_result(sinh(a.v), ev_scaled(cosh(a.v), a.e), u);
}
__device__ inline ev_num ev_cosh(ev_num a, double u) {
    return ev_result(cosh(a.v), ev_scaled(sinh(a.v), a.e), u);
}
// Steep at the ends of their domain: an error that reaches over one decides nothing.
__device__ inline ev_num ev_arc(double v, ev_num a, double u) {
    if (a.e > 0.0 && ev_abs(a.v) + EV_FACTOR * a.e >= 1.0) return ev_pair(v, EV_ANY);
    return ev_result(v, ev_scaled(1.0 / sqrt(1.0 - a.v * a.v), a.e), u);
}
__device__ inline ev_num ev_asin(ev_num a, double u) { return ev_arc(asin(a.v), a, u); }
__device__ inline ev_num ev_acos(ev_num a, double u) { return ev_arc(acos(a.v), a, u); }
__device__ inline ev_num ev_atan(ev_num a, double u) {
    return ev_result(atan(a.v), ev_scaled(1.0 / (1.0 + a.v * a.v), a.e), u);
}
__device__ inline ev_num ev_atan2(ev_num a, ev_num b, double u) {
    const double v = atan2(a.v, b.v), e = a.e + b.e, r = hypot(a.v, b.v);
    const bool cut = b.v - EV_FACTOR * b.e <= 0.0 && ev_abs(a.v) <= EV_FACTOR * a.e;
    if (e > 0.0 && (cut || r <= EV_FACTOR * e)) return ev_pair(v, EV_ANY);
    return ev_result(v, ev_scaled(1.0 / r, e), u);
}
__device__ inline ev_num ev_fabs(ev_num a, double u) { a.v = ev_abs(a.v); return a; }
// A step function is exact unless the error of its argument reaches over a step.
#define EV_STEPS(NAME, STEP) \\
    __device__ inline ev_num NAME(ev_num a, double u) { \\
        const double v = STEP(a.v), b = EV_FACTOR * a.e; \\
        if (!(b > 0.0)) return ev_exact(v); \\
        const double e = ev_larger(STEP(a.v + b) - v, v - STEP(a.v - b)) / EV_FACTOR; \\
        return ev_pair(v, e - e == 0.0 ? e : EV_ANY); \\
    }
EV_STEPS(ev_floor, floor)
EV_STEPS(ev_ceil, ceil)
EV_STEPS(ev_trunc, trunc)
EV_STEPS(ev_round, round)
EV_STEPS(ev_rint, rint)
__device__ inline ev_num ev_copysign(ev_num a, ev_num b, double u) {
    const double v = copysign(a.v, b.v);
    const bool either = b.e > 0.0 && ev_abs(b.v) <= EV_FACTOR * b.e;
    return ev_pair(v, either ? a.e + 2.0 * ev_abs(v) : a.e);
}
// Exact, but for operands whose errors reach over a multiple of the divisor.
__device__ inline ev_num ev_fmod(ev_num a, ev_num b, double u) {
    const double v = fmod(a.v, b.v), e = a.e + ev_scaled(trunc(a.v / b.v), b.e), reach = EV_FACTOR * e;
    if (!(e > 0.0)) return ev_exact(v);
    const bool over = ev_abs(v) <= reach || ev_abs(b.v) - ev_abs(v) <= reach;
    return ev_pair(v, over || !(v - v == 0.0) ? EV_ANY : e);
}
__device__ inline ev_num ev_fma(ev_num a, ev_num b, ev_num c, double u) {
    return ev_result(a.v * b.v + c.v, ev_scaled(a.v, b.e) + ev_scaled(b.v, a.e) + c.e, u);
}
__device__ inline ev_num ev_mul_rn(ev_num a, ev_num b, double u) { return ev_mul(a, b, u); }
// The fast functions are as accurate as the CUDA programming guide says (mathematical functions, table of
// single-precision intrinsics): v is off by up to so many ulps and an absolute error, beyond its rounding.
__device__ inline ev_num ev_off(double v, double e, double ulps, double absolute, double u) {
    ev_num r = ev_result(v, e, u);
    if (!(v - v == 0.0)) return r;
    const double off = absolute + ulps * ev_larger(2.0 * u * ev_abs(v), 1.401298464324817e-45);
    // A value next to the largest float may come out as infinite, or the other way about.
    const double most = 3.4028234663852886e+38;
    if (u == EV_U32 && ev_abs(v) + off > most && ev_abs(v) - off <= most) return ev_pair(r.v, EV_ANY);
    if (r.v - r.v == 0.0) r.e += off / EV_FACTOR;
    return r;
}
__device__ inline ev_num ev_fast_exp(ev_num a, double u) {
    const double v = exp(a.v);
    return ev_off(v, ev_scaled(v, a.e), v > 0.0 ? 2.0 + 1.173 * ev_abs(a.v) : 0.0, 0.0, u);
}
__device__ inline ev_num ev_fast_exp10(ev_num a, double u) {
    const double v = exp10(a.v), e = ev_scaled(v * 2.302585092994046, a.e);
    return ev_off(v, e, v > 0.0 ? 2.0 + 2.97 * ev_abs(a.v) : 0.0, 0.0, u);
}
__device__ inline ev_num ev_fast_logarithm(
    ev_num a, double v, double slope, double ulps, double near, double u) {
    const bool close = a.v >= 0.5 && a.v <= 2.0;
    if (ev_at_zero(a)) return ev_pair(v, EV_ANY);
    return ev_off(v, ev_scaled(slope / a.v, a.e), close ? 0.0 : ulps, close ? near : 0.0, u);
}
__device__ inline ev_num ev_fast_log(ev_num a, double u) {  // 2^-21.41
    return ev_fast_logarithm(a, log(a.v), 1.0, 3.0, 3.589e-07, u);
}
__device__ inline ev_num ev_fast_log2(ev_num a, double u) {  // 2^-22
    return ev_fast_logarithm(a, log2(a.v), 1.4426950408889634, 2.0, 2.384185791015625e-07, u);
}
__device__ inline ev_num ev_fast_log10(ev_num a, double u) {  // 2^-24
    return ev_fast_logarithm(a, log10(a.v), 0.4342944819032518, 3.0, 5.9604644775390625e-08, u);
}
__device__ inline ev_num ev_fast_tanh(ev_num a, double u) {  // 2^-11 of the value
    const double v = tanh(a.v);
    return ev_off(v, ev_scaled(1.0 - v * v, a.e), 1.0, 4.8828125e-04 * ev_abs(v), u);
}
// Beyond these divisors no error is published: above, the quotient is 0.
__device__ inline ev_num ev_fast_div(ev_num a, ev_num b, double u) {
    const double v = a.v / b.v, size = ev_abs(b.v);
    if (ev_at_zero(b) || a.e == EV_ANY) return ev_pair(v, EV_ANY);
    const ev_num r = ev_off(v, (a.e + ev_abs(v) * b.e) / size, 2.0, 0.0, u);
    const bool above = size > 8.507059173023462e+37 && size - size == 0.0;
    return above || (size < 1.1754943508222875e-38 && size > 0.0) ? ev_pair(v, EV_ANY) : r;
}
// The guide gives an error within [-pi, pi] only; beyond, the argument is reduced with one rounding.
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

struct ev_whole { long long lo; long long v; long long hi; };

#define EV_MOST 0x7fffffffffffffffLL
#define EV_LEAST (-EV_MOST - 1)

__device__ inline ev_whole ev_range(long long lo, long long v, long long hi) {
    ev_whole r; r.lo = lo; r.v = v; r.hi = hi; return r;
}
__device__ inline ev_whole ev_known(long long v) { return ev_range(v, v, v); }
__device__ inline ev_whole ev_free(long long v) { return ev_range(EV_LEAST, v, EV_MOST); }
__device__ inline bool ev_is_free(ev_whole a) { return a.lo == EV_LEAST && a.hi == EV_MOST; }
__device__ inline unsigned long long ev_gap(long long lo, long long hi) {
    return (unsigned long long)hi - (unsigned long long)lo;
}
__device__ inline long long ev_lower(long long a, long long b) { return a < b ? a : b; }
__device__ inline long long ev_upper(long long a, long long b) { return a > b ? a : b; }

// Its error as one of the kernel's results, and back.
__device__ inline double ev_reach(ev_whole a) {
    if (ev_is_free(a)) return EV_ANY;
    return ev_larger((double)ev_gap(a.v, a.hi), (double)ev_gap(a.lo, a.v)) / EV_FACTOR;
}
__device__ inline ev_whole ev_spread(double v, double e) {
    if (!(e * EV_FACTOR < 4.5e18)) return ev_free((long long)v);
    const long long r = (long long)(e * EV_FACTOR);
    return ev_range((long long)v - r, (long long)v, (long long)v + r);
}
// An integer converted to float.
__device__ inline ev_num ev_from(ev_whole a, double u) {
    const ev_num r = ev_int((double)a.v, u);
    return ev_pair(r.v, r.e + ev_reach(a));
}

// A range in the type T: as it is, moved as a whole by wrap-around, or anything.
#define EV_FIT(NAME, T) \\
    __device__ inline ev_whole NAME(ev_whole a) { \\
        const long long lo = (long long)(T)a.lo, v = (long long)(T)a.v, hi = (long long)(T)a.hi; \\
        const bool beyond = sizeof(T) == 8 && (T)-1 > (T)0 && a.lo < 0; \\
        if (ev_is_free(a) || beyond || hi < lo || ev_gap(lo, hi) != ev_gap(a.lo, a.hi)) return ev_free(v); \\
        return ev_range(lo, v, hi); \\
    }
EV_FIT(ev_fit_i32, int)
EV_FIT(ev_fit_u8, unsigned char)
EV_FIT(ev_fit_u32, unsigned int)
EV_FIT(ev_fit_i64, long long)
EV_FIT(ev_fit_u64, unsigned long long)

// A float converted to an integer type with these ends. Beyond them C++ gives it no meaning.
#define EV_ROUND(NAME, FIRST, LAST) \\
    __device__ inline ev_whole NAME(ev_num a) { \\
        const double b = EV_FACTOR * a.e; \\
        if (!(a.v - b > FIRST - 1.0 && a.v + b < LAST + 1.0)) return ev_free(0); \\
        return ev_range((long long)(a.v - b), (long long)a.v, (long long)(a.v + b)); \\
    }
EV_ROUND(ev_round_i32, -2147483648.0, 2147483647.0)
EV_ROUND(ev_round_u32, 0.0, 4294967295.0)
EV_ROUND(ev_round_i64, -9223372036854775808.0, 9223372036854775807.0)
EV_ROUND(ev_round_u64, 0.0, 9223372036854775807.0)

__device__ inline long long ev_plus(long long a, long long b) {
    if (b > 0 && a > EV_MOST - b) return EV_MOST;
    if (b < 0 && a < EV_LEAST - b) return EV_LEAST;
    return a + b;
}
__device__ inline ev_whole ev_sum(ev_whole a, ev_whole b) {
    return ev_range(ev_plus(a.lo, b.lo), ev_plus(a.v, b.v), ev_plus(a.hi, b.hi));
}
__device__ inline ev_whole ev_difference(ev_whole a, ev_whole b) {
    if (b.lo == EV_LEAST || b.hi == EV_LEAST || b.v == EV_LEAST) return ev_free(0);
    return ev_sum(a, ev_range(-b.hi, -b.v, -b.lo));
}
__device__ inline ev_whole ev_product(ev_whole a, ev_whole b) {
    const double m = ev_larger(ev_abs((double)a.lo), ev_abs((double)a.hi));
    if (!(m * ev_larger(ev_abs((double)b.lo), ev_abs((double)b.hi)) < 9.2e18)) return ev_free(0);
    const long long p = a.lo * b.lo, q = a.lo * b.hi, r = a.hi * b.lo, s = a.hi * b.hi;
    const long long lo = ev_lower(ev_lower(p, q), ev_lower(r, s));
    return ev_range(lo, a.v * b.v, ev_upper(ev_upper(p, q), ev_upper(r, s)));
}
__device__ inline ev_whole ev_least(ev_whole a, ev_whole b) {
    return ev_range(ev_lower(a.lo, b.lo), ev_lower(a.v, b.v), ev_lower(a.hi, b.hi));
}
__device__ inline ev_whole ev_most(ev_whole a, ev_whole b) {
    return ev_range(ev_upper(a.lo, b.lo), ev_upper(a.v, b.v), ev_upper(a.hi, b.hi));
}
// Operators that are not monotone: all values of small ranges are tried.
#define EV_EACH(NAME, RESULT) \\
    __device__ inline long long NAME##_of(long long x, long long y) { return RESULT; } \\
    __device__ inline ev_whole NAME(ev_whole a, ev_whole b) { \\
        ev_whole r = ev_known(NAME##_of(a.v, b.v)); \\
        const unsigned long long m = ev_gap(a.lo, a.hi), n = ev_gap(b.lo, b.hi); \\
        if (m > 63 || n > 63) return ev_free(r.v); \\
        for (int i = 0; i <= (int)m; ++i) \\
            for (int j = 0; j <= (int)n; ++j) { \\
                const long long one = NAME##_of(a.lo + i, b.lo + j); \\
                r.lo = ev_lower(r.lo, one); \\
                r.hi = ev_upper(r.hi, one); \\
            } \\
        return r; \\
    }
EV_EACH(ev_quotient, y == 0 ? 0 : y == -1 ? ev_plus(~x, 1) : x / y)
EV_EACH(ev_remainder, y == 0 || y == -1 ? 0 : x % y)
EV_EACH(ev_bit_and, x & y)
EV_EACH(ev_bit_or, x | y)
EV_EACH(ev_bit_xor, x ^ y)
EV_EACH(ev_left, (long long)((unsigned long long)x << (y & 63)))
EV_EACH(ev_right, x >> (y & 63))

// Truth: 0, 1, or between them where a rounding decides.
__device__ inline ev_whole ev_truth(bool always, bool never, bool v) {
    return ev_range(always ? 1 : 0, v ? 1 : 0, never ? 0 : 1);
}
__device__ inline ev_whole ev_not(ev_whole a) { return ev_range(1 - a.hi, 1 - a.v, 1 - a.lo); }
__device__ inline ev_whole ev_and(ev_whole a, ev_whole b) {
    return ev_range(a.lo & b.lo, a.v & b.v, a.hi & b.hi);
}
__device__ inline ev_whole ev_or(ev_whole a, ev_whole b) {
    return ev_range(a.lo | b.lo, a.v | b.v, a.hi | b.hi);
}
__device__ inline ev_whole ev_less(ev_whole a, ev_whole b) {
    return ev_truth(a.hi < b.lo, a.lo >= b.hi, a.v < b.v);
}
__device__ inline ev_whole ev_at_most(ev_whole a, ev_whole b) {
    return ev_truth(a.hi <= b.lo, a.lo > b.hi, a.v <= b.v);
}
__device__ inline ev_whole ev_equal(ev_whole a, ev_whole b) {
    const bool one = a.lo == a.hi && b.lo == b.hi;
    return ev_truth(one && a.v == b.v, a.hi < b.lo || a.lo > b.hi, a.v == b.v);
}
// Floats. NaN compares as it does; a bound that is NaN itself decides nothing.
#define EV_FLOATS(NAME, ALWAYS, NEVER, RESULT) \\
    __device__ inline ev_whole NAME(ev_num x, ev_num y) { \\
        const double a = x.v, b = y.v, p = EV_FACTOR * x.e, q = EV_FACTOR * y.e; \\
        if (p + q == 0.0 || ((a != a || b != b) && p + q != EV_ANY)) return ev_known((RESULT) ? 1 : 0); \\
        return ev_truth(ALWAYS, NEVER, RESULT); \\
    }
EV_FLOATS(ev_float_less, a + p < b - q, a - p >= b + q, a < b)
EV_FLOATS(ev_float_at_most, a + p <= b - q, a - p > b + q, a <= b)
EV_FLOATS(ev_float_equal, false, a + p < b - q || a - p > b + q, a == b)

__device__ inline ev_whole ev_either(ev_whole c, ev_whole a, ev_whole b) {
    const ev_whole r = c.v ? a : b;
    if (c.lo == c.hi) return r;
    return ev_range(ev_lower(a.lo, b.lo), r.v, ev_upper(a.hi, b.hi));
}
__device__ inline ev_num ev_choose(ev_whole c, ev_num a, ev_num b) {
    const ev_num r = c.v ? a : b, o = c.v ? b : a;
    if (c.lo == c.hi) return r;
    double d = r.v == o.v ? o.e : ev_abs(r.v - o.v) / EV_FACTOR + o.e;
    if (!(d - d == 0.0)) d = EV_ANY;
    return ev_pair(r.v, ev_larger(r.e, d));
}
"""
)
