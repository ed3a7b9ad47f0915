"""stage, accumulate_in_register: where values live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import TypeVar

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.data import index_arrays, step_terms
from evolve.ir.effects import effects
from evolve.ir.expr import Const, Expr, Load, add, index, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_stmt
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Reduce, Stmt, Store
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import Site, fresh, leaves, rewrite, variables, walk
from evolve.target.limits import REGISTER_FILE
from evolve.transforms.call import Call, Checked, Copied, Result, loop_of, transform
from evolve.transforms.edit import (
    declared_in,
    guard,
    is_request,
    less,
    loops_in,
    reads_memory,
    replace_loop,
    touched,
)
from evolve.transforms.names import claim, taken_names
from evolve.transforms.once import once
from evolve.transforms.places import check_runs_in_order, check_scope
from evolve.transforms.rewriting import loading, rewrite_naming
from evolve.transforms.window import Reach, Window, aligned, check_inside, swept, window_of

T = TypeVar("T")

MAX_SHARED_BYTES = 227 * 1024
"""Largest shared memory of a block on any device so far (compute capability 9.0, CUDA programming guide)."""


@transform("stage")
def stage(call: Call) -> Checked:
    """See dsl_spec/stage.yaml."""
    kernel, source = call.kernel, call.buffer("buffer")
    site = call.site("at")
    at = loop_of(site)
    space = Space(call.word("scope"))
    check_runs_in_order(at)
    check_scope(
        at,
        site,
        space,
        what="a copy",
        outside="stage at a loop around the thread loops, or in registers",
        verb="stage",
    )
    if source.space is space and space is Space.REGISTER:
        raise RefusedError("E-NO-CHANGE", f"{source.name} is already in registers")
    align = call.integer("align")
    assert align is not None
    key = ("copied", source, at.var, align)
    window = once(kernel, key, lambda: _window_read(kernel, source, at, site, align))
    taken = taken_names(kernel)
    copy = copy_of(call, source, window, space, "s", taken)
    yield Copied(copy, site)
    nest = _copy_nest(call, source, copy, window, (*site.path, at), taken)
    body = _reading(at.body, source.name, copy, window)
    staged = replace(
        at, body=in_front((Alloc(copy), *nest.stmts), body, inside_guards=space is Space.REGISTER)
    )
    return replace_loop(kernel, at.var, lambda _: staged), call.names


def _window_read(kernel: Kernel, source: Buffer, at: For, site: Site, align: int) -> Window:
    """What a loop reads of a buffer, wherever it is copied to. Raises RefusedError."""
    if source.name in touched(at.body)[1] or source.name in declared_in(at.body):
        raise RefusedError(
            "E-STAGE-WRITTEN",
            f"{source.name} is written inside {at.var}: a copy made at its start would be stale",
            repair=f"stage {source.name} at a loop that only reads it",
        )
    if any(source.name in index_arrays(t) for s in _steps(at) for t in step_terms(s)):
        raise RefusedError(
            "E-WINDOW",
            f"how often something runs inside {at.var} is read from {source.name}: a copy is not followed",
        )
    if any(source.name in index_arrays(i) for leaf, _ in leaves(at.body) for i in leaf.indices):
        raise RefusedError(
            "E-WINDOW",
            f"where something goes inside {at.var} is read from {source.name}: a copy is not followed",
        )
    reads = tuple(_reads(at, site.path, source.name))
    if not reads:
        raise RefusedError("E-STAGE-UNREAD", f"{source.name} is not read inside {at.var}")
    window = window_of(kernel, source.name, tuple(filter(_is_placed, reads)) or reads, loops_in(at.body))
    return aligned(kernel, source.name, window, align, (*site.path, at))


def in_front(copying: tuple[Stmt, ...], body: Block, *, inside_guards: bool) -> Block:
    """The copy before the body. Registers are filled inside a guard around the whole body, which the copy
    then need not repeat; shared memory outside of it, where all threads can meet at a barrier.
    """
    if inside_guards and len(body.stmts) == 1:
        (only,) = body.stmts
        if isinstance(only, If) and not only.orelse.stmts and not reads_memory(only.cond):
            return Block((replace(only, body=in_front(copying, only.body, inside_guards=True)),))
    return Block((*copying, *body.stmts))


def _steps(at: For) -> Iterator[For | If]:
    """The loop, and the loops and conditions inside it."""
    yield at
    yield from (s.stmt for s in walk(at.body) if isinstance(s.stmt, For | If))


def _reads(at: For, path: tuple[For | If, ...], buffer: str) -> Iterator[Reach]:
    """What a copy has to hold; requests to L2 are for the array itself."""
    for site in walk(at.body):
        for access in effects(site.stmt).accesses:
            if access.buffer == buffer and not is_request(site.stmt):
                yield Reach(access.indices, (*path, at, *site.path))


def _is_placed(access: Reach | Load) -> bool:
    """Whether no subscript is read from memory. The others stay: no box is around them, and nothing that the
    copy is made of changes."""
    return not any(reads_memory(i) for i in access.indices)


def copy_of(call: Call, source: Buffer, window: Window, space: Space, suffix: str, taken: set[str]) -> Buffer:
    """A buffer for the window, under the name that the program gives it or another, `taken` from then on.

    Raises RefusedError E-STAGE-SIZE when a block cannot hold it.
    """
    _check_size(source, window, space)
    targets = call.statement.targets
    name = claim(call.kernel, targets[0]) if targets else fresh(f"{source.name}_{suffix}", taken)
    taken.add(name)
    return Buffer(name, source.dtype, tuple(index(n) for n in window.extents), space)


def _check_size(source: Buffer, window: Window, space: Space) -> None:
    elements = prod(window.extents)
    size = elements * source.dtype.size
    if space is Space.SHARED and size > MAX_SHARED_BYTES:
        raise RefusedError(
            "E-STAGE-SIZE",
            f"the window of {source.name} has {size} bytes, a block has at most {MAX_SHARED_BYTES}",
            repair="stage inside a smaller tile",
        )
    if space is Space.REGISTER and size > 4 * REGISTER_FILE:
        raise RefusedError(
            "E-STAGE-SIZE",
            f"the window of {source.name} has {elements} elements, a block has {REGISTER_FILE} registers",
            repair="stage inside a smaller tile",
        )


def _copy_nest(
    call: Call, source: Buffer, copy: Buffer, window: Window, path: tuple[For | If, ...], taken: set[str]
) -> Block:
    sweep = swept(window, copy.name, call.note, taken)
    store = Store(copy.name, sweep.local, Load(source.name, sweep.where, source.dtype))
    # The box may reach over the array's edge, where guarded readers do not look.
    terms = [less(index(-1), w) for w in sweep.where]
    terms += [less(w, n) for w, n in zip(sweep.where, source.extents, strict=True)]
    return sweep.around(guard(terms, Block((store,)), ranges_at(call.kernel, (*path, *sweep.loops))))


def _reading(body: Block, buffer: str, copy: Buffer, window: Window) -> Block:
    """The body with what it reads of the buffer read from the copy."""

    def redirected(x: Load) -> Load:
        if not _is_placed(x):
            return x
        local = (sub(i, o) for i, o in zip(x.indices, window.origins, strict=True))
        return Load(copy.name, tuple(local), x.dtype)

    return rewrite_naming(body, buffer, lambda s: None if is_request(s) else loading(s, buffer, redirected))


@transform("accumulate_in_register")
def accumulate_in_register(call: Call) -> Result:
    """See dsl_spec/accumulate_in_register.yaml."""
    kernel, buffer = call.kernel, call.buffer("buffer")
    site = call.site("loop")
    loop = loop_of(site)
    if loop.kind not in (LoopKind.SERIAL, LoopKind.UNROLL):
        raise RefusedError("E-LOOP-KIND", f"{loop.var} is {loop.kind.value}, not a sequential loop")
    if buffer.space is Space.REGISTER:
        raise RefusedError("E-NO-CHANGE", f"{buffer.name} is already in registers")
    touching = [
        (site, access)
        for site in walk(loop.body)
        for access in effects(site.stmt).accesses
        if access.buffer == buffer.name
    ]
    updates = [
        site.stmt for site, _ in touching if isinstance(site.stmt, Reduce) and site.stmt.buffer == buffer.name
    ]
    if len(touching) != 1 or len(updates) != 1:
        raise RefusedError(
            "E-ACCUMULATE",
            f"{buffer.name} must be touched by exactly one reduction inside {loop.var}, "
            f"{len(touching)} accesses found",
        )
    (update,) = updates
    assert isinstance(update, Reduce)
    inner = frozenset((loop.var, *(s.stmt.var for s in walk(loop.body) if isinstance(s.stmt, For))))
    if any(loop.var in variables(i) for i in update.indices):
        raise RefusedError(
            "E-ACCUMULATE",
            f"`{print_stmt(update)}` reaches another cell in each iteration of {loop.var}",
            repair="accumulate at a loop inside which the cells stay the same",
        )
    reach = Reach(update.indices, (*site.path, loop, *touching[0][0].path))
    window = window_of(kernel, buffer.name, (reach,), inner) if update.indices else Window((), ())
    check_inside(kernel, buffer, window, site.path)
    moving = [d for d, n in enumerate(window.extents) if n > 1]
    taken = taken_names(kernel)
    targets = call.statement.targets
    name = claim(kernel, targets[0]) if targets else fresh(f"{buffer.name}_r", taken)
    taken.add(name)
    register = Buffer(name, buffer.dtype, tuple(index(window.extents[d]) for d in moving), Space.REGISTER)
    local = tuple(sub(update.indices[d], window.origins[d]) for d in moving)

    def cells(suffix: str, make: Callable[[tuple[Expr, ...]], Stmt]) -> Stmt:
        names = {d: fresh(f"{name}.{suffix}.{d}", taken) for d in moving}
        out = make(tuple(var(names[d]) for d in moving))
        for d in reversed(moving):
            extent = index(window.extents[d])
            out = For(names[d], extent, LoopKind.SERIAL, Block((out,)), call.note)
        return out

    def finish(at: tuple[Expr, ...]) -> Stmt:
        where = list(window.origins)
        for d, x in zip(moving, at, strict=True):
            where[d] = add(window.origins[d], x)
        value = Load(name, at, buffer.dtype)
        return Reduce(buffer.name, tuple(where), update.monoid, value, atomic=update.atomic)

    def into_register(s: Stmt) -> Stmt | None:
        return replace(s, buffer=name, indices=local, atomic=False, aggregated=False) if s is update else None

    identity = Const(update.monoid.identity(buffer.dtype), buffer.dtype)
    start = cells("init", lambda at: Store(name, at, identity))
    kept = replace(loop, body=rewrite(loop.body, into_register))
    result = (Alloc(register), start, kept, cells("all", finish))
    return replace_loop(kernel, loop.var, lambda _: result), call.names
