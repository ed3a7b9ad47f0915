"""Long reductions across contiguous parallel loops: rows shared among thread.y, columns wide on thread.x."""

from __future__ import annotations

from collections.abc import Iterator

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.shape import Shape
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import call, in_order, program
from evolve.ir.effects import Mode

FORMS = ((1, 32, 32), (4, 8, 64), (2, 16, 32), (1, 32, 16), (4, 8, 32), (4, 16, 32), (1, 64, 16))
"""Columns an access, threads across the columns, threads down the rows."""
IN_FLIGHT = (16, 8, 4)
"""Rows that a thread loads before it adds them."""


def sketches(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs for parallel loops with one reduction inside that walks down contiguous columns."""
    if not shape.parallel or len(shape.inner) != 1 or shape.inner[0].does != "reduce":
        return
    sweep = shape.inner[0].name
    col = shape.fastest(shape.parallel)
    down = [w for w in shape.walks if w.mode is Mode.READ and sweep in w.uses]
    if col is None or not down or not all(abs(w.stride(col)) == 1 for w in down):
        return
    outer = [x for x in shape.parallel if x != col]
    if not any(abs(w.stride(col)) == 1 and w.stride(sweep) == 0 for w in down):
        return
    for rows in IN_FLIGHT:
        for width, across, deep in FORMS:
            facts = Facts(shape, sizes)
            if not facts.multiple(col, width * across) or not facts.multiple(sweep, deep * rows):
                continue
            text = _shared_rows(shape, facts, outer, col, (width, across, deep, rows))
            if text is not None:
                yield Sketch(
                    text,
                    f"{deep} threads down the rows with {rows} loads of {width} columns in flight in each",
                    ("idle_sms", "latency"),
                )
    if shape.trips[col] % 32 or shape.trips[sweep] % 128:
        for rows in IN_FLIGHT:
            text = _shared_rows(shape, Facts(shape, sizes), outer, col, (1, 32, 32, rows))
            if text is not None:
                yield Sketch(text, f"32 threads down the rows, {rows} of them ahead", ("idle_sms", "latency"))
    for width in (4, 2, 1):
        for rows in (8, 16):
            text = _column_a_thread(shape, sizes, outer, col, width, rows)
            if text is not None:
                yield Sketch(text, f"{width} columns a thread, {rows} rows in flight", ("latency",))


def _shared_rows(
    shape: Shape, facts: Facts, outer: list[str], col: str, form: tuple[int, int, int, int]
) -> str | None:
    width, across, deep, rows = form
    sweep = shape.inner[0].name
    binds = on_grid(
        [(x, shape.trips[x]) for x in outer], (f"{col}.o", -(-shape.trips[col] // (width * across)))
    )
    target = _target(shape)
    if binds is None or target is None or len(shape.pieces) < 2:
        return None
    c, part = f"{col}.i", f"{target}_part"
    at = next(n for n, p in enumerate(shape.pieces) if p.loop == sweep)
    others = [f"{c}.{n}" for n in range(len(shape.pieces)) if n != at]
    first, last = f"{sweep}.i.i.init", f"{sweep}.i.i.all"
    lines: list[str | None] = [
        facts.statement(),
        in_order(shape.parallel, [*outer, col]),
        f"split({col}, {width * across})",
        *binds,
        f"distribute({c})",
        f"split({sweep}, {deep * rows})",
        f"split({sweep}.i, {deep})",
    ]
    if width == 1:
        return program(
            *lines,
            f"reorder([{sweep}.i.i, {c}.{at}, {sweep}.o, {sweep}.i.o])",
            f"split_reduction({sweep}.i.i, scope=shared)",
            f"accumulate_in_register({sweep}.o, {part})",
            f"unroll({sweep}.i.o)",
            f"bind([{sweep}.i.i, {first}], thread.y)",
            call("bind", [f"{c}.{at}", f"{first}.0", f"{last}.0", *others], "thread.x"),
        )
    tails = [f"{first}.0", f"{last}.0", *others]
    stored = [f"{c}.{n}" for n, p in enumerate(shape.pieces) if n != at and p.stores]
    kept = [f"{c}.{n}" for n, p in enumerate(shape.pieces) if n != at and not p.stores]
    return program(
        *lines,
        f"split({c}.{at}, {width})",
        f"reorder([{sweep}.i.i, {c}.{at}.o, {sweep}.o, {sweep}.i.o, {c}.{at}.i])",
        f"split_reduction({sweep}.i.i, scope=shared)",
        f"accumulate_in_register({sweep}.o, {part})",
        f"unroll([{sweep}.i.o, {part}_r.init.1, {part}_r.all.1])",
        call("split", tails, width),
        f"bind([{sweep}.i.i, {first}], thread.y)",
        call("bind", [f"{x}.o" for x in (f"{c}.{at}", *tails)], "thread.x"),
        f"reorder([{last}.0.o, {last}, {last}.0.i])",
        call("vectorize", [f"{x}.i" for x in (f"{c}.{at}", f"{first}.0", f"{last}.0", *stored)], width),
        call("unroll", [f"{x}.i" for x in kept]),
    )


def _target(shape: Shape) -> str | None:
    """The one variable that the reduction updates."""
    return shape.targets[0] if len(shape.targets) == 1 else None


def _column_a_thread(
    shape: Shape, sizes: dict[str, int], outer: list[str], col: str, width: int, rows: int
) -> str | None:
    facts, sweep = Facts(shape, sizes), shape.inner[0].name
    threads = 32 if shape.trips[col] // width <= 1 << 16 else 128
    if not facts.multiple(col, width * threads) or not facts.multiple(sweep, rows):
        return None
    binds = on_grid([(x, shape.trips[x]) for x in outer], (f"{col}.o", shape.trips[col] // (width * threads)))
    if binds is None:
        return None
    lines: list[str | None] = [facts.statement(), in_order(shape.parallel, [*outer, col])]
    if width == 1:
        return program(
            *lines,
            f"split({col}, {threads})",
            *binds,
            f"bind({col}.i, thread.x)",
            f"unroll({sweep}, {rows})",
        )
    at = next(n for n, p in enumerate(shape.pieces) if p.loop == sweep)
    parts = range(len(shape.pieces))
    lane = f"{col}.i.i"
    return program(
        *lines,
        f"split({col}, {width * threads})",
        f"split({col}.i, {width})",
        *binds,
        f"bind({col}.i.o, thread.x)",
        f"distribute({lane})",
        f"split({sweep}, {rows})" if len(shape.pieces) > 1 else None,
        f"reorder([{sweep}.o, {sweep}.i, {lane}.{at}])",
        f"unroll({sweep}.i)",
        call("vectorize", [f"{lane}.{n}" for n in parts if n == at or shape.pieces[n].stores], width),
        call("unroll", [f"{lane}.{n}" for n in parts if n != at and not shape.pieces[n].stores]),
    )
