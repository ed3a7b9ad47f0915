"""Elementwise nests: wide accesses, and enough of them in flight."""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from evolve.agents.expert.shape import Shape, size_of
from evolve.agents.expert.text import choice, program

WIDTHS = (4, 2, 1)
THREADS = (256, 512, 128, 1024)
CHUNKS = (1, 2, 4)
ROWS = (4, 8, 2, 16)


def sketches(shape: Shape) -> Iterator[tuple[str, str]]:
    """Programs for parallel loops with no loop inside, with the reason for each."""
    if shape.inner or not 1 <= len(shape.parallel) <= 3:
        return
    *outer, last = shape.parallel
    axes = ("grid.y", "grid.z")
    binds = [f"bind({loop}, {axis})" for loop, axis in zip(reversed(outer), axes, strict=False)]
    size = size_of(shape.extents[last])
    for width in WIDTHS:
        for chunk in CHUNKS:
            threads = [t for t in THREADS if t * chunk * width <= shape.trips[last]] or [THREADS[0]]
            block = lcm(*threads) * chunk * width
            whole = size is not None and shape.trips[last] % block == 0
            if width > 1 and not (size is not None and shape.trips[last] % width == 0):
                continue
            rest = f"{last}.o" if width > 1 else last
            lane_condition = f"specialize({size} % {block if whole else width} == 0)"
            yield (
                program(
                    lane_condition if width > 1 or whole else None,
                    *binds,
                    f"split({last}, {width})" if width > 1 else None,
                    *_bound(rest, chunk, threads),
                    f"vectorize({last}.i, {width})" if width > 1 else None,
                ),
                f"{width} elements an access, {chunk} accesses in flight in each thread",
            )


def rows_a_thread(shape: Shape) -> Iterator[tuple[str, str]]:
    """Programs in which a thread computes neighbouring rows, so that what they share is loaded once."""
    if shape.inner or len(shape.parallel) != 2 or not _reads_neighbours(shape):
        return
    i, j = shape.parallel
    for rows in ROWS:
        yield (
            program(
                f"split({i}, {rows})",
                f"split({j}, {choice(list(THREADS))})",
                f"reorder([{i}.o, {j}.o, {j}.i, {i}.i])",
                f"bind({i}.o, grid.y)",
                f"bind({j}.o, grid.x)",
                f"bind({j}.i, thread.x)",
                f"unroll({i}.i)",
            ),
            f"{rows} neighbouring rows a thread: shared neighbours are loaded once",
        )


def _reads_neighbours(shape: Shape) -> bool:
    """Whether some array is read at several places by one iteration."""
    return any(len(shape.reads_of(w.buffer)) > 1 for w in shape.walks)


def _bound(rest: str, chunk: int, threads: list[int]) -> list[str]:
    """Blocks of threads; with chunk > 1 each thread takes `chunk` elements one block width apart."""
    if chunk == 1:
        return [f"split({rest}, {choice(threads)})", f"bind({rest}.o, grid.x)", f"bind({rest}.i, thread.x)"]
    return [
        f"split({rest}, {choice(threads)})",
        f"split({rest}.o, {chunk})",
        f"bind({rest}.o.o, grid.x)",
        f"bind({rest}.i, thread.x)",
        f"unroll({rest}.o.i)",
    ]
