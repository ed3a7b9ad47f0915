"""Whether a kernel asks an integer that it reads where it lies before it uses it as an index.

`y[i] = t >= 0 ? w[t] : 0.0f` with t = idx[i] says of a list of subscripts that some may be missing, and
`t < n ? w[t] : 0.0f` that some may be beyond w.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from evolve.frontend.polynomial import ONE, Poly, constant, polynomial
from evolve.ir.data import is_term
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load, Select, Unary, UnaryOp
from evolve.ir.types import DType
from evolve.ir.visit import children, loads, subexpressions

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
_Says = Callable[[BinaryOp, Expr], bool]
"""Whether `element op expression` says what is asked."""


def least_allowed(expressions: Iterable[Expr], name: str, dtype: DType) -> int:
    """The least value of the array's elements with which no negative one becomes an index: 0, unless all such
    uses stand under conditions that say otherwise."""
    expressions = tuple(expressions)
    if dtype not in (DType.I32, DType.I64):
        return 0
    for least, says in ((dtype.limits[0], _not_negative), (MISSING, _not_missing)):
        if all(_asked(e, name, frozenset(), says) for e in expressions):
            return least
    return 0


def end_asked(expressions: Iterable[Expr], name: str) -> Poly | None:
    """E, if all elements of the array that become an index stand under the condition that they are below E, a
    number or made of sizes; None if there is no such."""
    expressions = tuple(expressions)
    for end in dict.fromkeys(e for x in expressions for e in _ends(x, name)):
        if all(_asked(e, name, frozenset(), partial(_below, end)) for e in expressions):
            return end
    return None


def _asked(e: Expr, name: str, held: _Held, says: _Says) -> bool:
    """Whether each element of `name` that is an index in `e` is known to be what `says` asks, as those of
    `held` are."""
    match e:
        case Cast(arg=Load() as x) if is_term(e) and x.buffer == name:
            return x in held and all(_asked(i, name, held, says) for i in x.indices)
        case Select(cond=cond, then=then, orelse=orelse):
            return (
                _asked(cond, name, held, says)
                and _asked(then, name, held | _where(cond, True, says), says)
                and _asked(orelse, name, held | _where(cond, False, says), says)
            )
        case Binary(op=BinaryOp.AND | BinaryOp.OR as op, lhs=lhs, rhs=rhs):
            after = held | _where(lhs, op is BinaryOp.AND, says)
            return _asked(lhs, name, held, says) and _asked(rhs, name, after, says)
        case _:
            return all(_asked(x, name, held, says) for x in children(e))


def _where(cond: Expr, holds: bool, says: _Says) -> _Held:
    """The elements that are what is asked where a condition holds, or does not."""
    match cond:
        case Binary(op=BinaryOp.AND | BinaryOp.OR as op, lhs=lhs, rhs=rhs):
            if (op is BinaryOp.AND) == holds:
                return _where(lhs, holds, says) | _where(rhs, holds, says)
        case Unary(op=UnaryOp.NOT, arg=arg):
            return _where(arg, not holds, says)
        case Binary():
            for way, x, other in _compared(cond):
                if says(way if holds else way.negated, other):
                    return frozenset({x})
        case _:
            pass
    return frozenset()


def _compared(e: Binary) -> Iterator[tuple[BinaryOp, Load, Expr]]:
    """`element op expression`, where a comparison has an element on a side."""
    if e.op.is_comparison and isinstance(e.lhs, Load):
        yield e.op, e.lhs, e.rhs
    elif e.op.is_comparison and isinstance(e.rhs, Load):
        yield _MIRRORED[e.op], e.rhs, e.lhs


def _not_negative(op: BinaryOp, other: Expr) -> bool:
    if not isinstance(other, Const):
        return False
    lowest = {BinaryOp.GE: other.value, BinaryOp.EQ: other.value, BinaryOp.GT: other.value + 1}.get(op)
    return lowest is not None and lowest >= 0


def _not_missing(op: BinaryOp, other: Expr) -> bool:
    missing = op is BinaryOp.NE and isinstance(other, Const) and other.value == MISSING
    return missing or _not_negative(op, other)


def _below(end: Poly, op: BinaryOp, other: Expr) -> bool:
    found = _end(op, other)
    return found is not None and found == end


def _end(op: BinaryOp, other: Expr) -> Poly | None:
    """What an element is below, if a comparison with this says so by a number or sizes."""
    if op not in (BinaryOp.LT, BinaryOp.LE):
        return None
    if isinstance(other, Const):
        found = constant(int(other.value))
    elif isinstance(other, Cast) and other.arg.dtype is DType.INDEX and not loads(other):
        found = polynomial(other.arg)
    else:
        return None
    return found if op is BinaryOp.LT else found + ONE


def _ends(e: Expr, name: str) -> Iterator[Poly]:
    for x in subexpressions(e):
        for op, element, other in _compared(x) if isinstance(x, Binary) else ():
            for way in (op, op.negated):
                end = _end(way, other)
                if element.buffer == name and end is not None:
                    yield end
