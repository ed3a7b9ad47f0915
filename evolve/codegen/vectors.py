"""Which accesses of a VECTOR loop become one wide access, and whether its lanes may run side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evolve.ir.affine import Ranges, linear, simplify
from evolve.ir.expr import Binary, BinaryOp, Expr, Load, Select
from evolve.ir.lanes import coefficient, common_divisor
from evolve.ir.stmt import Alloc, Block, If, Reduce, Stmt, Store
from evolve.ir.types import DType
from evolve.ir.visit import children, loads

VECTOR_TYPES = {
    (DType.F32, 2): "float2",
    (DType.F32, 4): "float4",
    (DType.F64, 2): "double2",
    (DType.I32, 2): "int2",
    (DType.I32, 4): "int4",
    (DType.U32, 2): "uint2",
    (DType.U32, 4): "uint4",
    (DType.U8, 2): "uchar2",
    (DType.U8, 4): "uchar4",
    (DType.BF16, 2): "ushort2",
    (DType.BF16, 4): "ushort4",
    (DType.BOOL, 2): "uchar2",
    (DType.BOOL, 4): "uchar4",
}
"""The CUDA vector type of an element type and a width."""

LANES = ("x", "y", "z", "w")


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


def lanes_commute(body: LaneBody, lane: str, width: int, ranges: Ranges) -> bool:
    """Whether all lanes of each statement may run before the next statement.

    A buffer that the body writes must be touched either so that no lane touches an element of another, or by
    a single statement that does not read it (a reduction's own read aside).
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
        if not any(_keeps_lanes_apart(along, lane, width, ranges) for along in zip(*places, strict=True)):
            return False
    return True


def _keeps_lanes_apart(along: tuple[Expr, ...], lane: str, width: int, ranges: Ranges) -> bool:
    """Whether the subscripts of one dimension move with the lane and are whole vectors apart."""
    first, *others = (linear(i, ranges) for i in along)
    step = coefficient(first, lane)
    if not step:
        return False
    return all(
        coefficient(x, lane) == step and common_divisor(x + first.scale(-1), ranges) % (step * width) == 0
        for x in others
    )
