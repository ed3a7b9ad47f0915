"""Recognising accumulation: `m = m op e`, however it is spelled."""

from __future__ import annotations

from evolve.ir.expr import Binary, BinaryOp, Call, Expr, Load, Select, Unary, UnaryOp
from evolve.ir.types import MAX, MIN, PROD, SUM, Monoid
from evolve.ir.visit import subexpressions

Updates = tuple[tuple[Monoid, Expr], ...]
"""Contributions: into what, and of what."""

_MONOIDS = {BinaryOp.ADD: SUM, BinaryOp.MUL: PROD, BinaryOp.MIN: MIN, BinaryOp.MAX: MAX}


def updates(place: Load, value: Expr) -> Updates | None:
    """The contributions when storing `value` at `place` accumulates into it, None when it does not.

    `m + a + b` gives two contributions. A ternary maximum `x > m ? x : m` differs from `fmax` where an
    operand is a NaN, and in which of two zeros it takes.
    """
    match value:
        case Binary(op=BinaryOp.ADD | BinaryOp.SUB):
            return _sum(place, value)
        case Binary(op=BinaryOp.MUL | BinaryOp.MIN | BinaryOp.MAX):
            for mine, other in ((value.lhs, value.rhs), (value.rhs, value.lhs)):
                if mine == place and not _reads(other, place):
                    return ((_MONOIDS[value.op], other),)
            return None
        case Call(fn="fma") if value.args[2] == place:
            a, b, _ = value.args
            if _reads(a, place) or _reads(b, place):
                return None
            return ((SUM, Binary(BinaryOp.MUL, a, b, value.dtype)),)
        case Select():
            return _extreme(place, value)
        case _:
            return None


def _sum(place: Load, value: Expr) -> Updates | None:
    """A chain of additions and subtractions that starts from, or ends in, the place itself."""
    terms: list[Expr] = []
    e = value
    while e != place:
        match e:
            case Binary(op=BinaryOp.ADD, lhs=a, rhs=b) if not _reads(b, place):
                terms.append(b)
                e = a
            case Binary(op=BinaryOp.ADD, lhs=a, rhs=b) if not _reads(a, place):
                terms.append(a)
                e = b
            case Binary(op=BinaryOp.SUB, lhs=a, rhs=b) if not _reads(b, place):
                terms.append(Unary(UnaryOp.NEG, b, b.dtype))
                e = a
            case _:
                return None
    return tuple((SUM, t) for t in reversed(terms))


def _extreme(place: Load, value: Select) -> Updates | None:
    """`x > m ? x : m` in its eight spellings."""
    cond = value.cond
    if not isinstance(cond, Binary):
        return None
    greater = cond.op in (BinaryOp.GT, BinaryOp.GE)
    if not greater and cond.op not in (BinaryOp.LT, BinaryOp.LE):
        return None
    a, b = cond.lhs, cond.rhs
    if {value.then, value.orelse} != {a, b} or place not in (a, b) or a == b:
        return None
    other = b if a == place else a
    if _reads(other, place):
        return None
    takes_left = value.then == a
    return ((MAX if greater == takes_left else MIN, other),)


def _reads(e: Expr, place: Load) -> bool:
    return any(isinstance(x, Load) and x.buffer == place.buffer for x in subexpressions(e))
