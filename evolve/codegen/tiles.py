"""Whole tiles apart from partial ones.

A nest whose guards differ from iteration to iteration of one thread becomes two: one without those
guards, run when they hold for all of its iterations, and the nest as it was. Thread loops are no part
of it: each thread asks for itself, so that an edge of the array costs the threads at the edge only.
"""

from __future__ import annotations

from dataclasses import replace

from evolve.ir.affine import Linear, Ranges, linear, simplify
from evolve.ir.data import reads, reads_only_indices
from evolve.ir.expr import FALSE, TRUE, Binary, BinaryOp, Const, Expr, compare, conjunction, index
from evolve.ir.kernel import Kernel
from evolve.ir.lanes import coefficient
from evolve.ir.scope import conjuncts, ranges_at
from evolve.ir.stmt import Alloc, Barrier, Block, Commit, For, If, Leaf, Stmt, Wait
from evolve.ir.types import DType, LoopKind, Space
from evolve.ir.visit import loads, rewrite, substitute, variables, walk

MAX_LEAVES = 8
"""A nest with more statements is not written twice."""

_ORDERS = (BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE)


def split_whole_tiles(kernel: Kernel) -> Block:
    """The body with every such nest in two forms."""
    return _block(kernel, kernel.body, ())


def _block(kernel: Kernel, block: Block, path: tuple[For | If, ...]) -> Block:
    return Block(tuple(_statement(kernel, s, path) for s in block.stmts))


def _statement(kernel: Kernel, s: Stmt, path: tuple[For | If, ...]) -> Stmt:
    match s:
        case Block():
            return _block(kernel, s, path)
        case If():
            inner = (*path, s)
            return replace(s, body=_block(kernel, s.body, inner), orelse=_block(kernel, s.orelse, inner))
        case For() if s.kind.is_grid or s.kind.is_thread or _holds_phases(s):
            return replace(s, body=_block(kernel, s.body, (*path, s)))
        case For():
            return _nest(kernel, s, path)
        case _:
            return s


def _holds_phases(s: For) -> bool:
    """Whether the loop has barriers, collectives or shared declarations in it, so it is no plain nest."""
    for site in walk(s.body):
        x = site.stmt
        if isinstance(x, Barrier | Commit | Wait) or (isinstance(x, For) and x.kind.is_combine):
            return True
        if isinstance(x, Alloc) and x.buffer.space is Space.SHARED:
            return True
    return s.kind.is_combine


def _nest(kernel: Kernel, nest: For, path: tuple[For | If, ...]) -> Stmt:
    if reads(nest.extent):
        # As long as memory says: no iteration of it is known to be the last.
        return replace(nest, body=_block(kernel, nest.body, (*path, nest)))
    sites = list(walk(Block((nest,))))
    if sum(isinstance(x.stmt, Leaf) for x in sites) > MAX_LEAVES:
        return nest
    guards = [x for x in sites if isinstance(x.stmt, If)]
    if any(isinstance(x.stmt, If) and x.stmt.orelse.stmts for x in guards):
        return nest
    whole: dict[Expr, Expr] = {}
    worth = False
    for site in guards:
        assert isinstance(site.stmt, If)
        ranges = ranges_at(kernel, (*path, *site.path))
        loops = {x.var: x for x in site.loops}
        for term in conjuncts((site.stmt.cond,)):
            moving = variables(term) & set(loops)
            full = _everywhere(kernel, term, loops, ranges) if moving else None
            if full is None:
                continue
            whole[term] = full
            worth = worth or any(_repeats(loops[v], ranges) for v in moving)
    if not worth:
        return nest
    cond = simplify(conjunction(tuple(dict.fromkeys(whole.values()))), ranges_at(kernel, path))
    bare = rewrite(Block((nest,)), lambda x: _without(x, frozenset(whole)))
    if isinstance(cond, Const):
        return bare if cond == TRUE else nest
    return If(cond, bare, Block((nest,)), span=nest.span)


def _repeats(loop: For, ranges: Ranges) -> bool:
    """Whether one thread runs several iterations of the loop, one after the other.

    A VECTOR loop separates its last vector itself.
    """
    if loop.kind not in (LoopKind.SERIAL, LoopKind.UNROLL):
        return False
    return simplify(loop.extent, ranges) not in (index(0), index(1))


def _everywhere(kernel: Kernel, term: Expr, loops: dict[str, For], ranges: Ranges) -> Expr | None:
    """`term` at the iteration of the loops where it is hardest to meet; None when that is not known.

    What it reads from memory may be read only where the guards around it hold, unless it is an index that is
    there for all sizes.
    """
    if (
        not _is_there(kernel, term)
        or not isinstance(term, Binary)
        or term.op not in _ORDERS
        or term.lhs.dtype is not DType.INDEX
    ):
        return None
    small, large = (term.lhs, term.rhs) if term.op in (BinaryOp.LT, BinaryOp.LE) else (term.rhs, term.lhs)
    form: Linear = linear(small, ranges) + linear(large, ranges).scale(-1)
    by: dict[str, Expr] = {}
    for v in variables(term) & set(loops):
        c = coefficient(form, v)
        extent = simplify(loops[v].extent, ranges)
        if c is None or not isinstance(extent, Const) or extent.value < 1:
            return None
        by[v] = index(int(extent.value) - 1 if c > 0 else 0)
    full = simplify(substitute(term, by), ranges)
    return None if full == FALSE else full


def _is_there(kernel: Kernel, e: Expr) -> bool:
    """Whether an expression reads only elements of index arrays that are there for all sizes."""
    if not reads_only_indices(e):
        return False
    sizes, arrays = ranges_at(kernel), {b.name: b for b in kernel.buffers}
    for x in loads(e):
        for i, extent in zip(x.indices, arrays[x.buffer].extents, strict=True):
            inside = (compare(BinaryOp.GE, i, 0), compare(BinaryOp.LT, i, extent))
            if loads(i) or any(simplify(c, sizes) != TRUE for c in inside):
                return False
    return True


def _without(s: Stmt, terms: frozenset[Expr]) -> Stmt | tuple[Stmt, ...] | None:
    if not isinstance(s, If):
        return None
    kept = tuple(t for t in conjuncts((s.cond,)) if t not in terms)
    return replace(s, cond=conjunction(kept)) if kept else s.body.stmts
