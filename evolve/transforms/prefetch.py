"""prefetch: lines of an array that L2 is asked for before they are read."""

from __future__ import annotations

from dataclasses import replace

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.effects import effects
from evolve.ir.expr import Expr, Load, add, index, mul, var
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, Buffer, For, Store
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import fresh, substitute, walk
from evolve.transforms.call import Call, Checked, Copied, loop_of, transform
from evolve.transforms.edit import guard, is_request, less, loops_in, replace_loop, touched
from evolve.transforms.names import claim, taken_names
from evolve.transforms.places import check_runs_in_order, check_scope
from evolve.transforms.window import Reach, Window, window_of

LINES = (32, 64, 128)
"""Bytes that a request can stand for: a sector, what DRAM gives at once, a line."""


@transform("prefetch")
def prefetch(call: Call) -> Checked:
    """See dsl_spec/prefetch.yaml."""
    kernel, buffer = call.kernel, call.buffer("buffer")
    site = call.site("at")
    at = loop_of(site)
    ahead, size = call.integer("ahead"), call.integer("bytes")
    assert ahead is not None and size is not None
    if size not in LINES:
        raise RefusedError("E-PREFETCH", f"a request is made for {LINES} bytes, not for {size}")
    if buffer not in kernel.buffers:
        raise RefusedError("E-PREFETCH", f"{buffer.name} is no array of the kernel's parameters")
    check_runs_in_order(at)
    check_scope(at, site, Space.REGISTER, what="a prefetch", outside="", verb="prefetch")
    if buffer.name in touched(kernel.body)[1]:
        raise RefusedError("E-STAGE-WRITTEN", f"the kernel writes {buffer.name}")
    reads = tuple(
        Reach(a.indices, (*site.path, at, *s.path))
        for s in walk(at.body)
        for a in effects(s.stmt).accesses
        if a.buffer == buffer.name and not is_request(s.stmt)
    )
    if not reads:
        raise RefusedError("E-STAGE-UNREAD", f"{buffer.name} is not read inside {at.var}")
    window = window_of(kernel, buffer.name, reads, loops_in(at.body))
    taken = taken_names(kernel)
    targets = call.statement.targets
    name = claim(kernel, targets[0]) if targets else fresh(f"{buffer.name}_ask", taken)
    taken.add(name)
    sink = Buffer(name, buffer.dtype, (), Space.REGISTER)
    yield Copied(sink, site)
    nest = _requests(call, buffer, sink, window, max(1, size // buffer.dtype.size), ahead, taken)
    body = guard([less(add(var(at.var), ahead), at.extent)], nest, ranges_at(kernel, (*site.path, at)))
    asking = replace(at, body=Block((*body.stmts, *at.body.stmts)))
    return replace_loop(kernel, at.var, lambda _: asking), call.names


def _requests(
    call: Call, buffer: Buffer, sink: Buffer, window: Window, step: int, ahead: int, taken: set[str]
) -> Block:
    """One request for each `step` elements of a row of the part that the iteration `ahead` reads."""
    site, name = call.site("at"), sink.name
    at = loop_of(site)
    loops: list[For] = []
    where: list[Expr] = []
    last = len(window.extents) - 1
    for d, (origin, extent) in enumerate(zip(window.origins, window.extents, strict=True)):
        every = step if d == last else 1
        count = -(-extent // every)
        place = substitute(origin, {at.var: add(var(at.var), ahead)})
        if count > 1:
            loop = fresh(f"{name}.{d}", taken)
            taken.add(loop)
            loops.append(For(loop, index(count), LoopKind.SERIAL, Block(()), call.note))
            place = add(place, mul(var(loop), every))
        where.append(place)
    ask = Store(name, (), Load(buffer.name, tuple(where), buffer.dtype), prefetch=True)
    terms = [less(index(-1), w) for w in where]
    terms += [less(w, n) for w, n in zip(where, buffer.extents, strict=True)]
    body = guard(terms, Block((Alloc(sink), ask)), ranges_at(call.kernel, (*site.path, at, *loops)))
    for x in reversed(loops):
        body = Block((replace(x, body=body),))
    return body
