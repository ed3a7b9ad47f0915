"""Conditions that read memory, in isl's notation: exactly where they ask integers, else each by itself.

An access happens for some contents of the arrays that its conditions read. Two conditions on one element may
exclude each other, or some place: `t > i && t < n` is never so for i = n - 1. So an integer is a dimension of
its own. Any other condition may hold or not, and does so wherever its text
stands; one that may be bound to another, reading what that reads, has no words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from evolve.frontend.polynomial import Poly, polynomial
from evolve.ir.expr import Binary, BinaryOp, Call, Cast, Const, Expr, Load, Unary, UnaryOp, Var
from evolve.ir.printer import print_expr
from evolve.ir.types import DType
from evolve.ir.visit import loads

SIGNS = {
    BinaryOp.LT: "<",
    BinaryOp.LE: "<=",
    BinaryOp.GT: ">",
    BinaryOp.GE: ">=",
    BinaryOp.EQ: "=",
    BinaryOp.NE: "!=",
}
_LARGE = 2**31 - 1
"""No size is larger: an integer of 32 bits may be larger than what stands for one."""
_SIGNED = (DType.I32, DType.I64)
_INTEGERS = (*_SIGNED, DType.U8, DType.U32, DType.U64)


@dataclass
class Asking:
    """The conditions on memory of one access.

    affine   text of what is affine
    scalar   text of an integer parameter that is no size
    dim      the dimension of that key
    bounds   what holds of the dimensions
    element  text of an integer of an ordered array, an index elsewhere; None for others
    """

    affine: Callable[[Poly], str]
    scalar: Callable[[str], str]
    dim: Callable[[str], str]
    bounds: list[str]
    element: Callable[[Load], str | None]
    _by: dict[str, str] = field(default_factory=dict)

    def text(self, e: Expr, holds: bool) -> str | None:
        """Where a condition holds, or does not; None if there are no words for it."""
        match e:
            case Binary(lhs=Cast(arg=truth), rhs=Const(value=0), op=BinaryOp.EQ | BinaryOp.NE) if (
                truth.dtype is DType.BOOL
            ):  # as a number, which `isfinite` is
                return self.text(truth, holds is (e.op is BinaryOp.NE))
        if isinstance(e, Binary) and e.op.is_comparison and not e.lhs.dtype.is_float:
            a, b = self._number(e.lhs), self._number(e.rhs)
            if a is not None and b is not None:
                return f"{a} {SIGNS[e.op if holds else e.op.negated]} {b}"
        key = f"? {print_expr(e)}"
        if not _may_be_either(e) or not all(self._alone(x.buffer, key) for x in loads(e)):
            return None
        chosen = self.dim(key)
        return f"{chosen} >= 1" if holds else f"{chosen} <= 0"

    def _alone(self, buffer: str, key: str) -> bool:
        """Whether all conditions so far that read the array are this one, or read this one element."""
        return self._by.setdefault(buffer, key) == key

    def _number(self, e: Expr) -> str | None:
        """An integer as C has it, where it does not wrap around."""
        match e:
            case Const():
                return str(int(e.value)) if abs(e.value) < _LARGE else None
            case Load() if e.dtype in _INTEGERS and (known := self.element(e)) is not None:
                return known
            case Load() if e.dtype in _INTEGERS:
                key = f"= {print_expr(e)}"
                if not self._alone(e.buffer, key):
                    return None
                low, high = e.dtype.limits
                name = self.dim(key)
                if e.dtype not in _SIGNED:
                    self.bounds.append(f"{low} <= {name}")
                if high < _LARGE:
                    self.bounds.append(f"{name} <= {high}")
                return name
            case Cast() if e.arg.dtype is DType.INDEX and not loads(e):
                return self.affine(polynomial(e.arg))
            case Cast() if e.arg.dtype in _INTEGERS and _holds_all(e.dtype, e.arg.dtype):
                return self._number(e.arg)
            case Var() if e.dtype in _INTEGERS:
                return self.scalar(e.name)
            case Binary(op=BinaryOp.ADD | BinaryOp.SUB) if e.dtype in _SIGNED:
                a, b = self._number(e.lhs), self._number(e.rhs)
                return None if a is None or b is None else f"({a} {e.op.value} ({b}))"
            case _:
                return None


def _holds_all(to: DType, of: DType) -> bool:
    if to not in _INTEGERS:
        return False
    return to.limits[0] <= of.limits[0] and of.limits[1] <= to.limits[1]


def _may_be_either(e: Expr) -> bool:
    """Whether there are contents for which a condition holds and others for which it does not: a number that
    is read as it is, compared with something else or asked for its truth."""
    if isinstance(e, Load):
        return True
    if isinstance(e, Cast) and e.dtype is DType.BOOL:
        return _may_be_either(e.arg)
    if not (isinstance(e, Binary) and e.op.is_comparison):
        return False
    if _asks_what_kind(e):
        return True
    for x, other in ((e.lhs, e.rhs), (e.rhs, e.lhs)):
        read = {y.buffer for y in loads(other)}
        if isinstance(_bare(x), Load) and not _is_extreme(other) and not {y.buffer for y in loads(x)} & read:
            return True
    return False


def _asks_what_kind(e: Binary) -> bool:
    """Whether it asks if a float that is read is a number, or finite: `isnan`, `isinf`, `isfinite`."""
    match e:
        case Binary(lhs=Load() as x, rhs=y, op=BinaryOp.EQ | BinaryOp.NE):
            return x == y and x.dtype.is_float
        case Binary(lhs=Call(fn="fabs", args=(Load(),)), rhs=Const(value=math.inf)):
            return e.op in (BinaryOp.EQ, BinaryOp.NE, BinaryOp.LT, BinaryOp.GE)
        case _:
            return False


def _bare(e: Expr) -> Expr:
    """The number itself, where its type or its sign is changed."""
    while (isinstance(e, Cast) and e.dtype is not DType.BOOL) or (
        isinstance(e, Unary) and e.op is UnaryOp.NEG
    ):
        e = e.arg
    return e


def _is_extreme(e: Expr) -> bool:
    """Whether some comparison with it is decided, as with infinity, or may be."""
    e = _bare(e)
    if isinstance(e, Const):
        return e.dtype.is_float and not math.isfinite(e.value)
    return False
