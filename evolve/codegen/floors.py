"""Floor division as C computes it: C rounds towards zero, so a dividend that may be negative is raised first.

`(i - 1) mod n` becomes `(i - 1 + n) % n`, and `(i - 1) // n` `(i - 1 + n) / n - 1`. Where nobody knows how
far below zero a dividend may be, the remainder is what is raised: `(d % n + n) % n`.
"""

from __future__ import annotations

from evolve.codegen.errors import CodegenError
from evolve.ir.affine import Linear, Ranges, bounds, linear
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, add, mod, mul
from evolve.ir.printer import print_expr
from evolve.ir.visit import children, rebuild

_TRIED = (0, 1, 2)


def raised_by(dividend: Expr, divisor: Expr, ranges: Ranges) -> int | None:
    """How many times the divisor is added for the dividend not to be negative.

    None where that is not known. Raises CodegenError where the divisor may be 0 or less.
    """
    below, _ = bounds(linear(divisor, ranges), ranges)
    if below is None or below <= 0:
        raise CodegenError(f"{print_expr(divisor)}, which divides an index, may be 0 or less")
    for times in _TRIED:
        if _never_negative(linear(raised(dividend, divisor, times), ranges), ranges):
            return times
    low, _ = bounds(linear(dividend, ranges), ranges)
    return None if low is None else -(low // below)


def _never_negative(form: Linear, ranges: Ranges) -> bool:
    """Whether a form is at least 0; quotients subtracted count as what is divided, remainders as 0."""
    for atom, c in form.terms:
        match atom:
            case Binary(op=BinaryOp.FLOORDIV, lhs=x, rhs=Const(value=d)) if c < 0 and d > 0:
                rest = _without(form, atom)
                return _never_negative(rest.scale(int(d)) + linear(x, ranges).scale(c), ranges)
            case Binary(op=BinaryOp.MOD, rhs=divisor) if c > 0 and _is_positive(divisor, ranges):
                return _never_negative(_without(form, atom), ranges)
    low, _ = bounds(form, ranges)
    return low is not None and low >= 0


def _without(form: Linear, atom: Expr) -> Linear:
    return Linear(tuple(t for t in form.terms if t[0] != atom), form.constant)


def _is_positive(e: Expr, ranges: Ranges) -> bool:
    low, _ = bounds(linear(e, ranges), ranges)
    return low is not None and low > 0


def raised(dividend: Expr, divisor: Expr, times: int) -> Expr:
    """The dividend and so many divisors; not simplified, which would take them away again."""
    return add(dividend, divisor if times == 1 else mul(divisor, times)) if times else dividend


def with_raised(e: Expr, ranges: Ranges) -> Expr:
    """An expression with every dividend as C gets it: what bounds on intermediate values have to see."""
    parts = children(e)
    out = rebuild(e, tuple(with_raised(x, ranges) for x in parts)) if parts else e
    match out:
        case Binary(op=BinaryOp.FLOORDIV | BinaryOp.MOD, lhs=dividend, rhs=divisor):
            times = raised_by(dividend, divisor, ranges)
            if times is None:
                return add(mod(dividend, divisor), divisor)
            return Binary(out.op, raised(dividend, divisor, times), divisor, out.dtype)
    return out
