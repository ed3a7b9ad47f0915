"""Times to a score, and what no honest kernel can beat."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

from evolve.scoring.task import Task

DRAM_FLOOR = 0.95
"""Of the hard DRAM bound: the device's own memory clock gives 4814 GB/s where the data sheet says 4800."""
COMPUTE_FLOOR = 0.92
"""Of the hard arithmetic bound: data sheets state tensor peaks at a lower clock than the boost clock."""


def fitness(task: Task, times: Sequence[float]) -> float:
    """Geometric mean over the timed shapes of attainable time / time (seconds)."""
    ratios = [b.time_s / t for b, t in zip(task.bounds, times, strict=True)]
    return exp(sum(log(r) for r in ratios) / len(ratios))


def beats_physics(task: Task, times: Sequence[float]) -> str | None:
    """Why these times cannot be: a sentence for the first shape that is faster than its hard bound allows."""
    for sizes, b, t in zip(task.workload.timed, task.bounds, times, strict=True):
        floor = DRAM_FLOOR if b.hard_binding == "dram" else COMPUTE_FLOOR
        if t < floor * b.hard_time_s:
            at = ", ".join(f"{n}={v}" for n, v in sizes.items())
            return (
                f"at {at} it would take {t * 1e6:.1f} us, below the hard {b.hard_binding} bound "
                f"of {b.hard_time_s * 1e6:.1f} us"
            )
    return None
