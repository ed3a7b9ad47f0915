"""The threads of a block: how they are launched, and which coordinates each of them has.

Where thread.x and thread.y are the lanes of a warp (`Kernel.lanes`), the block is launched by warps, and bits
of a lane's number are its coordinates. The bits of x and y take turns from the lowest on, as long as both
have some. So of lanes l and l ^ 1 one coordinate is the same, and of l and l ^ 2 the other: loads of 16 bytes
that depend on one coordinate take half the passes for either (clocks of an H200:
`benchmarks/results/shared-loads-h200.json`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evolve.codegen.errors import CodegenError
from evolve.codegen.geometry import THREAD_AXES
from evolve.ir.types import LoopKind
from evolve.target.limits import WARP


def lane_of(row: int | str = "blockDim.x") -> str:
    """The text of a thread's number in its warp. `row`: the threads along x; 0: they are whole warps."""
    if row == 0:
        return f"threadIdx.x % {WARP}"
    return f"(threadIdx.x + {row} * (threadIdx.y + blockDim.y * threadIdx.z)) % {WARP}"


@dataclass(frozen=True)
class Threads:
    """As many along each axis as the largest loop bound to it has iterations. `lanes` as of a Kernel."""

    extents: Mapping[LoopKind, int]
    lanes: bool

    @property
    def is_warps(self) -> bool:
        """Whether thread.x and thread.y are coordinates of a lane and no axes of the launch."""
        return self.lanes and self.extents[LoopKind.THREAD_Y] > 1

    @property
    def block(self) -> tuple[int, int, int]:
        """The block as it is launched. Raises CodegenError for lanes that make no warp."""
        x, y, z = (self.extents[a] for a in THREAD_AXES)
        if not self.is_warps:
            return x, y, z
        if x * y != WARP or x & (x - 1):
            raise CodegenError(f"{x} by {y} is no shape of the {WARP} lanes of a warp")
        return WARP, z, 1

    @property
    def cut_row(self) -> int:
        """Threads along x of the block as it is launched where a row of them is not whole warps, else 0."""
        row = self.block[0]
        return row if row % WARP else 0

    def coordinate(self, axis: LoopKind) -> str:
        """The C text of a thread's coordinate along an axis. Raises CodegenError as `block` does."""
        if not self.is_warps:
            return f"threadIdx.{axis.value[-1]}"
        lanes, _, _ = self.block
        if axis is LoopKind.THREAD_Z:
            return "threadIdx.y"
        x = self.extents[LoopKind.THREAD_X]
        return coordinate("threadIdx.x", bits(x, lanes // x)[axis is LoopKind.THREAD_Y])


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
