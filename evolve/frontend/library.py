"""Library functions that kernels call, as IR."""

from __future__ import annotations

import math
from collections.abc import Callable

from evolve.frontend.operations import negation
from evolve.frontend.polynomial import expression, polynomial
from evolve.frontend.refuse import RefusalError
from evolve.frontend.values import Data, Duty, Int, Value, as_data, convert
from evolve.ir.expr import Binary, BinaryOp, Call, Cast, Const, Expr, Select
from evolve.ir.math import FUNCTIONS
from evolve.ir.types import MAX, MIN, SUM, DType

_BY_NAME: dict[str, str] = {}
for _f in FUNCTIONS.values():
    if _f.approximate:
        _BY_NAME[_f.f32] = _f.name
    else:
        for _spelling in (_f.name, _f.f32, _f.f64):
            _BY_NAME[_spelling] = _f.name
_BY_NAME |= {
    "abs": "fabs",
    "nearbyint": "rint",
    "nearbyintf": "rint",
    "__frsqrt_rn": "rsqrt",
    "__fsqrt_rn": "sqrt",
    "__fmaf_rn": "fma",
    "__fma_rn": "fma",
    "fdividef": "fast_div",
}

_EXTREME = {
    "fmaxf": BinaryOp.MAX,
    "fmax": BinaryOp.MAX,
    "max": BinaryOp.MAX,
    "fminf": BinaryOp.MIN,
    "fmin": BinaryOp.MIN,
    "min": BinaryOp.MIN,
}
_BINARY = {
    "__fadd_rn": BinaryOp.ADD,
    "__fsub_rn": BinaryOp.SUB,
    "__fmul_rn": BinaryOp.MUL,
    "__fdiv_rn": BinaryOp.DIV,
    "__dadd_rn": BinaryOp.ADD,
    "__dmul_rn": BinaryOp.MUL,
}
_WHY_NOT = {
    "__threadfence": "memory fences order other threads",
    "printf": "printing from a kernel is not supported",
}


def _compared(op: BinaryOp, a: Expr, b: Expr) -> Expr:
    return Binary(op, a, b, DType.BOOL)


def _size(x: Expr) -> Expr:
    return Call("fabs", (x,), x.dtype)


def _infinity(x: Expr) -> Const:
    return Const(math.inf, x.dtype)


def _clamped(x: Expr) -> Expr:
    low = Binary(BinaryOp.MAX, x, Const(0.0, x.dtype), x.dtype)
    return Binary(BinaryOp.MIN, low, Const(1.0, x.dtype), x.dtype)


_OF_ONE: dict[str, Callable[[Expr], Expr]] = {
    "isnan": lambda x: _compared(BinaryOp.NE, x, x),
    "isinf": lambda x: _compared(BinaryOp.EQ, _size(x), _infinity(x)),
    "isfinite": lambda x: _compared(BinaryOp.LT, _size(x), _infinity(x)),
    "__saturatef": _clamped,
    "__frcp_rn": lambda x: Binary(BinaryOp.DIV, Const(1.0, x.dtype), x, x.dtype),
    "__float2int_rn": lambda x: Call("rint", (x,), x.dtype),
    "__float2int_rd": lambda x: Call("floor", (x,), x.dtype),
    "__float2int_ru": lambda x: Call("ceil", (x,), x.dtype),
    "__float2int_rz": lambda x: x,
    "__int2float_rn": lambda x: x,
    "__uint2float_rn": lambda x: x,
}
"""Functions of one argument, up to a conversion to their result's type."""


def call(name: str, args: tuple[Value, ...], type_: DType, line: int) -> Value:
    """The value of a library call. Raises RefusalError for functions without a known meaning."""
    if name in _EXTREME and len(args) == 2:
        return _extreme(_EXTREME[name], args, type_, line)
    if name in ("__builtin_inff", "__builtin_inf", "__builtin_huge_valf"):
        return Data(Const(math.inf, type_))
    if name in ("abs", "labs", "llabs") and len(args) == 1 and not type_.is_float:
        return _integer_size(convert(args[0], type_, line), type_, line)
    data = [as_data(a, line) for a in args]
    duties = frozenset(x for d in data for x in d.duties)
    if name in _OF_ONE and len(args) == 1:
        made = _OF_ONE[name](data[0].expr)
        return Data(made if made.dtype is type_ else Cast(made, type_), duties)
    exprs = tuple(as_data(convert(d, type_, line), line).expr for d in data)
    if name in _BINARY and len(args) == 2:
        return Data(Binary(_BINARY[name], exprs[0], exprs[1], type_), duties)
    known = _BY_NAME.get(name)
    if known is not None and FUNCTIONS[known].arity == len(args) and type_.is_float:
        return Data(Call(known, exprs, type_), duties)
    refuse_cooperation(name, line)
    raise RefusalError(line, f"call of {name}", _WHY_NOT.get(name, "the function's meaning is not known"))


UPDATES = {"atomicAdd": SUM, "atomicSub": SUM, "atomicMin": MIN, "atomicMax": MAX}
"""Atomic functions that are reductions when nobody looks at what they return."""


def refuse_cooperation(name: str, line: int) -> None:
    """Raises RefusalError for the functions through which threads work together, updates aside."""
    if name.startswith("atomic") and name not in UPDATES:
        reason = "of the atomic functions only atomicAdd, Sub, Min and Max are lifted"
        raise RefusalError(line, f"call of {name}", reason)
    if "shfl" in name or "ballot" in name or name.startswith("__sync"):
        raise RefusalError(line, f"call of {name}", "cooperative kernels are not lifted yet")


def _extreme(op: BinaryOp, args: tuple[Value, ...], type_: DType, line: int) -> Value:
    a, b = (convert(x, type_, line) for x in args)
    if isinstance(a, Int) and isinstance(b, Int):
        made = Binary(op, expression(a.poly), expression(b.poly), DType.INDEX)
        return Int(polynomial(made), a.type, a.duties | b.duties)
    x, y = as_data(a, line), as_data(b, line)
    return Data(Binary(op, x.expr, y.expr, type_), x.duties | y.duties)


def _integer_size(v: Value, type_: DType, line: int) -> Value:
    """abs of an integer."""
    minus = negation(v, type_, line)
    if isinstance(v, Int) and isinstance(minus, Int):
        larger = Binary(BinaryOp.MAX, expression(v.poly), expression(minus.poly), DType.INDEX)
        low, high = type_.limits
        duty = Duty(v.poly, low + 1, high, False, line, "abs")
        return Int(polynomial(larger), type_, v.duties | minus.duties | {duty})
    x, y = as_data(v, line), as_data(minus, line)
    negative = Binary(BinaryOp.LT, x.expr, Const(0, type_), DType.BOOL)
    return Data(Select(negative, y.expr, x.expr, type_), x.duties | y.duties)
