"""The shape of a launch: threads of a block by axis, and the grid axes in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evolve.ir.kernel import Kernel
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Block, For
from evolve.ir.types import LoopKind
from evolve.ir.visit import walk
from evolve.legality.instances import ModelError, constant_at

THREAD_AXES = (LoopKind.THREAD_X, LoopKind.THREAD_Y, LoopKind.THREAD_Z)
GRID_AXES = (LoopKind.GRID_X, LoopKind.GRID_Y, LoopKind.GRID_Z)


@dataclass(frozen=True)
class Geometry:
    """Of a launch: threads of a block by axis, and the grid axes in use."""

    threads: Mapping[LoopKind, int]
    grid: tuple[LoopKind, ...]


def geometry(kernel: Kernel, body: Block) -> Geometry:
    """Of the launch with this body. Raises ModelError E-THREADS for a thread loop of unknown extent."""
    threads = dict.fromkeys(THREAD_AXES, 1)
    kinds: set[LoopKind] = set()
    for site in walk(body):
        loop = site.stmt
        if not isinstance(loop, For):
            continue
        kinds.add(loop.kind)
        if loop.kind.is_thread:
            n = constant_at(loop.extent, ranges_at(kernel, site.path))
            if n is None:
                raise ModelError("E-THREADS", f"thread loop {loop.var} has no constant extent")
            threads[loop.kind] = max(threads[loop.kind], n)
    return Geometry(threads, tuple(k for k in GRID_AXES if k in kinds))
