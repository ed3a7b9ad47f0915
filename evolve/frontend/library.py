"""Library functions that kernels call, as IR."""

from __future__ import annotations

from evolve.frontend.polynomial import expression, polynomial
from evolve.frontend.refuse import RefusalError
from evolve.frontend.values import Data, Int, Value, as_data
from evolve.ir.expr import Binary, BinaryOp, Call, Const, Expr
from evolve.ir.math import FUNCTIONS
from evolve.ir.types import DType

_BY_NAME: dict[str, str] = {}
for _f in FUNCTIONS.values():
    if _f.approximate:
        _BY_NAME[_f.f32] = _f.name
    else:
        for _spelling in (_f.name, _f.f32, _f.f64):
            _BY_NAME[_spelling] = _f.name
_BY_NAME["abs"] = "fabs"
_BY_NAME["__frsqrt_rn"] = "rsqrt"
_BY_NAME["__fsqrt_rn"] = "sqrt"

_EXTREME = {
    "fmaxf": BinaryOp.MAX,
    "fmax": BinaryOp.MAX,
    "max": BinaryOp.MAX,
    "fminf": BinaryOp.MIN,
    "fmin": BinaryOp.MIN,
    "min": BinaryOp.MIN,
}
_BINARY = {"__fadd_rn": BinaryOp.ADD, "__fmul_rn": BinaryOp.MUL, "__fdiv_rn": BinaryOp.DIV}
_WHY_NOT = {
    "__threadfence": "memory fences order other threads",
    "printf": "printing from a kernel is not supported",
}


def call(name: str, args: tuple[Value, ...], type_: DType, line: int) -> Value:
    """The value of a library call. Raises RefusalError for functions without a known meaning."""
    if name in _EXTREME and len(args) == 2:
        return _extreme(_EXTREME[name], args, type_, line)
    if name in ("__builtin_inff", "__builtin_inf", "__builtin_huge_valf"):
        return Data(Const(float("inf"), type_))
    data = [as_data(a, line) for a in args]
    exprs: list[Expr] = [d.expr for d in data]
    duties = frozenset(x for d in data for x in d.duties)
    if name in _BINARY and len(args) == 2:
        return Data(Binary(_BINARY[name], exprs[0], exprs[1], type_), duties)
    if name == "__fmaf_rn" and len(args) == 3:
        return Data(Call("fma", tuple(exprs), type_), duties)
    known = _BY_NAME.get(name)
    if known is not None and FUNCTIONS[known].arity == len(args) and type_.is_float:
        return Data(Call(known, tuple(exprs), type_), duties)
    refuse_cooperation(name, line)
    raise RefusalError(line, f"call of {name}", _WHY_NOT.get(name, "the function's meaning is not known"))


def refuse_cooperation(name: str, line: int) -> None:
    """Raises RefusalError for the functions through which threads work together."""
    if name.startswith("atomic"):
        raise RefusalError(line, f"call of {name}", "atomic operations are not lifted yet")
    if "shfl" in name or "ballot" in name or name.startswith("__sync"):
        raise RefusalError(line, f"call of {name}", "cooperative kernels are not lifted yet")


def _extreme(op: BinaryOp, args: tuple[Value, ...], type_: DType, line: int) -> Value:
    a, b = args
    if isinstance(a, Int) and isinstance(b, Int):
        made = Binary(op, expression(a.poly), expression(b.poly), DType.INDEX)
        return Int(polynomial(made), a.type, a.duties | b.duties)
    x, y = as_data(a, line), as_data(b, line)
    return Data(Binary(op, x.expr, y.expr, type_), x.duties | y.duties)
