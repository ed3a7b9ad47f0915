"""Placing loops on the axes of the grid."""

from __future__ import annotations

from collections.abc import Sequence

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
