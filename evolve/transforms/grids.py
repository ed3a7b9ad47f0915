"""grid_reduce, persistent: work cut for the whole grid, in two launches or for as many blocks as fit.

grid_reduce reduces over the whole grid by two launches with scratch memory between them:

    alloc s: register
    s = 0
    for b in 0..B:  for k in 0..K:  s sum= e(b, k)
    out[0] = s

becomes

    alloc s_part: global[B]
    for b in 0..B:
      s_part[b] = identity
      for k in 0..K:  s_part[b] sum= e(b, k)
    ---- next launch ----
    alloc s: register
    s = 0
    for b.all in 0..B:  s sum= s_part[b.all]
    out[0] = s

The iterations of b are independent now, and other statements bind them. Loops around b are in both launches,
in the first one under new names, and each of their iterations has partials of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.affine import simplify
from evolve.ir.effects import effects
from evolve.ir.expr import Const, Expr, Load, var
from evolve.ir.kernel import Kernel
from evolve.ir.launches import scratch
from evolve.ir.printer import print_expr, print_stmt
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, Boundary, Buffer, For, Reduce, Stmt, Store
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import Site, fresh, leaves, rewrite, substitute, substitute_block, variables, walk
from evolve.transforms.call import Call, Result, loop_of, transform
from evolve.transforms.edit import (
    carried_write,
    constant_extent,
    declared_in,
    reads_memory,
    replace_loop,
    touched,
)
from evolve.transforms.loops import split_named
from evolve.transforms.mapping import FREE, check_axis, check_grid
from evolve.transforms.names import taken_names


@dataclass(frozen=True)
class _Partial:
    """A reduction and the scratch buffer that takes what each iteration contributes to it."""

    update: Reduce
    buffer: Buffer


@transform("grid_reduce")
def grid_reduce(call: Call) -> Result:
    """See dsl_spec/grid_reduce.yaml."""
    kernel, site = call.kernel, call.site("loop")
    loop = loop_of(site)
    if loop.kind not in FREE:
        raise RefusedError("E-LOOP-KIND", f"loop {loop.var} is already {loop.kind.value}")
    _check_around(loop, site)
    outer = site.loops
    extents = tuple(_extent(kernel, x, site) for x in (loop, *outer))
    taken = taken_names(kernel)
    partials = []
    for update in _updates(loop, frozenset(x.var for x in outer)):
        name = fresh(f"{update.buffer}_part", taken)
        taken.add(name)
        partials.append(_Partial(update, Buffer(name, update.value.dtype, extents, Space.GLOBAL)))
    _check_reads(kernel, loop, partials)
    gathered = _gather(loop, site, partials, taken, call.note)
    total = fresh(f"{loop.var}.all", taken)
    combined = _combine(loop, outer, partials, total, extents[0], call.note)
    start = _launch_start(kernel, loop.var)
    kernel = replace_loop(kernel, loop.var, lambda _: combined)
    stmts = (*kernel.body.stmts[:start], gathered, Boundary(), *kernel.body.stmts[start:])
    declared = (Alloc(p.buffer) for p in partials)
    return replace(kernel, body=Block((*declared, *stmts))), call.names


def _check_around(loop: For, site: Site) -> None:
    """Raises RefusedError E-GRID-NEST unless what is around the loop can be done twice."""
    sides = iter(site.in_else)
    for step in site.path:
        if isinstance(step, For):
            if step.kind not in FREE and not step.kind.is_grid:
                raise RefusedError(
                    "E-GRID-NEST",
                    f"{loop.var} is inside {step.var}, a {step.kind.value} loop of one launch",
                    repair=f"grid_reduce({loop.var}) before {step.var} is bound",
                )
        elif next(sides) or step.orelse.stmts or reads_memory(step.cond):
            raise RefusedError(
                "E-GRID-NEST", f"{loop.var} is inside the condition {print_expr(step.cond)}, which another "
                "launch cannot decide in the same way"
            )  # fmt: skip


def _extent(kernel: Kernel, loop: For, site: Site) -> Expr:
    """The loop's extent as a function of the sizes. Raises RefusedError E-EXTENT."""
    extent = simplify(loop.extent, ranges_at(kernel, site.path))
    sizes = {s.name for s in kernel.scalars if s.is_size and not s.implied}
    if reads_memory(extent) or not variables(extent) <= sizes:
        raise RefusedError(
            "E-EXTENT",
            f"{loop.var} has {print_expr(extent)} iterations: how many partials there are must follow "
            "from the sizes",
        )
    return extent


def _updates(loop: For, outer: frozenset[str]) -> Iterator[Reduce]:
    """The reductions that the loop carries. Raises RefusedError when it does anything else."""
    local = declared_in(loop.body)
    found = False
    for leaf, _ in leaves(loop.body):
        if leaf.buffer in local:
            continue
        if not isinstance(leaf, Reduce):
            raise RefusedError(
                "E-CARRIED", f"`{print_stmt(leaf)}` inside {loop.var} is a store, not a reduction"
            )
        if not all(variables(i) <= outer and not reads_memory(i) for i in leaf.indices):
            raise RefusedError(
                "E-WINDOW",
                f"`{print_stmt(leaf)}` reaches several cells inside {loop.var}",
                repair="reorder so that the loops that choose the cell are outside",
            )
        accesses = [a for s in walk(loop.body) for a in effects(s.stmt).accesses]
        if sum(a.buffer == leaf.buffer for a in accesses) != 1:
            raise RefusedError(
                "E-REDUCE-READ",
                f"{leaf.buffer} is used inside {loop.var} by more than `{print_stmt(leaf)}`",
                repair="distribute the loop so that the reduction stands alone",
            )
        found = True
        yield leaf
    if not found:
        raise RefusedError("E-REDUCE-NONE", f"no reduction is carried by {loop.var}")


def _check_reads(kernel: Kernel, loop: For, partials: list[_Partial]) -> None:
    """Raises RefusedError E-GRID-READ: a launch before this one can use only what is there already."""
    reads, _ = touched(loop.body)
    mine = declared_in(loop.body) | {p.update.buffer for p in partials}
    arrays = {b.name for b in (*kernel.buffers, *scratch(kernel))}
    start = _launch_start(kernel, loop.var)
    end = next((i for i, s in enumerate(kernel.body.stmts) if i >= start and isinstance(s, Boundary)), None)
    _, written = touched(Block(kernel.body.stmts[start:end]))
    for buffer in sorted(reads - mine):
        if buffer not in arrays or buffer in written:
            raise RefusedError(
                "E-GRID-READ",
                f"{loop.var} reads {buffer}, which is made in the same launch",
                repair=f"grid_reduce only what does not need {buffer}",
            )


def _gather(loop: For, site: Site, partials: list[_Partial], taken: set[str], note: str) -> Stmt:
    """The first launch: the loop, and around it what is around it, under other names."""
    renamed: dict[str, str] = {}
    for x in site.loops:
        renamed[x.var] = fresh(f"{x.var}.part", taken)
        taken.add(renamed[x.var])
    by: dict[str, Expr] = {old: var(new) for old, new in renamed.items()}
    cell = (var(loop.var), *by.values())

    def to_partial(s: Stmt) -> Stmt | None:
        mine = (p for p in partials if p.update is s)
        return next((replace(p.update, buffer=p.buffer.name, indices=cell) for p in mine), None)

    starts = tuple(
        Store(p.buffer.name, cell, Const(p.update.monoid.identity(p.buffer.dtype), p.buffer.dtype))
        for p in partials
    )
    body = substitute_block(rewrite(loop.body, to_partial), by)
    whole = Block((*starts, *body.stmts))
    out: Stmt = replace(loop, body=whole, extent=substitute(loop.extent, by), note=note)
    for step in reversed(site.path):
        if isinstance(step, For):
            out = replace(step, var=renamed[step.var], extent=substitute(step.extent, by), body=Block((out,)))
        else:
            out = replace(step, cond=substitute(step.cond, by), body=Block((out,)))
    return out


def _combine(
    loop: For, outer: tuple[For, ...], partials: list[_Partial], name: str, extent: Expr, note: str
) -> tuple[Stmt, ...]:
    """What stands in the second launch where the loop stood."""
    cell = (var(name), *(var(x.var) for x in outer))
    body = tuple(
        Reduce(p.update.buffer, p.update.indices, p.update.monoid, Load(p.buffer.name, cell, p.buffer.dtype))
        for p in partials
    )
    return (For(name, extent, LoopKind.SERIAL, Block(body), note, loop.span),)


def _launch_start(kernel: Kernel, loop: str) -> int:
    """Where the launch begins that has the loop: a position among the statements of the body."""
    start = 0
    for i, s in enumerate(kernel.body.stmts):
        if isinstance(s, Boundary) or (isinstance(s, Alloc) and s.buffer.space is Space.GLOBAL):
            start = i + 1
        elif any(isinstance(x.stmt, For) and x.stmt.var == loop for x in walk(Block((s,)))):
            return start
    raise KeyError(loop)


@transform("persistent")
def persistent(call: Call) -> Result:
    """See dsl_spec/persistent.yaml."""
    kernel, site, axis = call.kernel, call.site("loop"), LoopKind(call.word("axis"))
    loop, blocks = loop_of(site), call.integer("blocks")
    assert blocks is not None
    if loop.kind not in FREE:
        raise RefusedError("E-LOOP-KIND", f"loop {loop.var} is already {loop.kind.value}")
    check_axis(kernel, loop.var, axis)
    check_grid(kernel, loop.var)
    carried = None if loop.kind is LoopKind.PARALLEL else carried_write(loop)
    if carried is not None:
        raise RefusedError(
            "E-CARRIED", f"every iteration of {loop.var} updates the same cell: `{print_stmt(carried)}`"
        )
    extent = constant_extent(kernel, loop.var)
    if extent is not None and extent <= blocks:
        raise RefusedError(
            "E-NO-CHANGE",
            f"{loop.var} has {extent} iterations, one for each block",
            repair=f"bind({loop.var}, {axis.value})",
        )
    kernel, names, turn, _ = split_named(
        kernel, call.names, loop.var, blocks, call.statement.targets, call.note
    )

    def exchanged(turns: For) -> Stmt:
        (inside,) = turns.body.stmts
        assert isinstance(inside, For)
        own = replace(turns, kind=LoopKind.SERIAL, body=inside.body)
        return replace(inside, kind=axis, body=Block((own,)))

    return replace_loop(kernel, turn, exchanged), names
