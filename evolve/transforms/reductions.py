"""warp_reduce, block_reduce, split_reduction: a reduction shared among threads, or cut into partial ones.

    for l in 0..T:  m[] max= e(l)

becomes one partial for each thread, and a combine loop that every thread takes part in:

    alloc m_part: register[T]
    for l.init in 0..T (thread.x):  m_part[l.init] = identity
    for l in 0..T (thread.x):       m_part[l] max= e(l)
    for l.all in 0..T (combine):    m[] max= m_part[l.all]

split_reduction makes the same with plain loops, which other statements then bind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.effects import effects
from evolve.ir.expr import Const, Expr, Load, add, index, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_stmt
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Reduce, Stmt, Store
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import Site, fresh, leaves, local_buffers, rewrite, variables, walk
from evolve.target.limits import WARP
from evolve.transforms.call import Call, Result, transform
from evolve.transforms.edit import constant_extent, declared_in, loop_at, replace_loop
from evolve.transforms.mapping import FREE, check_axis, check_shared_scope, check_threads, with_kind
from evolve.transforms.names import taken_names
from evolve.transforms.window import Reach, Window, check_inside, window_of

_Leaf: TypeAlias = Callable[[str, tuple[Expr, ...]], Stmt]


@dataclass(frozen=True)
class _Form:
    """Kinds of the contributing and the combining loop, and where the partials live."""

    loop: LoopKind
    combine: LoopKind
    space: Space


_WARP = _Form(LoopKind.THREAD_X, LoopKind.COMBINE_WARP, Space.REGISTER)
_BLOCK = _Form(LoopKind.THREAD_X, LoopKind.COMBINE_BLOCK, Space.REGISTER)


@transform("warp_reduce")
def warp_reduce(call: Call) -> Result:
    """See dsl_spec/warp_reduce.yaml."""
    kernel = call.kernel
    for loop in call.loops("loop"):
        threads = threads_of(kernel, loop)
        if threads > WARP or threads & (threads - 1) or threads < 2:
            raise RefusedError(
                "E-REDUCE-WIDTH",
                f"{loop} has {threads} iterations; a warp reduces over 2, 4, 8, 16 or 32",
                repair=f"split({loop}, 32) and reduce the inner loop" if threads > WARP else None,
            )
        kernel = _share(kernel, loop, threads, _WARP, call.note)
    return kernel, call.names


@transform("block_reduce")
def block_reduce(call: Call) -> Result:
    """See dsl_spec/block_reduce.yaml."""
    kernel = call.kernel
    for loop in call.loops("loop"):
        threads = threads_of(kernel, loop)
        if threads % WARP or threads == 0:
            raise RefusedError(
                "E-REDUCE-WIDTH",
                f"{loop} has {threads} iterations; a block reduces over whole warps, multiples of 32",
                repair=f"warp_reduce({loop})" if threads in (2, 4, 8, 16) else f"split({loop}, 256)",
            )
        check_once_a_block(kernel, loop, "reduces", repair=f"warp_reduce({loop})")
        kernel = _share(kernel, loop, threads, _BLOCK, call.note)
    return kernel, call.names


def check_once_a_block(kernel: Kernel, loop: str, does: str, *, repair: str) -> None:
    """Raises RefusedError E-REDUCE-NEST for a loop inside a thread loop: what a block does together it does
    once."""
    above = next((x for x in loop_at(kernel, loop)[1].loops if x.kind.is_thread), None)
    if above is not None:
        raise RefusedError(
            "E-REDUCE-NEST",
            f"a block {does} once for all its threads, {loop} is inside the thread loop {above.var}",
            repair=repair,
        )


@transform("split_reduction")
def split_reduction(call: Call) -> Result:
    """See dsl_spec/split_reduction.yaml."""
    kernel, space = call.kernel, Space(call.word("scope"))
    for name in call.loops("loop"):
        loop, site = loop_at(kernel, name)
        if loop.kind not in FREE:
            raise RefusedError("E-LOOP-KIND", f"loop {name} is already {loop.kind.value}")
        parts = constant_extent(kernel, name)
        if parts is None:
            raise RefusedError(
                "E-EXTENT",
                f"{name} has no constant number of partials",
                repair=f"split({name}, 32) and split the reduction over the inner loop",
            )
        thread = next((x for x in site.loops if x.kind.is_thread), None)
        if space is Space.SHARED and thread is not None:
            raise RefusedError(
                "E-SHARED-SCOPE",
                f"{name} is inside thread loop {thread.var}: shared memory belongs to the whole block",
                repair="keep the partials in registers, or distribute the thread loop first",
            )
        form = _Form(LoopKind.SERIAL, LoopKind.SERIAL, space)
        kernel = _share(kernel, name, parts, form, call.note)
    return kernel, call.names


def threads_of(kernel: Kernel, loop: str) -> int:
    """How many threads of thread.x a loop that is not yet bound would take. Raises RefusedError."""
    found, _ = loop_at(kernel, loop)
    if found.kind not in FREE:
        raise RefusedError("E-LOOP-KIND", f"loop {loop} is already {found.kind.value}")
    check_axis(kernel, loop, LoopKind.THREAD_X)
    check_shared_scope(found)
    return check_threads(kernel, loop, LoopKind.THREAD_X)


@dataclass(frozen=True)
class _Shared:
    """One reduction that the threads share, and the outermost loop of its contributions."""

    update: Reduce
    reach: Reach
    nest: For


def _share(kernel: Kernel, name: str, threads: int, form: _Form, note: str) -> Kernel:
    loop, site = loop_at(kernel, name)
    for shared in tuple(_reductions(loop, site)):
        kernel = _one(kernel, name, threads, shared, form, note)
    return with_kind(kernel, name, form.loop, note)


def _reductions(loop: For, site: Site) -> Iterator[_Shared]:
    local = declared_in(loop.body)
    found = False
    for leaf, below in leaves(loop.body):
        if leaf.buffer in local or any(loop.var in variables(i) for i in leaf.indices):
            continue
        if not isinstance(leaf, Reduce):
            raise RefusedError(
                "E-CARRIED", f"`{print_stmt(leaf)}` inside {loop.var} is a store, not a reduction"
            )
        found = True
        others = sum(a.buffer == leaf.buffer for s in walk(loop.body) for a in effects(s.stmt).accesses)
        if others != 1:
            raise RefusedError(
                "E-REDUCE-READ",
                f"{leaf.buffer} is used inside {loop.var} by more than `{print_stmt(leaf)}`",
                repair=f"distribute {loop.var} so that the reduction stands alone, "
                f"or scan({loop.var}) if its total is read while it grows",
            )
        nest = _outermost_contribution(leaf, loop, site)
        yield _Shared(leaf, Reach(leaf.indices, (*site.path, loop, *below.path)), nest)
    if not found:
        raise RefusedError(
            "E-REDUCE-NONE",
            f"no reduction is carried by {loop.var}",
            repair=f"bind({loop.var}, thread.x)",
        )


def _outermost_contribution(update: Reduce, loop: For, site: Site) -> For:
    """The outermost loop around `loop` all of whose iterations contribute to the same cells."""
    nest = loop
    for above in reversed(site.path):
        if update.buffer in declared_in(above.body):
            break
        touching = sum(a.buffer == update.buffer for s in walk(above.body) for a in effects(s.stmt).accesses)
        if touching != 1:
            break
        if isinstance(above, If):
            # Passing a guard is for the sake of a loop further out: see that it does not end there.
            continue
        if above.kind not in FREE or any(above.var in variables(i) for i in update.indices):
            break
        nest = above
    return nest


def _one(kernel: Kernel, name: str, threads: int, shared: _Shared, form: _Form, note: str) -> Kernel:
    update, nest = shared.update, shared.nest
    known = {b.name: b for b in kernel.buffers} | local_buffers(kernel.body)
    target = known[update.buffer]
    inner = frozenset((nest.var, *(s.stmt.var for s in walk(nest.body) if isinstance(s.stmt, For))))
    window = window_of(kernel, target.name, (shared.reach,), inner) if update.indices else Window((), ())
    moving = [d for d, n in enumerate(window.extents) if n > 1]
    outside = loop_at(kernel, nest.var)[1].path
    check_inside(kernel, target, window, outside)

    taken = taken_names(kernel)
    part = Buffer(
        fresh(f"{target.name}_part", taken),
        target.dtype,
        (index(threads), *(index(window.extents[d]) for d in moving)),
        form.space,
    )
    taken.add(part.name)
    local = tuple(sub(update.indices[d], window.origins[d]) for d in moving)

    def to_part(s: Stmt) -> Stmt | None:
        if s is not update:
            return None
        at = (var(name), *local)
        return replace(s, buffer=part.name, indices=at, atomic=False, aggregated=False)

    def cells(suffix: str, thread_kind: LoopKind, thread_outside: bool, make: _Leaf) -> Stmt:
        t = fresh(f"{name}.{suffix}", taken)
        taken.add(t)
        loops = []
        for d in moving:
            w = fresh(f"{name}.{suffix}.{d}", taken)
            taken.add(w)
            loops.append(For(w, index(window.extents[d]), LoopKind.SERIAL, Block(()), note))
        thread = For(t, index(threads), thread_kind, Block(()), note)
        out = make(t, tuple(var(x.var) for x in loops))
        for x in reversed([thread, *loops] if thread_outside else [*loops, thread]):
            out = replace(x, body=Block((out,)))
        return out

    identity = Const(update.monoid.identity(target.dtype), target.dtype)

    def start(t: str, w: tuple[Expr, ...]) -> Stmt:
        return Store(part.name, (var(t), *w), identity)

    def finish(t: str, w: tuple[Expr, ...]) -> Stmt:
        where = list(window.origins)
        for d, x in zip(moving, w, strict=True):
            where[d] = add(window.origins[d], x)
        value = Load(part.name, (var(t), *w), target.dtype)
        return Reduce(target.name, tuple(where), update.monoid, value, atomic=update.atomic)

    before = (Alloc(part), cells("init", form.loop, True, start))
    after = cells("all", form.combine, False, finish)
    return replace_loop(
        kernel, nest.var, lambda s: (*before, replace(s, body=rewrite(s.body, to_part)), after)
    )
