"""Elementwise nests: wide accesses, and enough of them in flight."""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid, rows_of_threads
from evolve.agents.expert.shape import Inner, Shape
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import call, choice, in_order, program

WIDTHS = (4, 2, 1)
THREADS = (256, 512, 128, 1024)
CHUNKS = (2, 4, 1)
BLOCK = 256
NARROW = 128
"""Below so many threads along the contiguous loop a block takes several rows."""


def sketches(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs for parallel loops with little inside."""
    if not shape.is_small or not shape.parallel:
        return
    fast = shape.fastest(shape.parallel) or shape.parallel[-1]
    outer = [x for x in shape.parallel if x != fast]
    lane = _lane(shape, fast)
    if lane is not None:
        yield from _with_lane(shape, sizes, outer, fast, lane)
        return
    for width in WIDTHS:
        for chunk in CHUNKS:
            facts = Facts(shape, sizes)
            # A vector loop holds stores only.
            if width > 1 and (shape.declares or shape.inner or not facts.multiple(fast, width)):
                continue
            lines = _blocks(shape, facts, outer, fast, width, chunk)
            if lines is not None:
                yield Sketch(
                    program(facts.statement(), in_order(shape.parallel, [*outer, fast]), *lines),
                    f"{width} elements an access, {chunk} accesses in flight in each thread",
                    ("latency", "instructions") if width * chunk > 1 else ("tail", "idle_sms"),
                )


def _blocks(
    shape: Shape, facts: Facts, outer: list[str], fast: str, width: int, chunk: int
) -> list[str | None] | None:
    """Statements that spread the loops over blocks and threads; None where they do not fit the grid."""
    rest = f"{fast}.o" if width > 1 else fast
    trips = shape.trips[fast] // width
    wide: list[str | None] = [f"split({fast}, {width})"] if width > 1 else []
    last: list[str | None] = [f"vectorize({fast}.i, {width})"] if width > 1 else []
    last += [call("unroll", [x.name for x in shape.inner])]
    if trips < NARROW and outer:
        return _rows_in_a_block(shape, facts, outer, fast, width, chunk, last)
    threads = [t for t in THREADS if t * chunk <= trips] or [THREADS[0]]
    if facts.multiple(fast, lcm(*threads) * chunk * width):
        pass
    elif width > 1:
        facts.multiple(fast, width)
    blocks = -(-trips // (threads[0] * chunk))
    serial = outer[2:]
    head = f"{rest}.o.o" if chunk > 1 else f"{rest}.o"
    binds = on_grid([(x, shape.trips[x]) for x in outer[:2]], (head, blocks))
    if binds is None:
        return None
    lines = [*wide, f"split({rest}, {choice(threads)})"]
    if chunk > 1:
        lines += [f"split({rest}.o, {chunk})"]
    inside = [f"{rest}.o.i"] if chunk > 1 else []
    if serial:
        lanes = [f"{fast}.i"] if width > 1 else []
        lines += [call("reorder", [*outer[:2], head, f"{rest}.i", *serial, *inside, *lanes])]
    return [*lines, *binds, f"bind({rest}.i, thread.x)", call("unroll", inside), *last]


def _rows_in_a_block(
    shape: Shape,
    facts: Facts,
    outer: list[str],
    fast: str,
    width: int,
    chunk: int,
    last: list[str | None],
) -> list[str | None] | None:
    """Short contiguous loops are one side of a block, rows the other."""
    *others, row = outer
    facts.constant(fast)
    trips = shape.trips[fast] // width
    rows = 1
    while rows * 2 * trips <= BLOCK:
        rows *= 2
    facts.multiple(row, rows * chunk)
    head = f"{row}.o.o" if chunk > 1 else f"{row}.o"
    blocks = -(-shape.trips[row] // (rows * chunk))
    binds = on_grid([(x, shape.trips[x]) for x in others], (head, blocks))
    if binds is None:
        return None
    rest = f"{fast}.o" if width > 1 else fast
    return [
        f"split({fast}, {width})" if width > 1 else None,
        f"split({row}, {rows})",
        f"split({row}.o, {chunk})" if chunk > 1 else None,
        *binds,
        f"bind({row}.i, thread.y)",
        f"bind({rest}, thread.x)",
        f"unroll({row}.o.i)" if chunk > 1 else None,
        *last,
    ]


def _lane(shape: Shape, fast: str) -> Inner | None:
    """A short sequential loop that a thread walks contiguously, the next thread going on where it ends."""
    for x in shape.sweeps:
        trips = shape.trips[x.name]
        if len(shape.inner) != 1 or x.does != "map" or trips not in (2, 4, 8):
            continue
        if all(abs(w.stride(x.name)) == 1 and abs(w.stride(fast)) == trips for w in shape.writes):
            return x
    return None


def _with_lane(
    shape: Shape, sizes: dict[str, int], outer: list[str], fast: str, lane: Inner
) -> Iterator[Sketch]:
    """As `sketches`, for elements that the source already gives to a thread in a row."""
    trips = shape.trips[lane.name]
    for chunk in CHUNKS:
        facts = Facts(shape, sizes)
        if not facts.multiple(fast, 1):
            return
        lines = _blocks(shape, facts, outer, fast, 1, chunk)
        if lines is None:
            continue
        unrolled = call("unroll", [lane.name])
        lines = [x for x in lines if x != unrolled]
        yield Sketch(
            program(
                facts.statement(),
                in_order(shape.parallel, [*outer, fast]),
                *lines,
                f"vectorize({lane.name}, {min(4, trips)})",
                f"unroll({lane.name}.o)" if trips > 4 else None,
            ),
            f"the {trips} elements of a thread in one access, {chunk} of them in flight",
            ("latency", "uncoalesced", "instructions"),
        )


def vector_rows(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs with wide accesses and several rows a thread, for arrays that do not move with the rows."""
    if not shape.is_small or len(shape.parallel) < 2:
        return
    fast = shape.fastest(shape.parallel)
    if (
        shape.declares
        or shape.inner
        or fast is None
        or all(set(shape.parallel) <= w.uses for w in shape.walks)
    ):
        return
    *others, row = [x for x in shape.parallel if x != fast]
    for width in WIDTHS:
        for rows in (4, 2, 8):
            facts = Facts(shape, sizes)
            threads = [t for t in (128, 256, 64) if t * width <= shape.trips[fast]] or [64]
            if not facts.multiple(row, rows) or not facts.multiple(fast, width * lcm(*threads)):
                continue
            lines = rows_of_threads(shape, others, row, fast, rows=rows, width=width, threads=threads)
            if lines is None:
                continue
            yield Sketch(
                program(
                    facts.statement(),
                    *lines,
                    call("unroll", [f"{row}.i", *(x.name for x in shape.inner)]),
                    f"vectorize({fast}.i, {width})" if width > 1 else None,
                ),
                f"{width} elements an access, {rows} rows a thread: what the rows share is loaded once",
                ("global_accesses", "redundant_l2", "latency"),
            )
