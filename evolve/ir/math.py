"""The pure functions an expression may call, with their CUDA and host spellings."""

from __future__ import annotations

from dataclasses import dataclass

from evolve.ir.types import DType


@dataclass(frozen=True)
class Function:
    """One mathematical function. `special` counts special-function-unit results a call (sm_90)."""

    name: str
    arity: int
    f32: str
    f64: str
    approximate: bool = False
    special: int = 0

    def spelling(self, dtype: DType) -> str:
        """The C name for that type."""
        return self.f64 if dtype is DType.F64 else self.f32


FUNCTIONS = {
    f.name: f
    for f in (
        Function("exp", 1, "expf", "exp", special=1),
        Function("exp2", 1, "exp2f", "exp2", special=1),
        Function("log", 1, "logf", "log", special=1),
        Function("log2", 1, "log2f", "log2", special=1),
        Function("log1p", 1, "log1pf", "log1p", special=1),
        Function("expm1", 1, "expm1f", "expm1", special=1),
        Function("sqrt", 1, "sqrtf", "sqrt", special=1),
        Function("rsqrt", 1, "rsqrtf", "rsqrt", special=1),
        Function("tanh", 1, "tanhf", "tanh", special=2),
        Function("erf", 1, "erff", "erf", special=1),
        Function("sin", 1, "sinf", "sin", special=0),
        Function("cos", 1, "cosf", "cos", special=0),
        Function("pow", 2, "powf", "pow", special=2),
        Function("exp10", 1, "exp10f", "exp10", special=1),
        Function("log10", 1, "log10f", "log10", special=1),
        Function("cbrt", 1, "cbrtf", "cbrt", special=1),
        Function("hypot", 2, "hypotf", "hypot", special=1),
        Function("erfc", 1, "erfcf", "erfc", special=1),
        Function("tan", 1, "tanf", "tan", special=0),
        Function("sinh", 1, "sinhf", "sinh", special=1),
        Function("cosh", 1, "coshf", "cosh", special=1),
        Function("asin", 1, "asinf", "asin", special=0),
        Function("acos", 1, "acosf", "acos", special=0),
        Function("atan", 1, "atanf", "atan", special=0),
        Function("atan2", 2, "atan2f", "atan2", special=0),
        Function("fabs", 1, "fabsf", "fabs"),
        Function("copysign", 2, "copysignf", "copysign"),
        Function("floor", 1, "floorf", "floor"),
        Function("ceil", 1, "ceilf", "ceil"),
        Function("trunc", 1, "truncf", "trunc"),
        Function("round", 1, "roundf", "round"),
        Function("rint", 1, "rintf", "rint"),
        Function("fmod", 2, "fmodf", "fmod", special=1),
        Function("fma", 3, "fmaf", "fma"),
        Function("mul_rn", 2, "__fmul_rn", "__dmul_rn"),
        Function("fast_exp", 1, "__expf", "exp", approximate=True, special=1),
        Function("fast_log", 1, "__logf", "log", approximate=True, special=1),
        Function("fast_div", 2, "__fdividef", "evolve_div", approximate=True, special=1),
        Function("fast_sin", 1, "__sinf", "sin", approximate=True, special=1),
        Function("fast_cos", 1, "__cosf", "cos", approximate=True, special=1),
        Function("fast_pow", 2, "__powf", "pow", approximate=True, special=2),
        Function("fast_exp10", 1, "__exp10f", "exp10", approximate=True, special=1),
        Function("fast_log2", 1, "__log2f", "log2", approximate=True, special=1),
        Function("fast_log10", 1, "__log10f", "log10", approximate=True, special=1),
        Function("fast_tanh", 1, "__tanhf", "tanh", approximate=True, special=1),
    )
}
"""By IR name. `fmax`/`fmin` are BinaryOp.MAX/MIN. The source wrote the fast_* ones, or `fast` allows them."""
