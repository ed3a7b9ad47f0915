"""Results that a thread keeps in an array between two sweeps: computed where the second sweep reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.shape import Shape
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import choice, in_order, program
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Store
from evolve.ir.types import Space
from evolve.ir.visit import Site, leaves, loads, local_buffers

ROWS = (8, 4, 16)
"""Iterations of the second sweep that a thread does: what their windows share is computed again."""
WIDTH, THREADS = 4, 32
MOST_ROWS = 32
"""Of threads in a block."""


@dataclass(frozen=True)
class _Kept:
    """The array, and the sweep that reads it and stores the results."""

    buffer: str
    sweep: str


def sketches(kernel: Kernel, shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs for parallel loops around two sweeps, the second of which reads what the first has kept."""
    kept = _kept(kernel, shape)
    fast = shape.fastest(shape.parallel) if kept is not None else None
    if kept is None or fast is None:
        return
    others = [x for x in shape.parallel if x != fast]
    sweep, trips = kept.sweep, shape.trips[kept.sweep]
    rows = tuple(n for n in ROWS if trips % n == 0 and trips // n <= MOST_ROWS)
    facts = Facts(shape, sizes)
    if not rows or not facts.multiple(fast, WIDTH * THREADS):
        return
    blocks = shape.trips[fast] // (WIDTH * THREADS)
    binds = on_grid([(x, shape.trips[x]) for x in others], (f"{fast}.o.o", blocks))
    if binds is None:
        return
    begin = [facts.statement(), in_order(shape.parallel, [*others, fast])]
    threads = [
        f"split({fast}.o, {THREADS})",
        *binds,
        f"bind({fast}.o.i, thread.x)",
        f"bind({sweep}.o, thread.y)",
    ]
    why = "what a thread keeps is computed where it is read, in registers, for four columns at once"
    for_gaps = ("spills", "latency", "global_accesses", "narrow_accesses")
    yield Sketch(
        program(
            *begin,
            f"split({sweep}, {choice(rows)})",
            f"w = compute_at({kept.buffer}, at={sweep}.o)",
            f"split({fast}, {WIDTH})",
            f"reorder([{fast}.o, {sweep}.o, {fast}.i])",
            f"distribute({fast}.i)",
            f"reorder([w.0, {fast}.i.0])",
            f"reorder([{sweep}.i, {fast}.i.1])",
            f"vectorize([{fast}.i.0, {fast}.i.1], {WIDTH})",
            *threads,
        ),
        why,
        for_gaps,
    )
    yield Sketch(
        program(
            *begin,
            f"inline({kept.buffer})",
            f"split({sweep}, {choice(rows)})",
            f"split({fast}, {WIDTH})",
            f"reorder([{fast}.o, {sweep}.o, {sweep}.i, {fast}.i])",
            f"vectorize({fast}.i, {WIDTH})",
            *threads,
            f"unroll({sweep}.i)",
        ),
        "nothing is kept: what is read twice is computed twice",
        for_gaps,
    )


def _kept(kernel: Kernel, shape: Shape) -> _Kept | None:
    """The one array of a thread's own, filled by a sweep and read by the next, which stores the results."""
    own = [
        b for b in local_buffers(kernel.body).values() if b.space is Space.REGISTER and len(b.extents) == 1
    ]
    found = list(leaves(kernel.body))
    if len(own) != 1 or len(found) != 2 or not all(isinstance(leaf, Store) for leaf, _ in found):
        return None
    (filled, first), (stored, second) = found
    read = [x.buffer for x in loads(stored.value)]
    if filled.buffer != own[0].name or own[0].name not in read or stored.buffer not in shape.written:
        return None
    sweeps = [_sweep(site, shape) for site in (first, second)]
    return None if None in sweeps or sweeps[1] is None else _Kept(own[0].name, sweeps[1])


def _sweep(site: Site, shape: Shape) -> str | None:
    """The one loop between the parallel loops and a statement."""
    names = [x.var for x in site.loops]
    return names[-1] if names[:-1] == list(shape.parallel) and len(site.path) == len(names) else None
