"""Placing loops on the axes of the grid, and a block's threads along rows."""

from __future__ import annotations

from collections.abc import Sequence

from evolve.agents.expert.shape import Shape
from evolve.agents.expert.text import call, choice, in_order

MAX_YZ = 65535
"""Blocks along grid.y and grid.z (CUDA programming guide, technical specifications)."""


def on_grid(
    outer: Sequence[tuple[str, int]], fast: tuple[str, int], first: str | None = None
) -> list[str] | None:
    """`bind`s of at most two outer loops and the fast one, given with their trips; None if they do not fit.

    grid.x, the only long axis and the one along which neighbouring blocks run together, goes to `first`, by
    default to the fast loop, unless another one needs it.
    """
    loops = sorted([fast, *reversed(outer)], key=lambda x: x[0] != first)
    if len(loops) > 3:
        return None
    long = [x for x in loops if x[1] > MAX_YZ]
    if len(long) > 1:
        return None
    if long:
        loops.remove(long[0])
        loops.insert(0, long[0])
    axes = {name: axis for (name, _), axis in zip(loops, ("grid.x", "grid.y", "grid.z"), strict=False)}
    # A grid loop is bound before those inside it.
    return [f"bind({name}, {axes[name]})" for name, _ in (*outer, fast)]


def rows_of_threads(
    shape: Shape, others: Sequence[str], row: str, fast: str, *, rows: int, width: int, threads: Sequence[int]
) -> list[str | None] | None:
    """Statements by which each thread has `rows` rows, and `width` neighbours along `fast`; None if the grid
    does not fit. The first of `threads` decides how many blocks there are."""
    rest, lanes = (f"{fast}.o", [f"{fast}.i"]) if width > 1 else (fast, [])
    binds = on_grid(
        [*((x, shape.trips[x]) for x in others), (f"{row}.o", -(-shape.trips[row] // rows))],
        (f"{rest}.o", -(-shape.trips[fast] // (width * threads[0]))),
    )
    if binds is None:
        return None
    return [
        in_order(shape.parallel, [*others, row, fast]),
        f"split({row}, {rows})",
        f"split({fast}, {width})" if lanes else None,
        f"split({rest}, {choice(threads)})",
        call("reorder", [f"{row}.o", f"{rest}.o", f"{rest}.i", f"{row}.i", *lanes]),
        *binds,
        f"bind({rest}.i, thread.x)",
    ]
