"""Rows too long to be held: their maximum, and the exponentials relative to it, from one reading."""

from __future__ import annotations

from collections.abc import Iterator

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.rows import read_more_than_once
from evolve.agents.expert.shape import Inner, Shape
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import call, each, program

WIDTHS = (4, 2)
THREADS = (256, 512, 1024, 128)


def sketches(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs for parallel loops over rows with a maximum, sums of exponentials and then at most maps."""
    does = [x.holds for x in shape.sweeps]
    if not shape.parallel or shape.is_small or does[:2] != ["maximum", "exponentials"]:
        return
    maps = shape.sweeps[2:]
    plain = not any(shape.varies(x.name) or x.guarded for x in shape.sweeps)
    if not plain or len(shape.inner) != len(shape.sweeps) or any(x.does != "map" for x in maps):
        return
    row = shape.parallel[-1]
    outer = [(x, shape.trips[x]) for x in shape.parallel[:-1]]
    binds = on_grid(outer, (row, shape.trips[row]))
    steps = [shape.trips[x.name] for x in shape.sweeps]
    sizes_of_chunks = [(w, t) for w in WIDTHS for t in THREADS if all(n % (w * t) == 0 for n in steps)]
    if binds is None or not sizes_of_chunks:
        return
    width, threads = sizes_of_chunks[0]
    facts = Facts(shape, sizes)
    if all(facts.multiple(x.name, width * threads) for x in shape.sweeps):
        text = _program(shape, facts, binds, [x.name for x in shape.sweeps], maps, width, threads)
        yield Sketch(
            text, "a block a row, read once for its maximum and its sums", ("redundant_dram", "occupancy")
        )


def _program(
    shape: Shape,
    facts: Facts,
    binds: list[str],
    names: list[str],
    maps: tuple[Inner, ...],
    width: int,
    threads: int,
) -> str:
    top, total = names[:2]
    parts = [f"{b}_part.{shape.ranks[b] - 1}" for b in read_more_than_once(shape, shape.parallel[-1])]
    lanes = each("o.i", [x.name for x in maps])
    return program(
        facts.statement(),
        *binds,
        call("split", names, width),
        call("split", each("o", names), threads),
        call("block_reduce", each("o.i", names[:2])),
        f"online([{top}.o.o, {top}.o.i], [{total}.o.o, {total}.o.i])",
        *(f"{p.split('.')[0]} = stage({p.split('_part')[0]}, at={top}.o.i, scope=register)" for p in parts),
        call("bind", lanes, "thread.x"),
        call("vectorize", [*parts, *each("i", [x.name for x in maps])], width),
    )
