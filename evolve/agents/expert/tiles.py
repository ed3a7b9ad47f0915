"""Nests that read along one loop and write along another: through a tile in shared memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.shape import Shape
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import in_order, program
from evolve.ir.effects import Mode

TILES = (64, 32)
THREADS = 256
UNEVEN_ROWS = 12
SHORT = 1024
"""Loops of at most so many iterations may become constants: the program is checked at that size too."""


def sketches(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs for parallel loops where some read is contiguous along another loop than the writes."""
    if not shape.is_small or len(shape.parallel) < 2 or not shape.writes:
        return
    along = next((x for x in shape.parallel if all(w.stride(x) == 1 for w in shape.writes)), None)
    if along is None:
        return
    turned: dict[str, str] = {}
    for w in shape.walks:
        for x in shape.parallel:
            # Only exact subscripts make a tile whose copy loops have the tile's sizes.
            exact = w.dimension(x) == len(w.indices) - 1 and w.dimension(along) is not None
            if w.mode is Mode.READ and x != along and exact:
                turned[w.buffer] = x
    if not turned:
        return
    across = Counter(turned.values()).most_common(1)[0][0]
    arrays = sorted(b for b, x in turned.items() if x == across)
    for tile in TILES:
        facts = Facts(shape, sizes)
        if all(facts.multiple(x, tile) for x in (across, along)):
            for width in (1, 4, 2):
                text = _tiled(shape, facts, across, along, arrays, {across: tile, along: tile}, width)
                yield from _sketch(text, f"a padded {tile} x {tile} shared tile", width)
            continue
        # The tile that leaves least over; where the loops are short, for exactly their lengths.
        tiles = {x: _even(shape.trips[x], tile) for x in (across, along)}
        for exact in (True, False):
            facts = Facts(shape, sizes)
            for x in (across, along):
                if exact and shape.trips[x] <= SHORT:
                    facts.constant(x)
            text = _tiled(shape, facts, across, along, arrays, tiles, 1)
            yield from _sketch(text, f"a padded {tiles[along]} x {tiles[across]} shared tile", 1)


def _sketch(text: str | None, tile: str, width: int) -> Iterator[Sketch]:
    if text is not None:
        against = ("uncoalesced", "redundant_dram", "bank_conflicts" if width == 1 else "instructions")
        yield Sketch(text, f"{tile}, {width} elements an access on both sides", against)


def _even(trips: int, tile: int) -> int:
    """The tile size near `tile` that cuts the trips into even parts."""
    return -(-trips // max(1, round(trips / tile)))


def _tiled(
    shape: Shape, facts: Facts, across: str, along: str, arrays: list[str], tile: dict[str, int], width: int
) -> str | None:
    others = [x for x in shape.parallel if x not in (across, along)]
    blocks = {x: -(-shape.trips[x] // tile[x]) for x in (across, along)}
    outer = [(x, shape.trips[x]) for x in others]
    # With two loops more than a grid has axes for, a block walks its tiles along `across`.
    if len(others) < 2:
        binds = on_grid([*outer, (f"{along}.o", blocks[along])], (f"{across}.o", blocks[across]))
    else:
        binds = on_grid(outer, (f"{along}.o", blocks[along]))
    if binds is None:
        return None
    lines: list[str | None] = [
        facts.statement(),
        in_order(shape.parallel, [*others, along, across]),
        f"tile([{along}, {across}], [{tile[along]}, {tile[across]}])",
        *binds,
    ]
    for b in arrays:
        w = next(x for x in shape.reads_of(b) if x.dimension(across) == len(x.indices) - 1)
        t = f"{b}_tile"
        pad = ["0"] * len(w.indices)
        pad[-1] = "1"
        lines += [
            f"{t} = stage({b}, at={across}.o, scope=shared)",
            f"set_layout({t}, pad=[{', '.join(pad)}])",
            *_threads(
                f"{t}.{w.dimension(along)}", f"{t}.{w.dimension(across)}", _rows(tile[along], width), width
            ),
        ]
    lines += [
        f"reorder([{across}.i, {along}.i])",
        *_threads(f"{across}.i", f"{along}.i", _rows(tile[across], width), width),
    ]
    return program(*lines)


def _rows(slow: int, width: int) -> int:
    """Rows of threads over `slow` rows of a tile, which they divide."""
    wanted = max(4, THREADS // (slow // width)) if slow in TILES else UNEVEN_ROWS
    return max((r for r in range(2, slow + 1) if slow % r == 0 and r <= wanted), default=slow)


def _threads(slow: str, fast: str, rows: int, width: int) -> list[str | None]:
    """thread.x along the contiguous loop, thread.y over `rows` of the other."""
    lane = fast if width == 1 else f"{fast}.o"
    return [
        f"split({slow}, {rows})",
        f"split({fast}, {width})" if width > 1 else None,
        f"bind({slow}.i, thread.y)",
        f"bind({lane}, thread.x)",
        f"vectorize({fast}.i, {width})" if width > 1 else None,
        f"unroll({slow}.o)",
    ]
