"""bind, launch_bounds, unroll, vectorize: who executes an iteration, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.affine import Ranges, linear
from evolve.ir.effects import effects
from evolve.ir.expr import Expr, Var, conjunction
from evolve.ir.kernel import Kernel
from evolve.ir.lanes import lane_guard, lies_wide
from evolve.ir.launches import phases
from evolve.ir.printer import print_expr, print_stmt
from evolve.ir.scope import conjuncts, ranges_at
from evolve.ir.stmt import Block, Buffer, For, If, Leaf, Reduce, Store
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import leaves, variables, walk
from evolve.target.limits import BLOCK_MOST, THREADS_MOST, WARP
from evolve.transforms.call import Call, Checked, Result, Shared, transform
from evolve.transforms.edit import buffers_of, carried_write, constant_extent, loop_at, loops_in, replace_loop
from evolve.transforms.loops import name_groups, split_named
from evolve.transforms.taken import taken

FREE = (LoopKind.SERIAL, LoopKind.PARALLEL, LoopKind.UNROLL)
MAX_UNROLL = 1024
MAX_COPIES = 8192
"""Iterations of one unrolled loop, and of nested ones together: what compiles in seconds."""
WIDTHS = (2, 4, 8)
LANES = {
    "lane": LoopKind.THREAD_X,
    "lane.x": LoopKind.THREAD_X,
    "lane.y": LoopKind.THREAD_Y,
    "warp": LoopKind.THREAD_Z,
}
"""The axes of a block whose first two are the lanes of a warp."""


def with_kind(kernel: Kernel, loop: str, kind: LoopKind, note: str) -> Kernel:
    """The loop with another kind."""
    return replace_loop(kernel, loop, lambda s: replace(s, kind=kind, note=note))


def check_axis(kernel: Kernel, loop: str, axis: LoopKind) -> None:
    """Raises RefusedError E-AXIS when a loop above or below `loop` is on that axis."""
    found, site = loop_at(kernel, loop)
    below = taken(found.body)
    for name, kind in (
        *((x.var, x.kind) for x in site.loops),
        *((name, kind) for name, kind, _ in (*below.grid, *below.threads)),
    ):
        if kind is axis:
            raise RefusedError("E-AXIS", f"{name} is on {axis.value} and is nested with {loop}")


def check_threads(kernel: Kernel, loop: str, axis: LoopKind) -> int:
    """The constant extent that a thread loop needs. Raises RefusedError E-EXTENT or E-THREADS."""
    extent = constant_extent(kernel, loop)
    if extent is None:
        shown = print_expr(loop_at(kernel, loop)[0].extent)
        raise RefusedError(
            "E-EXTENT",
            f"a {axis.value} loop needs a constant extent, {loop} has {shown}",
            repair=f"split({loop}, 256) and bind the inner loop, or specialize the size",
        )
    if extent > BLOCK_MOST[axis]:
        raise RefusedError(
            "E-THREADS",
            f"{loop} has {extent} iterations, {axis.value} takes at most {BLOCK_MOST[axis]}",
            repair=f"split({loop}, 256) and bind the inner loop",
        )
    return extent


def check_shared_scope(loop: For) -> None:
    """Raises RefusedError E-SHARED-SCOPE: shared memory belongs to the block, not to one of its threads."""
    for buffer in taken(loop.body).shared:
        raise RefusedError(
            "E-SHARED-SCOPE",
            f"shared buffer {buffer.name} is declared inside {loop.var}",
            repair=f"stage it at a loop outside {loop.var}",
        )


def check_grid(kernel: Kernel, loop: str) -> None:
    """Raises RefusedError E-GRID-NEST unless the loop can be one of the outermost, with nothing beside it."""
    found, site = loop_at(kernel, loop)
    around = variables(found.extent) & {x.var for x in site.loops}
    if around:
        raise RefusedError(
            "E-GRID-NEST", f"the extent {print_expr(found.extent)} of {loop} depends on {min(around)}"
        )
    own = next(p for p in phases(kernel.body) if loop in loops_in(p))
    blocks = [own, *(p.body for p in site.path)]
    for above in site.path:
        if not (isinstance(above, For) and above.kind.is_grid):
            what = f"loop {above.var}" if isinstance(above, For) else f"the guard {print_expr(above.cond)}"
            raise RefusedError(
                "E-GRID-NEST",
                f"a grid loop must be outermost, {loop} is inside {what}",
                repair="bind the outer loops to the grid first, or reorder",
            )
    for block in blocks:
        if len(block.stmts) != 1:
            raise RefusedError(
                "E-GRID-NEST",
                f"a grid loop must hold the whole launch, other statements stand beside {loop}",
                repair=f"move {loop} outwards, or jam it with its neighbours",
            )


@transform("bind")
def bind(call: Call) -> Checked:
    """See dsl_spec/bind.yaml."""
    word = call.word("axis")
    axis = LANES[word] if word in LANES else LoopKind(word)
    kernel, loops = call.kernel, call.loops("loop")
    for position, name in enumerate(loops):
        loop, site = loop_at(kernel, name)
        if loop.kind not in FREE:
            raise RefusedError("E-LOOP-KIND", f"loop {name} is already {loop.kind.value}")
        check_axis(kernel, name, axis)
        for other in loops[:position]:
            if other in loops_in(loop) or any(x.var == other for x in site.loops):
                raise RefusedError("E-AXIS", f"{other} is on {axis.value} and is nested with {name}")
        if axis.is_grid:
            check_grid(kernel, name)
        else:
            extent = check_threads(kernel, name, axis)
            if word in LANES and axis is not LoopKind.THREAD_Z and extent > WARP:
                raise RefusedError(
                    "E-THREADS",
                    f"{name} has {extent} iterations, a warp has {WARP} lanes",
                    repair=f"split({name}, {WARP}) and bind the inner loop",
                )
            check_shared_scope(loop)
        carried = None if loop.kind is LoopKind.PARALLEL else carried_write(loop)
        if carried is not None:
            cell = f"{carried.buffer}[{', '.join(map(print_expr, carried.indices))}]"
            raise RefusedError(
                "E-CARRIED",
                f"every iteration of {name} updates the same cell: `{print_stmt(carried)}`",
                witness=f"{name}=0 and {name}=1 both update {cell}",
                repair=_shared_out(loop, carried),
            )
    yield Shared(loops, axis)
    for name in loops:
        kernel = with_kind(kernel, name, axis, call.note)
    return replace(kernel, lanes=kernel.lanes or word in LANES), call.names


def _shared_out(loop: For, carried: Store | Reduce) -> str | None:
    """How threads can share out a loop that carries this write; None: not at all."""
    if not isinstance(carried, Reduce):
        return None
    accesses = [a for s in walk(loop.body) for a in effects(s.stmt).accesses if a.buffer == carried.buffer]
    if len(accesses) > 1:
        return f"scan({loop.var}), for a total that is read while it grows"
    return f"block_reduce({loop.var}) or warp_reduce({loop.var})"


@transform("launch_bounds")
def launch_bounds(call: Call) -> Result:
    """See dsl_spec/launch_bounds.yaml."""
    threads, blocks = call.integer("threads"), call.integer("min_blocks")
    assert threads is not None and blocks is not None
    if blocks and call.kernel.registers:
        raise RefusedError("E-REGISTERS", "max_registers says how many registers a thread may have")
    kernel = replace(call.kernel, max_threads=threads, min_blocks=blocks)
    if threads > THREADS_MOST:
        raise RefusedError("E-THREADS", f"a block has at most {THREADS_MOST} threads, not {threads}")
    if kernel == call.kernel:
        raise RefusedError("E-NO-CHANGE", "the launch bounds are already these")
    return kernel, call.names


@transform("unroll")
def unroll(call: Call) -> Checked:
    """See dsl_spec/unroll.yaml."""
    factor = call.integer("factor")
    kernel, names = call.kernel, call.names
    outers, inners = [], []
    single = call.is_single("loop")
    targets = call.statement.targets
    if targets and factor is None:
        raise RefusedError("E-RESULTS", "unroll without a factor has no result to name")
    for name in call.loops("loop"):
        loop, _ = loop_at(kernel, name)
        if loop.kind not in (LoopKind.SERIAL, LoopKind.PARALLEL):
            raise RefusedError("E-LOOP-KIND", f"loop {name} is already {loop.kind.value}")
        if factor is not None:
            pair = targets if single else ()
            kernel, names, outer, name = split_named(kernel, names, name, factor, pair, call.note)
            outers.append(outer)
            inners.append(name)
        extent = constant_extent(kernel, name)
        if extent is None or extent > MAX_UNROLL:
            raise RefusedError(
                "E-EXTENT",
                f"{name} needs a constant extent of at most {MAX_UNROLL} to be unrolled",
                repair=f"unroll({name}, 4)",
            )
        copies = extent * _copies(kernel, name)
        if copies > MAX_COPIES:
            raise RefusedError(
                "E-UNROLL-SIZE",
                f"unrolling {name} writes out {copies} copies of a statement, more than {MAX_COPIES}",
                repair=f"unroll({name}, 4)" if factor is None else None,
            )
        if single:
            yield None
        kernel = with_kind(kernel, name, LoopKind.UNROLL, call.note)
    if not single:
        names = name_groups(kernel, names, targets, (outers, inners))
        yield None
    return kernel, names


def _copies(kernel: Kernel, name: str) -> int:
    """How often the unrolled loops around some statement in or around `name` repeat it, itself left out, at
    most."""
    loop, site = loop_at(kernel, name)
    around = prod(_repeats(kernel, x) for x in site.loops)
    inside = [prod(_repeats(kernel, x) for x in s.loops) for s in walk(loop.body)]
    return around * max(inside, default=1)


def _repeats(kernel: Kernel, loop: For) -> int:
    return constant_extent(kernel, loop.var) or 1 if loop.kind is LoopKind.UNROLL else 1


@transform("vectorize")
def vectorize(call: Call) -> Result:
    """See dsl_spec/vectorize.yaml."""
    width = call.integer("width")
    assert width is not None
    if width not in WIDTHS:
        raise RefusedError("E-VECTOR-WIDTH", f"the width is one of {WIDTHS}, not {width}")
    kernel, names = call.kernel, call.names
    outers, inners = [], []
    single = call.is_single("loop")
    targets = call.statement.targets
    for name in call.loops("loop"):
        loop, _ = loop_at(kernel, name)
        if loop.kind not in FREE:
            repair = f"split it by {width} before: bind the outer loop, vectorize the inner one"
            raise RefusedError("E-LOOP-KIND", f"loop {name} is already {loop.kind.value}", repair=repair)
        extent = constant_extent(kernel, name)
        if extent == width:
            if targets:
                raise RefusedError("E-RESULTS", f"{name} has {width} iterations: nothing is split off")
        else:
            pair = targets if single else ()
            kernel, names, outer, name = split_named(kernel, names, name, width, pair, call.note)
            outers.append(outer)
            inners.append(name)
        kernel = _vector(kernel, name, width, buffers_of(call.kernel), call.note)
    if not single and outers:
        names = name_groups(kernel, names, targets, (outers, inners))
    return kernel, names


def _vector(kernel: Kernel, name: str, width: int, buffers: Mapping[str, Buffer], note: str) -> Kernel:
    loop, site = loop_at(kernel, name)
    ranges = ranges_at(kernel, (*site.path, loop))
    body, conditions = loop.body, list[Expr]()
    partial: list[Expr] = []
    while len(body.stmts) == 1 and isinstance(body.stmts[0], If) and not body.stmts[0].orelse.stmts:
        only = body.stmts[0]
        for term in conjuncts((only.cond,)):
            known = lane_guard(term, name, width, ranges)
            if known is not None and known.exact:
                conditions.append(known.full)
            elif known is not None or name in variables(term):
                partial.append(term)
            else:
                conditions.append(term)
        body = only.body
    for s in body.stmts:
        if not isinstance(s, Leaf):
            raise RefusedError(
                "E-VECTOR-BODY",
                f"a vector loop holds stores and reductions only, {name} holds "
                f"`{print_stmt(s).splitlines()[0]}`",
                repair="reorder so that the vector loop is innermost",
            )
    moved = replace(loop, body=body)
    if not any(_unit_stride(moved, ranges, buffers)):
        raise RefusedError("E-VECTOR-STRIDE", f"no access has unit stride in {name}")
    kept: list[Expr] = []
    for term in partial:
        if lane_guard(term, name, width, ranges) is None or not any(_wide(moved, width, ranges, buffers)):
            raise RefusedError(
                "E-VECTOR-TAIL",
                f"the guard {print_expr(term)} may hold for some lanes of {name} and not for others",
                repair=_divisibility(term, width, ranges),
            )
        kept.append(term)
    inside = Block((If(conjunction(tuple(kept)), body),)) if kept else body
    result = Block((replace(loop, body=inside, kind=LoopKind.VECTOR, note=note),))
    for c in reversed(conditions):
        result = Block((If(c, result),))
    return replace_loop(kernel, name, lambda _: result.stmts)


def _in_memory(loop: For, buffers: Mapping[str, Buffer]) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    """The accesses in a loop that are not to registers."""
    for leaf, _ in leaves(loop.body):
        for access in effects(leaf).accesses:
            if access.indices and buffers[access.buffer].space is not Space.REGISTER:
                yield buffers[access.buffer], access.indices


def _unit_stride(loop: For, ranges: Ranges, buffers: Mapping[str, Buffer]) -> Iterator[bool]:
    for _, (*outer, last) in _in_memory(loop, buffers):
        stride = dict(linear(last, ranges).terms).get(Var(loop.var), 0)
        yield stride == 1 and all(loop.var not in variables(i) for i in outer)


def _wide(loop: For, width: int, ranges: Ranges, buffers: Mapping[str, Buffer]) -> Iterator[bool]:
    for buffer, indices in _in_memory(loop, buffers):
        yield lies_wide(buffer, indices, loop.var, width, ranges)


def _divisibility(cond: Expr, width: int, ranges: Ranges) -> str | None:
    sizes = [v for v in sorted(variables(cond)) if v not in ranges.extents and ranges.of(v)[1] is None]
    return f"specialize({sizes[0]} % {width} == 0)" if sizes else None
