"""Neighbours along the contiguous loop that read the same elements: several a thread, window in registers."""

from __future__ import annotations

from collections.abc import Iterator

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.shape import Shape
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import call, choice, each, in_order, program
from evolve.ir.affine import linear
from evolve.ir.expr import Var
from evolve.ir.visit import variables

WIDTHS = (4, 2)
ROWS = (8, 4, 1)
THREADS = (128, 256, 64)
MOST = 64
"""Elements of all windows together that a thread holds."""


def sketches(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs for parallel loops with a short sum over a window that moves with the contiguous loop."""
    if not shape.is_small or not shape.parallel or not shape.inner or not shape.pieces:
        return
    fast = shape.fastest(shape.parallel)
    if fast is None:
        return
    spans = _windows(shape, fast)
    if not spans:
        return
    around = [x for x in shape.parallel if x != fast]
    outer, row = around[:-1], around[-1] if around else None
    held = [b for b in dict.fromkeys(w.buffer for w in shape.walks) if _stays(shape, b)]
    for rows in ROWS if row is not None else (1,):
        for width in WIDTHS:
            facts = Facts(shape, sizes)
            if sum(n + width for n in spans.values()) > MOST or not facts.multiple(fast, width):
                continue
            if rows > 1 and row is not None and not facts.multiple(row, rows):
                continue
            text = _program(shape, facts, (outer, row, fast), (rows, width), spans, held)
            if text is not None:
                yield Sketch(
                    text,
                    f"{width} neighbours a thread, {rows} rows, {', '.join(spans)} around them in registers",
                    ("global_accesses", "redundant_l2", "latency"),
                )


def _program(
    shape: Shape,
    facts: Facts,
    loops: tuple[list[str], str | None, str],
    block: tuple[int, int],
    spans: dict[str, int],
    held: list[str],
) -> str | None:
    (outer, row, fast), (rows, width) = loops, block
    many = row is not None and rows > 1
    rest = [(f"{row}.o", -(-shape.trips[row] // rows)) if many else (row, shape.trips[row])] if row else []
    around = [*((x, shape.trips[x]) for x in outer), *rest]
    binds = on_grid(around, (f"{fast}.o.o", -(-shape.trips[fast] // (width * THREADS[0]))))
    if binds is None:
        return None
    thread = f"{fast}.o.i"
    copies = {b: f"{b}_window.{shape.ranks[b] - 1}" for b in spans}
    wide = [c for b, c in copies.items() if (spans[b] + width) % width == 0]
    narrow = [c for c in copies.values() if c not in wide]
    parts = [f"{fast}.i.{n}" for n in range(len(shape.pieces))] if len(shape.pieces) > 1 else [f"{fast}.i"]
    stored = [x for x, p in zip(parts, shape.pieces, strict=True) if p.stores and p.loop is None]
    return program(
        facts.statement(),
        in_order(shape.parallel, [*outer, *([row] if row else []), fast]),
        f"split({row}, {rows})" if many else None,
        f"split({fast}, {width})",
        f"split({fast}.o, {choice(list(THREADS))})",
        f"reorder([{row}.o, {fast}.o.o, {thread}, {row}.i, {fast}.i])" if many else None,
        *binds,
        f"bind({thread}, thread.x)",
        f"distribute({fast}.i)" if len(shape.pieces) > 1 else None,
        *(f"{b}_held = stage({b}, at={thread}, scope=register)" for b in held if many),
        *(f"{b}_window = stage({b}, at={row}.i, scope=register)" for b in spans if many),
        *(f"{b}_window = stage({b}, at={thread}, scope=register)" for b in spans if not many),
        call("vectorize", wide, width),
        call("unroll", [*each("o", wide), *narrow]),
        call("unroll", [f"{b}_held.{d}" for b in held if many for d in range(shape.ranks[b])]),
        call("unroll", [*([f"{row}.i"] if many else []), *(x.name for x in shape.inner)]),
        call("unroll", [x for x in parts if x not in stored]),
        call("vectorize", stored, width),
    )


def _windows(shape: Shape, fast: str) -> dict[str, int]:
    """Read-only arrays whose last subscript is `fast` plus short loops and constants, and how much farther
    than one element they reach; the other subscripts stand still meanwhile."""
    inner = {x.name for x in shape.inner}
    out: dict[str, int] = {}
    for b in dict.fromkeys(w.buffer for w in shape.walks):
        reads = shape.reads_of(b)
        if b in shape.written or not reads or not shape.ranks[b]:
            continue
        if len({w.indices[:-1] for w in reads}) != 1 or any(
            variables(i) & {fast, *inner} for w in reads for i in w.indices[:-1]
        ):
            continue
        low, high = [], []
        for w in reads:
            along = linear(w.indices[-1])
            steps = dict(along.terms)
            if steps.pop(Var(fast), 0) != 1:
                break
            moved = [n for n in inner if steps.pop(Var(n), 0) == 1]
            if any(variables(atom) & shape.extents.keys() for atom in steps):
                break
            low.append(along.constant)
            high.append(along.constant + sum(shape.trips[n] - 1 for n in moved))
        else:
            if max(high) > min(low):
                out[b] = max(high) - min(low)
    return out


def _stays(shape: Shape, buffer: str) -> bool:
    """Whether an array is only read, and at places that short loops alone decide."""
    short = {x.name for x in shape.inner}
    reads = shape.reads_of(buffer)
    return buffer not in shape.written and bool(reads) and all(w.uses <= short and w.uses for w in reads)
