"""Check `limits`: what the launch and the hardware allow, whatever the program means."""

from __future__ import annotations

from evolve.ir.affine import simplify
from evolve.ir.data import reads
from evolve.ir.expr import BinaryOp, Const, Expr, Load, compare
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import For, Store
from evolve.ir.types import Cache, LoopKind, Space
from evolve.ir.visit import variables, walk
from evolve.legality.instances import constant_at
from evolve.legality.proof import Finding, Proof, refuted, unknown
from evolve.target.limits import BLOCK_MOST, GRID_MOST, WARP, shared_bytes


def check_limits(p: Proof) -> list[Finding]:
    """E-THREADS, E-LANES, E-GRID, E-REGISTERS, E-SHARED-SIZE, E-CACHE, E-PREFETCH."""
    return [*_threads(p), *_lanes(p), *_grid(p), *_shared(p), *_cached(p), *_prefetched(p)]


def _cached(p: Proof) -> list[Finding]:
    """Loads of what the kernel writes must not be told that nobody does."""
    return [
        refuted(
            "E-CACHE",
            f"{b.name} is loaded as data that nobody writes, and the kernel writes it",
            repair=f"cache_hint({b.name}, streaming)",
        )
        for b in p.target.buffers.values()
        if b.cache is Cache.READ_ONLY and b.name in p.target.written
    ]


def _prefetched(p: Proof) -> list[Finding]:
    """L2 can be asked for an element of an array only, and what that is copied to is never read."""
    out: list[Finding] = []
    buffers, read = p.target.buffers, {r.load.buffer for st in p.target.statements for r in st.reads}
    for st in p.target.statements:
        leaf = st.leaf
        if not isinstance(leaf, Store) or not leaf.prefetch:
            continue
        of = leaf.value.buffer if isinstance(leaf.value, Load) else ""
        if of not in buffers or buffers[of].space is not Space.GLOBAL:
            why = f"what is asked for is no element of an array: {print_expr(leaf.value)}"
        elif buffers[leaf.buffer].space is not Space.REGISTER or leaf.buffer in read:
            why = f"{leaf.buffer} would hold what is only asked for"
        else:
            continue
        out.append(refuted("E-PREFETCH", why))
    return out


def _threads(p: Proof) -> list[Finding]:
    out: list[Finding] = []
    threads = 1
    for axis, n in p.target.thread_extent.items():
        threads *= n
        if not 1 <= n <= BLOCK_MOST[axis]:
            message = f"{axis.value} has {n} threads, outside 1 to {BLOCK_MOST[axis]}"
            out.append(refuted("E-THREADS", message, repair="split the loop and bind the smaller part"))
    declared = p.target.kernel.max_threads
    most = p.limits.threads_per_block
    if declared:
        most = min(most, declared)
    lanes = -(-threads // WARP) * WARP
    registers, each = p.limits.registers, p.target.kernel.registers
    if -(-each // 8) * 8 * lanes > registers:
        message = f"a block has {registers} registers: not {each} for {threads} threads"
        fitting = registers // lanes // 8 * 8
        out.append(refuted("E-REGISTERS", message, repair=f"max_registers({fitting})"))
    if threads > most:
        reason = "what launch_bounds declares" if declared == most else "what a block may have"
        out.append(
            refuted(
                "E-THREADS",
                f"a block has {threads} threads, more than the {most} that is {reason}",
                repair="bind fewer iterations to thread axes: split with a smaller factor",
            )
        )
    return out


def _lanes(p: Proof) -> list[Finding]:
    """Where thread.x and thread.y are lanes they make a whole warp, and nothing takes adjacent lanes for
    neighbours along thread.x: the bits of both take turns."""
    kernel = p.target.kernel
    if not kernel.lanes:
        return []
    x, y = (p.target.thread_extent[a] for a in (LoopKind.THREAD_X, LoopKind.THREAD_Y))
    if x * y != WARP or x & (x - 1):
        return [refuted("E-LANES", f"{x} by {y} lanes are bound, a warp has {WARP}, by powers of two")]
    combines = [s.stmt.var for s in walk(kernel.body) if isinstance(s.stmt, For) and s.stmt.kind.is_combine]
    if combines and y > 1:
        return [refuted("E-LANES", f"{combines[0]} combines along lanes that lie in two dimensions")]
    return []


def _grid(p: Proof) -> list[Finding]:
    out: list[Finding] = []
    kernel = p.target.rendered
    scalars = {s.name for s in kernel.scalars}
    for site in walk(kernel.body):
        loop = site.stmt
        if not isinstance(loop, For) or not loop.kind.is_grid:
            continue
        extent = simplify(loop.extent, ranges_at(kernel, site.path))
        if reads(extent):
            out.append(refuted("E-GRID", f"the extent of grid loop {loop.var} is read from memory"))
        if not variables(extent) <= scalars:
            out.append(refuted("E-GRID", f"the extent of grid loop {loop.var} depends on loops around it"))
        most = GRID_MOST[loop.kind]
        n = constant_at(loop.extent, ranges_at(kernel, site.path))
        if n is not None and n > most:
            out.append(refuted("E-GRID", f"{loop.kind.value} has {n} blocks, more than {most}: {loop.var}"))
    return out


def grid_facts(kernel: Kernel) -> tuple[Expr, ...]:
    """What the launch needs of the sizes: grid.y and grid.z extents within the axis limit.

    The proof does not show these where the extent is symbolic: they belong into the variant's guard.
    """
    out: list[Expr] = []
    for site in walk(kernel.body):
        loop = site.stmt
        if isinstance(loop, For) and loop.kind in (LoopKind.GRID_Y, LoopKind.GRID_Z):
            ranges = ranges_at(kernel, site.path)
            fact = simplify(compare(BinaryOp.LE, loop.extent, GRID_MOST[loop.kind]), ranges)
            if not isinstance(fact, Const):
                out.append(fact)
    return tuple(dict.fromkeys(out))


def alignments(kernel: Kernel) -> tuple[str, ...]:
    """Base alignments that wide accesses rely on: facts for the launch guard."""
    return tuple(f"{b.name} is {b.align}-byte aligned" for b in kernel.buffers if b.align)


def _combine_scratch(p: Proof) -> list[int]:
    """At most the bytes that each block-wide combine exchanges through: one element a thread."""
    threads = 1
    for n in p.target.thread_extent.values():
        threads *= n
    out: list[int] = []
    for site in walk(p.target.kernel.body):
        if isinstance(site.stmt, For) and site.stmt.kind.meets_in_block:
            x = p.target.thread_extent[LoopKind.THREAD_X]
            each = threads // WARP if x % WARP == 0 else threads
            sizes = (s.leaf.value.dtype.size for s in p.target.statements if s.is_combine)
            out.append(each * max(sizes, default=0))
    return out


def _shared(p: Proof) -> list[Finding]:
    arrays = _combine_scratch(p)
    for d in p.target.declared.values():
        b = d.buffer
        if b.space is not Space.SHARED:
            continue
        ranges = ranges_at(p.target.kernel, d.site.path)
        cells = 1
        for i, e in enumerate(b.extents):
            n = constant_at(e, ranges)
            if n is None:
                return [unknown("E-SHARED-SIZE", f"shared buffer {b.name} has no constant size")]
            cells *= n + (b.padding[i] if i < len(b.padding) else 0)
        arrays.append(cells * b.dtype.size)
    total = shared_bytes(arrays)
    if total <= p.limits.shared_bytes:
        return []
    return [
        refuted(
            "E-SHARED-SIZE",
            f"a block uses {total} bytes of shared memory, more than {p.limits.shared_bytes}",
            repair="use smaller tiles",
        )
    ]
