"""Check `uniform`: all threads reach every barrier and combine together, and a combine fits its threads."""

from __future__ import annotations

from evolve.ir.affine import simplify
from evolve.ir.expr import Expr, Load
from evolve.ir.printer import print_expr
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Barrier, For, Reduce, Store
from evolve.ir.types import LoopKind
from evolve.ir.visit import Site, loads, variables, walk
from evolve.legality.instances import constant_at
from evolve.legality.model import Model
from evolve.legality.proof import Finding, Proof, refuted
from evolve.target.limits import WARP


def check_uniform(p: Proof) -> list[Finding]:
    """E-BARRIER, E-COMBINE."""
    out: list[Finding] = []
    for site in walk(p.target.kernel.body):
        s = site.stmt
        if isinstance(s, Barrier):
            reason = why_not_uniform(p.target, site, LoopKind.THREAD_X)
            if reason:
                out.append(refuted("E-BARRIER", f"not every thread of the block reaches a barrier: {reason}"))
        elif isinstance(s, For) and s.kind.is_combine:
            out += _combine(p, site, s)
            out += _scan(p, site, s) if s.kind.is_scan else []
    return out


def why_not_uniform(model: Model, site: Site, innermost: LoopKind) -> str | None:
    """Why threads of a block (or of a warp) may part on the way to `site`; None when they cannot.

    `innermost` THREAD_X: all threads of the block must arrive. For a warp whose lanes are thread.x,
    call with THREAD_Y: what depends on thread.y or thread.z alone is the same for all its lanes.
    An element of an array that the launch leaves as it is is the same for those who read the same one.
    """
    matter = {LoopKind.THREAD_X}
    whole_block = innermost is LoopKind.THREAD_X
    if whole_block:
        matter |= {LoopKind.THREAD_Y, LoopKind.THREAD_Z}
    tainted: set[str] = set()
    for i, step in enumerate(site.path):
        ranges = ranges_at(model.kernel, site.path[:i])
        if isinstance(step, For):
            extent = simplify(step.extent, ranges)
            if step.kind.is_thread:
                if step.kind in matter:
                    tainted.add(step.var)
                    if constant_at(step.extent, ranges) != model.thread_extent[step.kind]:
                        return f"loop {step.var} runs {print_expr(extent)} of the block's threads"
                continue
            what, decides = f"the trip count of loop {step.var}", extent
        else:
            decides = simplify(step.cond, ranges)
            what = f"the condition {print_expr(decides)}"
        depends = (variables(decides) & tainted) | _changing(model, decides)
        if depends:
            return f"{what} depends on {', '.join(sorted(depends))}"
    return None


def _changing(model: Model, e: Expr) -> frozenset[str]:
    """What an expression reads but arrays that the launch leaves as they are."""
    left = {b.name for b in model.kernel.buffers} - model.kernel_writes
    return frozenset(x.buffer for x in loads(e)) - left


def _combine(p: Proof, site: Site, loop: For) -> list[Finding]:
    model = p.target
    body = loop.body.stmts
    before = 1 if loop.kind.is_scan else 0
    leaf = body[-1] if len(body) == before + 1 else None
    if not isinstance(leaf, Reduce) or leaf.origin is not None:
        return [refuted("E-COMBINE", f"combine loop {loop.var} must hold exactly one reduction of a partial")]
    out: list[Finding] = []
    width = constant_at(loop.extent, ranges_at(model.kernel, site.path))
    x = model.thread_extent[LoopKind.THREAD_X]
    if not _partial_by_lane(model, leaf, loop, width):
        out.append(
            refuted(
                "E-COMBINE",
                f"loop {loop.var} must combine a register partial, one element a thread of thread.x",
            )
        )
    if any(s.kind is LoopKind.THREAD_X for s in site.loops):
        out.append(refuted("E-COMBINE", f"loop {loop.var} combines thread.x inside a thread.x loop"))
    if not loop.kind.meets_in_block:
        if width != x or x > WARP or x & (x - 1):
            out.append(
                refuted(
                    "E-COMBINE",
                    f"loop {loop.var} combines {print_expr(loop.extent)} lanes where thread.x has {x}: "
                    "a warp reduction takes all of thread.x, a power of two up to 32",
                )
            )
        # With fewer lanes than a warp, several values of thread.y share the warp.
        reason = why_not_uniform(model, site, LoopKind.THREAD_Y if x == WARP else LoopKind.THREAD_X)
    else:
        # As many as hold a partial, which the threads of a block do: at most all of them.
        reason = why_not_uniform(model, site, LoopKind.THREAD_X)
    if reason:
        out.append(refuted("E-BARRIER", f"not every thread reaches combine loop {loop.var}: {reason}"))
    return out


def _scan(p: Proof, site: Site, loop: For) -> list[Finding]:
    """E-COMBINE: a scan loop is exactly `before[t] = total; total op= part[t]`, in three registers.

    `_combine` has looked at its second statement, and the layouts at who holds `before[t]` and `total`. There
    are as many turns as threads along thread.x, so that each has one.
    """
    model = p.target
    first, second = (*loop.body.stmts, None, None)[:2]
    if not isinstance(first, Store) or not isinstance(second, Reduce):
        return [refuted("E-COMBINE", f"scan loop {loop.var} must hold a copy of the total and a reduction")]
    total = Load(second.buffer, second.indices, second.value.dtype)
    names = (first.buffer, second.buffer, *(x.buffer for x in loads(second.value)))
    if first.origin is not None or first.value != total or len(set(names)) != 3 or second.atomic:
        return [refuted("E-COMBINE", f"scan loop {loop.var} must first keep the total as it is")]
    if not {first.buffer, second.buffer} <= model.layouts.keys():
        return [refuted("E-COMBINE", f"scan loop {loop.var} must add up in a register of each thread")]
    if constant_at(loop.extent, ranges_at(model.kernel, site.path)) != model.thread_extent[LoopKind.THREAD_X]:
        return [refuted("E-COMBINE", f"scan loop {loop.var} must give each thread of thread.x its turn")]
    return []


def _partial_by_lane(model: Model, leaf: Reduce, loop: For, width: int | None) -> bool:
    """Whether the value combined is a register element owned by the thread that the loop counts."""
    value = leaf.value
    if not isinstance(value, Load):
        return False
    if any(loop.var in variables(i) for i in leaf.indices):
        return False
    layout = model.layouts.get(value.buffer)
    if layout is None:
        return False
    # Rows of threads combine elements of their own, which the layout tells apart.
    return [d.extent for dim in layout.dims for d in dim if d.axis is LoopKind.THREAD_X] == [width]
