"""Contributions to few cells that memory names, as a histogram's: gathered by each block in shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from evolve.agents.expert.shape import Shape
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import program
from evolve.ir.affine import simplify
from evolve.ir.data import reads
from evolve.ir.expr import Const
from evolve.ir.kernel import Kernel
from evolve.ir.visit import local_buffers
from evolve.target.limits import STATIC_SHARED_BYTES, WARP

BLOCKS = 2
"""On each SM, enough to keep it busy: each merges its copy once."""
WARPS, WIDTH = 32, 4


def sketches(kernel: Kernel, shape: Shape) -> Iterator[Sketch]:
    """Programs for one parallel loop, all of whose work are reductions into one array of few cells."""
    cells = _cells(kernel, shape)
    if cells is None:
        return
    target, count, size = cells
    (i,) = shape.parallel
    step = WARP * WARPS * WIDTH
    part = -(-shape.trips[i] // (BLOCKS * shape.sms * step)) * step
    blocks = [f"split({i}, {part})", f"bind({i}.o, grid.x)", f"split({i}.i, {step})"]
    if count * size <= STATIC_SHARED_BYTES:
        yield Sketch(
            program(
                *blocks,
                f"split({i}.i.i, {WIDTH})",
                f"own = privatize({target}, at={i}.o)",
                f"vectorize({i}.i.i.i, {WIDTH})",
                f"bind({i}.i.i.o, thread.x)",
                f"split([own.init.0, own.all.0], {min(WARP * WARPS, count)})",
                "bind([own.init.0.i, own.all.0.i], thread.x)",
            ),
            "a block counts in a copy of its own",
            ("atomics", "latency"),
        )
    if count % WARPS == 0 and count * WARP * size <= STATIC_SHARED_BYTES:
        warp, lane = f"{i}.i.i.o", f"{i}.i.i.i.o"
        yield Sketch(
            program(
                *blocks,
                f"split({i}.i.i, {WARP * WIDTH})",
                f"split({i}.i.i.i, {WIDTH})",
                f"own = privatize({target}, at={i}.o, copies={lane})",
                f"vectorize({i}.i.i.i.i, {WIDTH})",
                f"bind([{lane}, own.init.copy], thread.x)",
                f"split([own.init.0, own.all.0], {WARPS})",
                f"bind([{warp}, own.init.0.i, own.all.0.i], thread.y)",
                "warp_reduce(own.all.copy)",
            ),
            "each lane counts in a column of its own",
            ("atomics", "bank_conflicts", "latency"),
        )


def _cells(kernel: Kernel, shape: Shape) -> tuple[str, int, int] | None:
    """The one array that is reduced into, its elements and their bytes."""
    written = {w.buffer for w in shape.writes}
    if len(shape.parallel) != 1 or shape.inner or len(written) != 1 or local_buffers(kernel.body):
        return None
    (target,) = written
    if not all(len(w.indices) == 1 and reads(w.indices[0]) for w in shape.writes):
        return None
    extents = [simplify(e) for e in kernel.buffer(target).extents]
    numbers = [int(e.value) for e in extents if isinstance(e, Const)]
    if len(numbers) != len(extents):
        return None
    return target, prod(numbers), kernel.buffer(target).dtype.size
