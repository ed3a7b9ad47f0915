"""Any parallel loops: smaller blocks, so that all multiprocessors work, and loads ahead of their use."""

from __future__ import annotations

from collections.abc import Iterator

from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.shape import Shape
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import call, program

THREADS = (32, 64, 128, 256)


def sketches(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """A thread for each iteration of the parallel loops, for kernels that no other family knows."""
    if not shape.parallel or len(shape.parallel) > 3:
        return
    *outer, last = shape.parallel
    sweeps = [x.name for x in shape.inner if not any(y.depth > x.depth for y in shape.inner)]
    for ahead in (8, 4, 16, 1):
        for threads in THREADS:
            binds = on_grid(
                [(x, shape.trips[x]) for x in outer], (f"{last}.o", -(-shape.trips[last] // threads))
            )
            if binds is None:
                continue
            yield Sketch(
                program(
                    f"split({last}, {threads})",
                    *binds,
                    f"bind({last}.i, thread.x)",
                    call("unroll", sweeps, ahead) if ahead > 1 else None,
                ),
                f"blocks of {threads}, {ahead} iterations of the sweeps at once",
                ("idle_sms", "latency", "tail"),
            )
