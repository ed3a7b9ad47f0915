"""Whether a kernel is a matrix product in the wide sense, whose traffic has a lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from evolve.features.model import AccessInfo, BufferUse, LoopInfo


def products(
    loops: Sequence[LoopInfo], accesses: Sequence[AccessInfo], buffers: Sequence[BufferUse]
) -> float:
    """Multiply-adds of a product of two arrays; 0 when the kernel is none.

    Two operands and a result, each indexed injectively by its loops, and every loop used by two of the three
    (or by all: a batch). A convolution is none: its input has fewer elements than its loops have iterations.
    """
    written = {a.buffer: _moving(a) for a in accesses if a.write}
    read = {(a.buffer, _moving(a)) for a in accesses if not a.write and a.buffer not in written}
    if len(written) != 1 or len(read) != 2 or len({name for name, _ in read}) != 2:
        return 0.0
    ((result, over),) = written.items()
    sides = [over, *(moving for _, moving in read)]
    trips = {loop.name: loop.trips for loop in loops}
    elements = {b.buffer: max(b.read_elements, b.written_elements) for b in buffers if b.exact}
    for name, side in [(result, over), *read]:
        if side is None or prod(trips[loop] for loop in side) != elements.get(name):
            return 0.0
    used = [s for s in sides if s is not None]
    every = frozenset[str]().union(*used)
    if any(sum(loop in s for s in used) < 2 for loop in every):
        return 0.0
    return prod(trips[loop] for loop in every)


def _moving(access: AccessInfo) -> frozenset[str] | None:
    """The loops that change its address; None when that is not known."""
    if any(stride is None for _, stride in access.strides):
        return None
    return frozenset(name for name, stride in access.strides if stride)
