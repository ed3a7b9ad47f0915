"""Whether a kernel asks an integer that it reads for its sign before it uses it as an index.

`y[i] = t >= 0 ? w[t] : 0.0f` with t = idx[i] says of a list of subscripts that some may be missing.
"""

from __future__ import annotations

from collections.abc import Iterable

from evolve.ir.data import is_term
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load, Select, Unary, UnaryOp
from evolve.ir.types import DType
from evolve.ir.visit import children

MISSING = -1
"""What `t != -1 ? w[t] : 0.0f` takes for a subscript that is none."""

_MIRRORED = {
    BinaryOp.LT: BinaryOp.GT,
    BinaryOp.LE: BinaryOp.GE,
    BinaryOp.GT: BinaryOp.LT,
    BinaryOp.GE: BinaryOp.LE,
    BinaryOp.EQ: BinaryOp.EQ,
    BinaryOp.NE: BinaryOp.NE,
}
_Held = frozenset[Load]


def least_allowed(expressions: Iterable[Expr], name: str, dtype: DType) -> int:
    """The least value of the array's elements with which no negative one becomes an index: 0, unless all such
    uses stand under conditions that say otherwise."""
    expressions = tuple(expressions)
    if dtype not in (DType.I32, DType.I64):
        return 0
    for least in (dtype.limits[0], MISSING):
        if all(_asked(e, name, frozenset(), least) for e in expressions):
            return least
    return 0


def _asked(e: Expr, name: str, held: _Held, least: int) -> bool:
    """Whether each element of `name` that is an index in `e` is known not to be negative, where those of
    `held` are, and none is below `least`."""
    match e:
        case Cast(arg=Load() as x) if is_term(e) and x.buffer == name:
            return x in held and all(_asked(i, name, held, least) for i in x.indices)
        case Select(cond=cond, then=then, orelse=orelse):
            return (
                _asked(cond, name, held, least)
                and _asked(then, name, held | _not_negative(cond, True, least), least)
                and _asked(orelse, name, held | _not_negative(cond, False, least), least)
            )
        case Binary(op=BinaryOp.AND | BinaryOp.OR as op, lhs=lhs, rhs=rhs):
            after = held | _not_negative(lhs, op is BinaryOp.AND, least)
            return _asked(lhs, name, held, least) and _asked(rhs, name, after, least)
        case _:
            return all(_asked(x, name, held, least) for x in children(e))


def _not_negative(cond: Expr, holds: bool, least: int) -> _Held:
    """The elements that are not negative where a condition holds, or does not."""
    match cond:
        case Binary(op=BinaryOp.AND | BinaryOp.OR as op, lhs=lhs, rhs=rhs):
            if (op is BinaryOp.AND) == holds:
                return _not_negative(lhs, holds, least) | _not_negative(rhs, holds, least)
        case Unary(op=UnaryOp.NOT, arg=arg):
            return _not_negative(arg, not holds, least)
        case Binary(op=op, lhs=Const(value=value), rhs=Load() as x) if op.is_comparison:
            return _compared(_MIRRORED[op], x, value, holds, least)
        case Binary(op=op, lhs=Load() as x, rhs=Const(value=value)) if op.is_comparison:
            return _compared(op, x, value, holds, least)
        case _:
            pass
    return frozenset()


def _compared(op: BinaryOp, x: Load, value: int | float, holds: bool, least: int) -> _Held:
    op = op if holds else op.negated
    lowest = {BinaryOp.GE: value, BinaryOp.EQ: value, BinaryOp.GT: value + 1}.get(op)
    known = lowest is not None and lowest >= 0
    missing = op is BinaryOp.NE and value == least == MISSING
    return frozenset({x}) if known or missing else frozenset()
