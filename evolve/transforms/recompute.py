"""inline, compute_at: computing a value where it is used instead of keeping it.

    for k in 0..64:  t[k] = f(x[k])            for i in 0..62:  y[i] = f(x[i]) + f(x[i + 2])
    for i in 0..62:  y[i] = t[i] + t[i + 2]

is what `inline` makes: the expression in place of what it was stored in. `compute_at` moves the producer into
a loop of its consumer, for as many elements as an iteration reads:

    for i.o in 0..31:
      for w in 0..4:    u[w] = f(x[i.o * 2 + w])
      for i.i in 0..2:  y[i.o * 2 + i.i] = u[i.i] + u[i.i + 2]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.effects import Access, Mode, effects
from evolve.ir.expr import Expr, Load, sub
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_stmt
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, Buffer, Commit, For, If, Reduce, Stmt, Store, Wait
from evolve.ir.types import Space
from evolve.ir.visit import (
    Site,
    leaves,
    loads,
    rewrite,
    substitute,
    substitute_block,
    walk,
)
from evolve.transforms.call import Call, Checked, Copied, Result, loop_of, transform
from evolve.transforms.edit import (
    all_sites,
    declared_in,
    guard,
    loops_gone,
    loops_in,
    renamed,
    replace_loop,
    touched,
    without_buffer,
)
from evolve.transforms.mapping import FREE
from evolve.transforms.memory import copy_of, in_front
from evolve.transforms.names import taken_names
from evolve.transforms.once import once
from evolve.transforms.places import check_runs_in_order, check_scope
from evolve.transforms.producers import Producer, declaration, producers
from evolve.transforms.rewriting import rewrite_naming, with_loads
from evolve.transforms.window import Reach, Window, swept, window_of


@transform("inline")
def inline(call: Call) -> Result:
    """See dsl_spec/inline.yaml."""
    kernel, buffer = call.kernel, call.buffer("buffer")
    declaration(kernel, buffer)
    producer, store = _only_store(kernel, buffer)
    if buffer.name not in touched(kernel.body)[0]:
        raise RefusedError("E-NO-CHANGE", f"nothing reads {buffer.name}")

    def in_place(x: Load) -> Expr:
        return substitute(store.value, producer.at(x.indices)[0])

    body = with_loads(without_buffer(kernel.body, buffer.name), buffer.name, in_place)
    result = replace(kernel, body=body)
    return result, call.names.without_loops(loops_gone(kernel, result), f"gone with {buffer.name}")


def _only_store(kernel: Kernel, buffer: Buffer) -> tuple[Producer, Store]:
    """The store that all elements come from. Raises RefusedError."""
    found = [leaf for leaf, _ in leaves(kernel.body) if leaf.buffer == buffer.name]
    if len(found) != 1:
        raise RefusedError(
            "E-PRODUCER",
            f"{buffer.name} is written by {len(found)} statements: no one expression says what it holds",
        )
    (producer,) = producers(kernel, buffer)
    (leaf,) = found
    plain = isinstance(leaf, Store) and not leaf.asynchronous and leaf in producer.body.stmts
    if not plain or not isinstance(leaf, Store) or any(x.buffer == buffer.name for x in loads(leaf.value)):
        raise RefusedError(
            "E-PRODUCER",
            f"`{print_stmt(leaf)}` does not say in one expression what {buffer.name} holds, always",
        )
    beside = declared_in(producer.body)
    hidden = next((x.buffer for x in loads(leaf.value) if x.buffer in beside), None)
    if hidden is not None:
        raise RefusedError(
            "E-SCOPE",
            f"`{print_stmt(leaf)}` reads {hidden}, which is declared beside it and not where it is used",
            repair=f"inline({hidden}) first",
        )
    return producer, leaf


@transform("compute_at")
def compute_at(call: Call) -> Checked:
    """See dsl_spec/compute_at.yaml."""
    kernel, buffer = call.kernel, call.buffer("buffer")
    site = call.site("at")
    at, space = loop_of(site), Space(call.word("scope"))
    made = producers(kernel, buffer)
    _check_place(kernel, buffer, at, site, space, made)
    reads = tuple(_reads(at, site, buffer.name))
    if not reads:
        raise RefusedError("E-STAGE-UNREAD", f"{buffer.name} is not read inside {at.var}")
    window = Window((), ())
    if buffer.extents:
        window = window_of(kernel, buffer.name, reads, loops_in(at.body))
    taken = taken_names(kernel)
    copy = copy_of(call, buffer, window, space, "at", taken)
    stays = any(all(x is not at for x in (s.stmt, *s.path)) for s in _readers(kernel, buffer.name))
    if not any(declared_in(p.stmt) for p in made):
        reads_there = frozenset[str]().union(*(touched(p.stmt)[0] for p in made)) - {buffer.name}
        yield Copied(copy, site, reads_there, frozenset() if stays else frozenset((buffer.name,)))
    path = (*site.path, at)
    bodies = (renamed(p.body, "at", taken) if stays else p.body for p in made)
    again = tuple(replace(p, body=b) for p, b in zip(made, bodies, strict=True))
    moved = tuple(s for p in again for s in _moved(call, p, buffer, copy, window, path, taken).stmts)

    def redirected(x: Load) -> Expr:
        local = tuple(sub(i, o) for i, o in zip(x.indices, window.origins, strict=True))
        return Load(copy.name, local, x.dtype)

    body = with_loads(at.body, buffer.name, redirected)
    body = in_front((Alloc(copy), *moved), body, inside_guards=space is Space.REGISTER)
    result = replace_loop(kernel, at.var, lambda s: replace(s, body=body))
    if stays:
        return result, call.names
    stmts = [p.stmt for p in made]
    left = rewrite_naming(result.body, buffer.name, lambda s: () if any(s is x for x in stmts) else None)
    result = replace(kernel, body=without_buffer(left, buffer.name))
    return result, call.names.without_loops(loops_gone(kernel, result), f"gone with {buffer.name}")


def _check_place(
    kernel: Kernel, buffer: Buffer, at: For, site: Site, space: Space, made: tuple[Producer, ...]
) -> None:
    """Raises RefusedError where the producers cannot stand."""
    check_runs_in_order(at)
    check_scope(
        at,
        site,
        space,
        what="what is computed",
        outside="keep it in registers, or compute at a loop around the thread loops",
        verb="compute",
    )
    _, block = declaration(kernel, buffer)
    place = next((i for i, s in enumerate(block.stmts) if at.var in loops_in(s)), None)
    if place is None:
        raise RefusedError("E-NO-CHANGE", f"{buffer.name} is not declared outside of {at.var}")
    for p in made:
        if any(s is p.stmt for s in block.stmts[place:]):
            raise RefusedError("E-PRODUCER", f"{buffer.name} is written in {at.var}, or after it")
        _check_movable(p, buffer.name)


def _check_movable(p: Producer, buffer: str) -> None:
    """Raises RefusedError where a producer does something else too, or has been given to threads or lanes."""
    stmts = [s.stmt for s in walk(p.whole)]
    bound = next((x for x in stmts if isinstance(x, For) and x.kind not in FREE), None)
    if bound is not None:
        raise RefusedError(
            "E-LOOP-KIND",
            f"loop {bound.var} is already {bound.kind.value}",
            repair=f"compute_at before {bound.var} is bound",
        )
    others = touched(p.stmt)[1] - declared_in(p.stmt) - {buffer}
    if others:
        raise RefusedError("E-PRODUCER", f"what writes {buffer} writes {min(others)} as well")
    if any(a.buffer == buffer for s in stmts for a in _loads_of(s)):
        raise RefusedError("E-PRODUCER", f"what writes {buffer} reads it")
    if any(isinstance(s, Commit | Wait) or (isinstance(s, Store) and s.asynchronous) for s in stmts):
        raise RefusedError("E-PRODUCER", f"{buffer} is filled by copies that are waited for elsewhere")


def _loads_of(s: Stmt) -> Iterator[Access]:
    return (a for a in effects(s).accesses if a.mode is Mode.READ)


def _readers(kernel: Kernel, buffer: str) -> tuple[Site, ...]:
    """The statements that read a buffer; one that only reduces into it does not."""

    def find() -> tuple[Site, ...]:
        return tuple(s for s in all_sites(kernel) if any(a.buffer == buffer for a in _loads_of(s.stmt)))

    return once(kernel, ("readers", buffer), find)


def _reads(at: For, site: Site, buffer: str) -> Iterator[Reach]:
    for below in walk(at.body):
        for a in _loads_of(below.stmt):
            if a.buffer == buffer:
                yield Reach(a.indices, (*site.path, at, *below.path))


def _moved(
    call: Call,
    p: Producer,
    buffer: Buffer,
    copy: Buffer,
    window: Window,
    path: tuple[For | If, ...],
    taken: set[str],
) -> Block:
    """The producer for the elements of the window."""
    sweep = swept(window, copy.name, call.note, taken)
    by, conditions = p.at(sweep.where)

    def into_copy(s: Stmt) -> Stmt | None:
        if not isinstance(s, Store | Reduce) or s.buffer != buffer.name:
            return None
        if isinstance(s, Reduce) and copy.space is Space.REGISTER:
            s = replace(s, atomic=False, aggregated=False)
        return replace(s, buffer=copy.name, indices=sweep.local)

    body = substitute_block(rewrite(p.body, into_copy), by)
    return sweep.around(guard(conditions, body, ranges_at(call.kernel, (*path, *sweep.loops))))
