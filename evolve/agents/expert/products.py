"""Products summed over a third loop: block tiles in shared memory, register tiles in threads."""

from __future__ import annotations

from collections.abc import Iterator

from evolve.agents.expert.shape import Shape, size_of
from evolve.agents.expert.text import each, group, multiples, program
from evolve.ir.effects import Mode
from evolve.ir.expr import Var

BLOCKS = ((128, 128, 8, 8), (64, 64, 4, 4), (128, 64, 8, 4), (64, 128, 4, 8))
"""Block rows, block columns, rows and columns a thread: 256 threads each."""
DEPTHS = (16, 8, 32)
PARTS = 3
"""What `distribute` makes of the nest: initial values, the sum, the store."""


def sketches(shape: Shape) -> Iterator[tuple[str, str]]:
    """Programs for two parallel loops around one reduction that reuses its operands along both."""
    sums = [x for x in shape.inner if x.does == "reduce" and x.depth == 0]
    if len(shape.parallel) != 2 or len(sums) != 1 or len(shape.inner) != 1:
        return
    i, j = shape.parallel
    k = sums[0].name
    reads = [w for w in shape.walks if w.mode is Mode.READ and k in w.loops]
    rows = sorted({w.buffer for w in reads if _walks(w.indices, {i, k})})
    cols = sorted({w.buffer for w in reads if _walks(w.indices, {j, k})})
    if not rows or not cols or set(rows) & set(cols):
        return
    sizes = {x: size_of(shape.extents[x]) for x in (i, j, k)}
    if None in sizes.values():
        return
    for bm, bn, rm, rn in BLOCKS:
        for depth in DEPTHS:
            tiles = {i: bm, j: bn, k: depth}
            if any(shape.trips[x] % t for x, t in tiles.items()):
                continue
            needs: dict[str, int] = {}
            for x, t in tiles.items():
                name = sizes[x] or ""
                needs[name] = max(needs.get(name, 1), t)
            for registers in (True, False):
                yield (
                    _tiled(shape, (i, j, k), (bm, bn, rm, rn, depth), needs, rows, cols, registers),
                    f"{bm} x {bn} x {depth} tiles in shared memory, {rm} x {rn} sums a thread",
                )


def _walks(indices: tuple[object, ...], loops: set[str]) -> bool:
    return len(indices) == 2 and {x.name for x in indices if isinstance(x, Var)} == loops


def _tiled(
    shape: Shape,
    loops: tuple[str, str, str],
    tile: tuple[int, int, int, int, int],
    needs: dict[str, int],
    rows: list[str],
    cols: list[str],
    registers: bool,
) -> str:
    i, j, k = loops
    bm, bn, rm, rn, depth = tile
    ty, tx = bm // rm, bn // rn
    # A thread's rows lie together; its columns in groups of 4, one group from each of rn / 4 stretches,
    # so that neighbouring threads read neighbouring vectors.
    thread_row, row = f"{i}.i.o", f"{i}.i.i"
    stretch, thread_col, lane = f"{j}.i.o", f"{j}.i.i.o", f"{j}.i.i.i"
    nest = [thread_row, thread_col, row, stretch, lane]
    lines: list[str | None] = [
        f"specialize({multiples(needs)})",
        f"tile([{i}, {j}], [{bm}, {bn}])",
        f"bind({i}.o, grid.y)",
        f"bind({j}.o, grid.x)",
        f"split({i}.i, {rm})",
        f"split({j}.i, {4 * tx})",
        f"split({j}.i.i, 4)",
        f"reorder({group(nest)})",
        f"distribute({group(nest)})",
        f"split({k}, {depth})",
        f"reorder({group([f'{k}.o', *each('1', nest[:2]), f'{k}.i', *each('1', nest[2:])])})",
    ]
    for b in (*rows, *cols):
        t = f"{b}_tile"
        lines += [
            f"{t} = stage({b}, at={k}.o, scope=shared)",
            f"set_layout({t}, pad=[0, {4 if b in cols else 1}])",
            *_copy(t, _extents(shape, b, loops, tile), (ty, tx)),
        ]
    if registers:
        lines += [f"{b}_frag = stage({b}_tile, at={k}.i, scope=register)" for b in rows]
    for part in range(PARTS):
        lines += [f"bind({thread_row}.{part}, thread.y)", f"bind({thread_col}.{part}, thread.x)"]
    lines += [
        f"unroll({group([f'{x}.{part}' for part in range(PARTS) for x in (row, stretch)])})",
        f"vectorize({group([f'{lane}.{part}' for part in range(1, PARTS)])}, 4)",
        f"unroll({k}.i)",
    ]
    return program(*lines)


def _extents(
    shape: Shape, buffer: str, loops: tuple[str, str, str], tile: tuple[int, int, int, int, int]
) -> tuple[int, int]:
    i, j, k = loops
    size = {i: tile[0], j: tile[1], k: tile[4]}
    first = shape.reads_of(buffer)[0]
    a, b = (x.name for x in first.indices if isinstance(x, Var))
    return size[a], size[b]


def _copy(name: str, extents: tuple[int, int], threads: tuple[int, int]) -> list[str | None]:
    """A copy nest over (thread.y, thread.x): wide along the contiguous dimension where that fits."""
    slow, fast = extents
    ty, tx = threads
    lines: list[str | None] = []
    width = next((w for w in (4, 2, 1) if fast % (w * tx) == 0), None)
    if width is None:
        # Fewer columns than threads in x: each thread row takes whole rows, some threads idle.
        lines += [f"bind({name}.1, thread.x)"]
    else:
        inner = f"{name}.1"
        if width > 1:
            lines += [f"split({inner}, {width})"]
            inner = f"{inner}.o"
        if fast // width > tx:
            lines += [f"split({inner}, {tx})", f"unroll({inner}.o)"]
            inner = f"{inner}.i"
        lines += [f"bind({inner}, thread.x)"]
        if width > 1:
            lines += [f"vectorize({name}.1.i, {width})"]
    if slow > ty:
        lines += [f"split({name}.0, {ty})", f"unroll({name}.0.o)", f"bind({name}.0.i, thread.y)"]
    else:
        lines += [f"bind({name}.0, thread.y)"]
    return lines
