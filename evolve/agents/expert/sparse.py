"""Rows whose length memory says, as a sparse matrix's: some lanes a row, some entries of it in flight."""

from __future__ import annotations

from collections.abc import Iterator

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.shape import Shape
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import program
from evolve.ir.data import reads

FORMS = ((8, 4), (16, 1), (32, 4), (16, 2), (32, 8), (32, 1), (4, 4))
"""Lanes a row, and entries that each loads before it adds them."""
THREADS = 256


def sketches(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs for one parallel loop over rows with one reduction over a row inside."""
    if len(shape.parallel) != 1 or len(shape.inner) != 1:
        return
    (row,), (sweep,) = shape.parallel, shape.inner
    if sweep.does != "reduce" or sweep.guarded or not reads(sweep.extent):
        return
    k = sweep.name
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
