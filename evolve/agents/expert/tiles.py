"""Nests that read along one loop and write along the other: through a tile in shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from evolve.agents.expert.shape import Shape, size_of
from evolve.agents.expert.text import multiples, program
from evolve.ir.effects import Mode

TILES = (64, 32)


def sketches(shape: Shape) -> Iterator[tuple[str, str]]:
    """Programs for a parallel pair of loops where some read is contiguous along the outer-written loop."""
    if shape.inner or len(shape.parallel) != 2:
        return
    i, j = shape.parallel
    writes = [w for w in shape.walks if w.mode is not Mode.READ]
    for across, along in ((i, j), (j, i)):
        # Writes are contiguous along `along`; reads that are contiguous along `across` go through a tile.
        turned = [
            w.buffer
            for w in shape.walks
            if w.mode is Mode.READ and len(w.indices) == 2 and w.contiguous_in == {across}
        ]
        if not turned or not writes or not all(w.contiguous_in == {along} for w in writes):
            continue
        sizes = {size_of(shape.extents[x]) for x in (i, j)}
        if None in sizes:
            continue
        for tile in TILES:
            if any(shape.trips[x] % tile for x in (i, j)):
                continue
            for width in (4, 2, 1):
                yield (
                    _tiled(
                        i, j, across, along, tile, width, sorted(set(turned)), {s: tile for s in sizes if s}
                    ),
                    f"a padded {tile} x {tile} shared tile, {width} elements an access on both sides",
                )


def _tiled(
    i: str, j: str, across: str, along: str, tile: int, width: int, turned: list[str], needs: dict[str, int]
) -> str:
    across_i, along_i = f"{across}.i", f"{along}.i"
    rows = max(4, 256 // (tile // width))
    lines: list[str | None] = [
        f"specialize({multiples(needs)})",
        f"tile([{i}, {j}], [{tile}, {tile}])",
        f"bind({i}.o, grid.y)",
        f"bind({j}.o, grid.x)",
    ]
    for b in turned:
        t = f"{b}_tile"
        # The copy walks the array's own rows: dimension 1 is the contiguous one.
        lines += [
            f"{t} = stage({b}, at={j}.o, scope=shared)",
            f"set_layout({t}, pad=[0, 1])",
            *_threads(f"{t}.0", f"{t}.1", rows, width),
        ]
    lines += [
        f"reorder([{across_i}, {along_i}])",
        *_threads(across_i, along_i, rows, width),
    ]
    return program(*lines)


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
