"""What is known of the lanes of a vector: alignment of adjacent elements, conditions on all lanes at once."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from evolve.ir.affine import Linear, Ranges, linear, simplify
from evolve.ir.data import reads_only_indices
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Var, add, index, mul
from evolve.ir.stmt import Buffer
from evolve.ir.types import DType
from evolve.ir.visit import substitute, variables


def divisor(e: Expr, ranges: Ranges) -> int:
    """A constant that divides the INDEX expression whatever its variables are; 0 for zero itself."""
    match e:
        case Const():
            return abs(int(e.value))
        case Var():
            low, high = ranges.of(e.name)
            if low is not None and low == high:
                return abs(low)
            return ranges.divisors.get(e.name, 1)
        case Binary(op=BinaryOp.ADD | BinaryOp.SUB | BinaryOp.MIN | BinaryOp.MAX):
            return gcd(divisor(e.lhs, ranges), divisor(e.rhs, ranges))
        case Binary(op=BinaryOp.MUL):
            return divisor(e.lhs, ranges) * divisor(e.rhs, ranges)
        case Binary(op=BinaryOp.FLOORDIV, rhs=Const(value=d)) if d > 0:
            whole = divisor(e.lhs, ranges)
            return whole // int(d) if whole % int(d) == 0 else 1
        case _:
            return 1


def common_divisor(form: Linear, ranges: Ranges) -> int:
    """As `divisor`, of a linear form."""
    total = abs(form.constant)
    for atom, c in form.terms:
        total = gcd(total, c * divisor(atom, ranges))
    return total


def coefficient(form: Linear, name: str) -> int | None:
    """The coefficient of a variable; None when it also occurs inside another term."""
    found = 0
    for atom, c in form.terms:
        if isinstance(atom, Var) and atom.name == name:
            found = c
        elif name in variables(atom):
            return None
    return found


def element_offset(b: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """The row-major offset of an access in elements, padding included."""
    out: Expr = index(0)
    for i, subscript in enumerate(indices):
        extent = b.extents[i] if not b.padding else add(b.extents[i], b.padding[i])
        out = add(mul(out, extent), subscript) if i else subscript
    return out


def lies_wide(b: Buffer, indices: tuple[Expr, ...], lane: str, width: int, ranges: Ranges) -> bool:
    """Whether an access runs over `width` adjacent, aligned elements as `lane` does.

    In a swizzled tile that is within a group of columns that stays together.
    """
    if b.swizzle is not None and (b.swizzle.width % width or not is_wide(indices[-1], lane, width, ranges)):
        return False
    return is_wide(element_offset(b, indices), lane, width, ranges)


def is_wide(offset: Expr, lane: str, width: int, ranges: Ranges) -> bool:
    """Whether element `offset` runs over `width` adjacent, aligned elements as `lane` does.

    Alignment is proved from the divisors of the sizes; the array's base is taken as aligned.
    """
    form = linear(offset, ranges)
    if coefficient(form, lane) != 1:
        return False
    base = Linear(tuple(t for t in form.terms if t[0] != Var(lane)), form.constant)
    return common_divisor(base, ranges) % width == 0


@dataclass(frozen=True)
class LaneGuard:
    """A condition on all lanes at once. `exact`: it holds for all lanes or for none."""

    full: Expr
    exact: bool


def lane_guard(cond: Expr, lane: str, width: int, ranges: Ranges) -> LaneGuard | None:
    """The condition under which `cond` holds in every lane; None when no single one is known."""
    if isinstance(cond, Binary) and cond.op is BinaryOp.AND:
        a, b = lane_guard(cond.lhs, lane, width, ranges), lane_guard(cond.rhs, lane, width, ranges)
        if a is None or b is None:
            return None
        return LaneGuard(Binary(BinaryOp.AND, a.full, b.full, DType.BOOL), a.exact and b.exact)
    if not reads_only_indices(cond):
        return None  # an earlier lane may change what it reads
    if lane not in variables(cond):
        return LaneGuard(cond, True)
    orders = (BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE)
    if not isinstance(cond, Binary) or cond.op not in orders or cond.lhs.dtype is not DType.INDEX:
        return None
    less = cond.op in (BinaryOp.LT, BinaryOp.LE)
    small, large = (cond.lhs, cond.rhs) if less else (cond.rhs, cond.lhs)
    form = linear(small, ranges) + linear(large, ranges).scale(-1)
    if cond.op in (BinaryOp.LE, BinaryOp.GE):
        form = form + Linear((), -1)
    c = coefficient(form, lane)
    if c is None or c == 0:
        return None
    g = 0
    for atom, k in form.terms:
        if atom != Var(lane):
            g = gcd(g, k * divisor(atom, ranges))
    decided = simplify(substitute(cond, {lane: index(0)}), ranges)
    if _all_or_none(form.constant, g, c * (width - 1)):
        return LaneGuard(decided, True)
    if c > 0:
        decided = simplify(substitute(cond, {lane: index(width - 1)}), ranges)
    return LaneGuard(decided, False)


def _all_or_none(constant: int, g: int, last: int) -> bool:
    """Whether r < 0 and r + last < 0 are the same for every r that is `constant` plus a multiple of `g`."""
    between = range(-max(last, 0), -min(last, 0))
    return constant not in between if g == 0 else all((r - constant) % g for r in between)
