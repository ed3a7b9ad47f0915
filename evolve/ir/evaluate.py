"""The value of an expression over scalars: guards, extents, grids, facts, in exact integers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from evolve.ir.errors import EvolveError
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Select, Unary, UnaryOp, Var, decide
from evolve.ir.printer import print_expr

Number = int | float | bool


def evaluate(e: Expr, scalars: Mapping[str, int | float]) -> Number:
    """The value of an INDEX, BOOL or scalar expression.

    `DIV` and `REM` on integers truncate as in C, `FLOORDIV` and `MOD` round down. Raises EvolveError
    unknown-scalar for a variable without a value, bad-size for a division by zero and for what depends
    on more than scalars (loads, calls).
    """
    match e:
        case Const():
            return e.value
        case Var():
            if e.name not in scalars:
                raise EvolveError("unknown-scalar", f"there is no value for {e.name}")
            return scalars[e.name]
        case Cast():
            value = evaluate(e.arg, scalars)
            return float(value) if e.dtype.is_float else int(value)
        case Select():
            return evaluate(e.then if evaluate(e.cond, scalars) else e.orelse, scalars)
        case Unary(op=UnaryOp.NEG):
            return -evaluate(e.arg, scalars)
        case Unary(op=UnaryOp.NOT):
            return not evaluate(e.arg, scalars)
        case Binary(op=BinaryOp.AND):
            return bool(evaluate(e.lhs, scalars)) and bool(evaluate(e.rhs, scalars))
        case Binary(op=BinaryOp.OR):
            return bool(evaluate(e.lhs, scalars)) or bool(evaluate(e.rhs, scalars))
        case Binary():
            return _binary(e, evaluate(e.lhs, scalars), evaluate(e.rhs, scalars))
        case _:
            raise EvolveError("bad-size", f"{print_expr(e)} cannot be evaluated from the scalars")


def _binary(e: Binary, a: Number, b: Number) -> Number:
    if e.op in _DIVISIONS and b == 0:
        raise EvolveError("bad-size", f"{print_expr(e)} divides by zero")
    if e.op in (BinaryOp.DIV, BinaryOp.REM) and not e.dtype.is_float:
        quotient = abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if e.op is BinaryOp.DIV else int(a) - int(b) * quotient
    if e.op.is_comparison:
        return decide(e.op, a, b)
    function = _FUNCTIONS.get(e.op)
    if function is None:
        raise EvolveError("bad-size", f"{print_expr(e)}: {e.op.value} cannot be evaluated from the scalars")
    value: Number = function(a, b)
    return value


_DIVISIONS = frozenset((BinaryOp.DIV, BinaryOp.REM, BinaryOp.FLOORDIV, BinaryOp.MOD))
_FUNCTIONS: dict[BinaryOp, Callable[[Any, Any], Any]] = {
    BinaryOp.ADD: operator.add,
    BinaryOp.SUB: operator.sub,
    BinaryOp.MUL: operator.mul,
    BinaryOp.DIV: operator.truediv,
    BinaryOp.FLOORDIV: operator.floordiv,
    BinaryOp.MOD: operator.mod,
    BinaryOp.BIT_XOR: operator.xor,
    BinaryOp.MIN: min,
    BinaryOp.MAX: max,
}
