"""Neighbourhoods: nests in which an element is made of those around it, as stencils and filters are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid, rows_of_threads
from evolve.agents.expert.shape import Shape
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import call, choice, each, in_order, program
from evolve.ir.affine import linear
from evolve.ir.effects import Mode
from evolve.ir.expr import Var
from evolve.ir.visit import variables

ROWS = (16, 8, 32, 4, 2)
FEW_ROWS = (8, 4)
"""Where the rows are held in registers."""
THREADS_OF_ROWS = (128, 256, 64)
WIDTH = 4
BLOCKS = ((64, 4), (32, 8))
"""Threads along a row and rows of threads in a block whose vectors are aligned."""
ROWS_OF_VECTORS = (2, 4, 8)


@dataclass(frozen=True)
class _Around:
    """A nest whose iterations read around their own place.

    others, row, fast   its loops, outermost first; arrays are contiguous along `fast`
    starts   by `row` and `fast`, what has to be added to a number to be a subscript of what is written
    read     the arrays read around
    """

    others: tuple[str, ...]
    row: str
    fast: str
    starts: dict[str, int]
    read: tuple[str, ...]


def in_vectors(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs in which a thread computes some rows of one aligned vector: loops count from where the array's
    rows begin, what the rows read is copied to registers in whole vectors, edges go lane by lane."""
    nest = _around(shape)
    facts = Facts(shape, sizes)
    if nest is None or not all(facts.length(b, WIDTH) for b in (*nest.read, *shape.written)):
        return
    row, fast = nest.row, nest.fast
    for along, beside in BLOCKS:
        rows = -(-shape.trips[row] // (ROWS_OF_VECTORS[0] * beside))
        binds = on_grid(
            [*((x, shape.trips[x]) for x in nest.others), (f"{row}.o.o", rows)],
            (f"{fast}.o.o", -(-shape.trips[fast] // (WIDTH * along))),
        )
        if binds is None:
            continue
        order = [f"{row}.o.o", f"{fast}.o.o", f"{row}.o.i", f"{fast}.o.i", f"{row}.i", f"{fast}.i"]
        yield Sketch(
            program(
                facts.statement(),
                in_order(shape.parallel, [*nest.others, row, fast]),
                *(f"shift({x}, {start})" for x, start in nest.starts.items() if start),
                f"split({row}, {choice(ROWS_OF_VECTORS)})",
                f"split({row}.o, {beside})",
                f"split({fast}, {WIDTH})",
                f"split({fast}.o, {along})",
                call("reorder", order),
                *binds,
                f"bind({row}.o.i, thread.y)",
                f"bind({fast}.o.i, thread.x)",
                *_computing(shape, nest),
            ),
            f"aligned vectors of {WIDTH} columns, some rows a thread, {along} x {beside} threads: what "
            "neighbours share is loaded once, and stores fill their sectors",
            ("uncoalesced", "narrow_accesses", "redundant_l2", "global_accesses", "latency"),
        )


def _around(shape: Shape) -> _Around | None:
    """The nest as such; None where it is none, or keeps sums beside more than stores."""
    if not shape.is_small or len(shape.parallel) < 2:
        return None
    fast = shape.fastest(shape.parallel) or shape.parallel[-1]
    *others, row = [x for x in shape.parallel if x != fast]
    starts = {x: start for x in (row, fast) if (start := _start(shape, x)) is not None}
    read = tuple(b for b, (first, last) in _spans(shape, row, fast).items() if last > first)
    stores = any(p.stores and p.loop is None for p in shape.pieces)
    if len(starts) < 2 or not read or not stores or not _shares(shape, row):
        return None
    return _Around(tuple(others), row, fast, starts, read)


def _computing(shape: Shape, nest: _Around) -> list[str | None]:
    """Statements that copy the rows and compute a thread's vectors. Sums get a nest of their own, beside
    which the stores are vectors."""
    row, fast = nest.row, nest.fast
    inside = [x.name for x in shape.inner]
    alone = len(shape.pieces) == 1
    parts = [fast + ".i" if alone else f"{fast}.i.{n}" for n in range(len(shape.pieces))]
    wide = [x for x, p in zip(parts, shape.pieces, strict=True) if p.stores and p.loop is None]
    copied = [f"{b}_rows.{shape.ranks[b] - 1}" for b in nest.read]
    return [
        *(f"{b}_rows = stage({b}, at={fast}.o.i, scope=register, align={WIDTH})" for b in nest.read),
        call("vectorize", copied, WIDTH),
        call("unroll", [f"{b}_rows.{shape.ranks[b] - 2}" for b in nest.read] + each("o", copied)),
        None if alone else f"distribute({fast}.i)",
        call("unroll", [f"{row}.i", *(x for x in parts if x not in wide), *inside]),
        call("vectorize", wide, WIDTH),
    ]


def _start(shape: Shape, loop: str) -> int | None:
    """What has to be added to the loop's number to be a subscript of what is written; None where that is not
    one number."""
    found = set()
    for w in shape.writes:
        forms = [linear(i) for i in w.indices if loop in variables(i)]
        if len(forms) != 1 or forms[0].terms != ((Var(loop), 1),) or forms[0].constant < 0:
            return None
        found.add(forms[0].constant)
    return found.pop() if len(found) == 1 else None


def rows_a_thread(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs in which a thread computes neighbouring rows, so that what they share is loaded once."""
    if not shape.is_small or len(shape.parallel) < 2:
        return
    fast = shape.fastest(shape.parallel) or shape.parallel[-1]
    *others, row = [x for x in shape.parallel if x != fast]
    if not _shares(shape, row):
        return
    inside = [x.name for x in shape.inner]
    # Pairs: what neighbours along the row share is loaded once too. A vector loop holds stores only; around
    # anything else the pairs are those of a copy in registers.
    plain = not shape.declares and not inside
    copied = [] if plain else _in_pairs(shape, row, fast)
    for width in (2, 1):
        facts = Facts(shape, sizes)
        if width > 1 and not ((plain or copied) and facts.multiple(fast, width)):
            continue
        rest, lanes = (f"{fast}.o", [f"{fast}.i"]) if width > 1 else (fast, [])
        copies = copied if lanes else []
        last = [f"{b}_rows.{shape.ranks[b] - 1}" for b in copies]
        for rows in ROWS if not copies else FEW_ROWS:
            lines = rows_of_threads(shape, others, row, fast, rows=rows, width=width, threads=THREADS_OF_ROWS)
            if lines is None:
                continue
            yield Sketch(
                program(
                    facts.statement(),
                    *lines,
                    *(f"{b}_rows = stage({b}, at={rest}.i, scope=register)" for b in copies),
                    call("vectorize", last, width),
                    call("unroll", [f"{b}_rows.{shape.ranks[b] - 2}" for b in copies] + each("o", last)),
                    call("unroll", [f"{row}.i", *(lanes if copies else ()), *inside]),
                    f"vectorize({fast}.i, {width})" if lanes and not copies else None,
                ),
                f"{rows} rows a thread{', in pairs' if lanes else ''}: what neighbours share is loaded once",
                ("redundant_l2", "redundant_dram", "global_accesses", "latency"),
            )


def _in_pairs(shape: Shape, row: str, fast: str) -> list[str]:
    """Matrices of which two neighbours along `fast` read whole pairs, more than one, and several rows."""
    spans = _spans(shape, row, fast).items()
    return [b for b, (first, last) in spans if first % 2 == 0 and (last - first) % 2 == 0 and last > first]


def _spans(shape: Shape, row: str, fast: str) -> dict[str, tuple[int, int]]:
    """Arrays that are only read, at several rows: from where to where around its own number an iteration of
    `fast` reads along the last dimension."""
    small = {x.name for x in shape.inner}
    out: dict[str, tuple[int, int]] = {}
    for b in dict.fromkeys(w.buffer for w in shape.walks):
        reads = [w for w in shape.reads_of(b) if row in w.uses]
        if b in shape.written or not reads or shape.ranks[b] < 2:
            continue
        first, last = [], []
        for w in reads:
            along = linear(w.indices[-1])
            steps = dict(along.terms)
            moved = {n for n in small if Var(n) in steps}
            if steps.pop(Var(fast), 0) != 1 or any(steps.pop(Var(n)) != 1 for n in moved) or steps:
                break
            first.append(along.constant)
            last.append(along.constant + sum(shape.trips[n] - 1 for n in moved))
        else:
            out[b] = (min(first), max(last))
    return out


def _shares(shape: Shape, row: str) -> bool:
    """Whether neighbouring iterations of `row` read the same elements: `x[row]` beside `x[row + 1]`, or
    `x[row + d]` with a short loop over d."""
    small = frozenset(x.name for x in shape.inner)
    for w in shape.walks:
        for d, subscript in enumerate(w.indices):
            if w.mode is not Mode.READ or row not in variables(subscript):
                continue
            if variables(subscript) & small:
                return True
            if any(x.indices[d] != subscript for x in shape.reads_of(w.buffer)):
                return True
    return False
