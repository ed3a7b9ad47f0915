"""Rows whose length memory says, as a sparse matrix's.

Some lanes a row, some entries of it in flight; or, as rows may be of very different lengths, all entries
shared out evenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.shape import Inner, Shape
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import choice, program
from evolve.ir.data import index_arrays, reads

FORMS = ((8, 4), (16, 1), (32, 4), (16, 2), (32, 8), (32, 1), (4, 4))
"""Lanes a row, and entries that each loads before it adds them."""
THREADS = 256
SHARED_OUT = ((8, 768, (2, 1)), (8, 256, (7, 4, 5)), (4, 256, (7, 4, 5)), (16, 256, (7, 4, 5)))
"""Where all entries are shared out: entries a thread at once, threads a block, blocks on each SM."""


def sketches(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs for one parallel loop over rows with one reduction over a row inside."""
    if len(shape.parallel) != 1 or len(shape.inner) != 1:
        return
    (row,), (sweep,) = shape.parallel, shape.inner
    if sweep.does != "reduce" or sweep.guarded or not reads(sweep.extent):
        return
    by_lanes = _lanes(shape, sizes, row, sweep.name)
    yield from islice(by_lanes, 1)
    yield from _entries(shape, row, sweep)
    yield from by_lanes


def _entries(shape: Shape, row: str, sweep: Inner) -> Iterator[Sketch]:
    """All entries shared out, where one array says how long each row is and one total is made of it."""
    arrays, k = index_arrays(sweep.extent), sweep.name
    if len(arrays) != 1 or len(shape.targets) != 1:
        return
    (ends,), (total,) = arrays, shape.targets
    once = sorted({w.buffer for w in shape.walks if w.stride(k) == 1})
    for entries, threads, blocks in SHARED_OUT:
        yield Sketch(
            program(
                f"balance({k}, by={ends})",
                f"aggregate({total}, warp)",
                f"split({k}, {entries})",
                f"split({k}.o, {threads})",
                f"persistent({k}.o.o, {choice([n * shape.sms for n in blocks])})",
                f"bind({k}.o.i, thread.x)",
                f"vectorize({k}.i, 4)",
                f"unroll({k}.i.o)" if entries > 4 else None,
                f"split([{row}.init, {row}], {THREADS})",
                f"bind([{row}.init.o, {row}.o], grid.x)",
                f"bind([{row}.init.i, {row}.i], thread.x)",
                *(f"cache_hint({buffer}, streaming)" for buffer in once),
            ),
            f"all entries shared out, {entries} a thread at once, {threads} threads a block",
            ("tail", "latency"),
        )


def _lanes(shape: Shape, sizes: dict[str, int], row: str, k: str) -> Iterator[Sketch]:
    for lanes, ahead in FORMS:
        rows = THREADS // lanes
        facts = Facts(shape, sizes)
        binds = on_grid([], (f"{row}.o", -(-shape.trips[row] // rows)))
        if binds is None or not facts.multiple(row, rows):
            continue
        order = f"[{k}.i, {k}.o.o, {k}.o.i]" if ahead > 1 else f"[{k}.i, {k}.o]"
        yield Sketch(
            program(
                facts.statement(),
                f"split({row}, {rows})",
                *binds,
                f"bind({row}.i, thread.y)",
                f"split({k}, {lanes})",
                f"split({k}.o, {ahead})" if ahead > 1 else None,
                f"reorder({order})",
                f"warp_reduce({k}.i)",
                f"unroll({k}.o.i)" if ahead > 1 else None,
            ),
            f"{lanes} lanes a row, {ahead} entries in flight in each",
            ("uncoalesced", "latency"),
        )
