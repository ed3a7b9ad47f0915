"""Which accesses of a VECTOR loop become one wide access, and whether its lanes may run side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from evolve.ir.affine import Linear, Ranges, linear, simplify
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Load, Select, Var, index
from evolve.ir.stmt import Alloc, Block, If, Reduce, Stmt, Store
from evolve.ir.types import DType
from evolve.ir.visit import children, loads, substitute, variables

VECTOR_TYPES = {
    (DType.F32, 2): "float2",
    (DType.F32, 4): "float4",
    (DType.F64, 2): "double2",
    (DType.I32, 2): "int2",
    (DType.I32, 4): "int4",
    (DType.U32, 2): "uint2",
    (DType.U32, 4): "uint4",
}
"""The CUDA vector type of an element type and a width."""

LANES = ("x", "y", "z", "w")


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


def coefficient(form: Linear, name: str) -> int | None:
    """The coefficient of a variable; None when it also occurs inside another term."""
    found = 0
    for atom, c in form.terms:
        if isinstance(atom, Var) and atom.name == name:
            found = c
        elif name in variables(atom):
            return None
    return found


def is_wide(offset: Expr, lane: str, width: int, ranges: Ranges) -> bool:
    """Whether element `offset` runs over `width` adjacent, aligned elements as `lane` does.

    Alignment is proved from the divisors of the sizes; the array's base is taken as aligned.
    """
    form = linear(offset, ranges)
    if coefficient(form, lane) != 1:
        return False
    base = Linear(tuple(t for t in form.terms if t[0] != Var(lane)), form.constant)
    total = abs(base.constant)
    for atom, c in base.terms:
        total = gcd(total, c * divisor(atom, ranges))
    return total % width == 0


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
    if loads(cond):
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
    last = index(width - 1 if c > 0 else 0)
    full = simplify(substitute(cond, {lane: last}), ranges)
    if c < 0:
        return LaneGuard(full, False)
    # form < 0 with all other terms a multiple of g > c * (width - 1): lane 0 decides for all.
    g = abs(form.constant)
    for atom, k in form.terms:
        if atom != Var(lane):
            g = gcd(g, k * divisor(atom, ranges))
    if g == 0 or g > c * (width - 1):
        first = simplify(substitute(cond, {lane: index(0)}), ranges)
        return LaneGuard(first, True)
    return LaneGuard(full, False)


def always_evaluated(e: Expr) -> Iterator[Load]:
    """Loads that are made whatever conditions inside `e` say."""
    if isinstance(e, Select):
        yield from always_evaluated(e.cond)
        return
    if isinstance(e, Binary) and e.op in (BinaryOp.AND, BinaryOp.OR):
        yield from always_evaluated(e.lhs)
        return
    for part in children(e):
        yield from always_evaluated(part)
    if isinstance(e, Load):
        yield e


@dataclass(frozen=True)
class LaneBody:
    """The body of a VECTOR loop as straight-line statements under at most one condition."""

    guard: Expr | None
    allocs: tuple[Alloc, ...]
    leaves: tuple[Store | Reduce, ...]


def lane_body(body: Block) -> LaneBody | None:
    """The body in that form; None when it has loops, barriers, or inner conditions."""
    guard: Expr | None = None
    stmts: tuple[Stmt, ...] = body.stmts
    while len(stmts) == 1 and isinstance(stmts[0], If | Block):
        inner = stmts[0]
        if isinstance(inner, If):
            if inner.orelse.stmts:
                return None
            guard = inner.cond if guard is None else Binary(BinaryOp.AND, guard, inner.cond, DType.BOOL)
            stmts = inner.body.stmts
        else:
            stmts = inner.stmts
    allocs = tuple(s for s in stmts if isinstance(s, Alloc))
    leaves = tuple(s for s in stmts if isinstance(s, Store | Reduce))
    if len(allocs) + len(leaves) != len(stmts):
        return None
    return LaneBody(guard, allocs, leaves)


def lanes_commute(body: LaneBody, lane: str, ranges: Ranges) -> bool:
    """Whether all lanes of each statement may run before the next statement.

    A buffer that the body writes must be touched either at one and the same element that moves with
    the lane, or by a single statement that does not read it (a reduction's own read aside).
    """
    private = {a.buffer.name for a in body.allocs}
    for written in {s.buffer for s in body.leaves} - private:
        places: set[tuple[Expr, ...]] = set()
        users = 0
        reads = 0
        for s in body.leaves:
            touched = [ld.indices for e in (*s.indices, s.value) for ld in loads(e) if ld.buffer == written]
            reads += len(touched)
            if s.buffer == written:
                touched.append(s.indices)
            users += bool(touched)
            places.update(tuple(simplify(i, ranges) for i in t) for t in touched)
        if users == 1 and reads == 0:
            continue
        if len(places) != 1:
            return False
        if not any(coefficient(linear(i, ranges), lane) for i in next(iter(places))):
            return False
    return True
