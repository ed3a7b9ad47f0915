"""The lanes of a warp as a shape of two dimensions: which bits of a lane's number are which coordinate.

The bits of x and y take turns from the lowest on, as long as both have some. So of lanes l and l ^ 1 one
coordinate is the same, and of l and l ^ 2 the other: loads of 16 bytes that depend on one coordinate take
half the passes for either (clocks of an H200: `benchmarks/results/shared-loads-h200.json`).
"""

from __future__ import annotations

WARP = 32


def bits(x: int, y: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """For each bit of x, then of y, the bit of the lane's number that it is.

    Raises ValueError unless `x` and `y` are powers of two that make a warp.
    """
    if x * y != WARP or x & (x - 1) or x < 1:
        raise ValueError(f"{x} by {y} is no shape of the {WARP} lanes of a warp")
    left = {"x": x.bit_length() - 1, "y": y.bit_length() - 1}
    places: dict[str, list[int]] = {"x": [], "y": []}
    turn = "x"
    for place in range(WARP.bit_length() - 1):
        if not left[turn]:
            turn = "y" if turn == "x" else "x"
        places[turn].append(place)
        left[turn] -= 1
        turn = "y" if turn == "x" else "x"
    return tuple(places["x"]), tuple(places["y"])


def coordinate(lane: str, places: tuple[int, ...]) -> str:
    """C text of the number whose bits are these bits of `lane`; bits that move alike move together."""
    masks: dict[int, int] = {}
    for i, place in enumerate(places):
        masks[place - i] = masks.get(place - i, 0) | 1 << i
    terms = [f"({lane} >> {by} & {mask})" if by else f"({lane} & {mask})" for by, mask in masks.items()]
    return " | ".join(terms) if terms else "0"
