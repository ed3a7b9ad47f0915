"""Times to a score, and what no honest kernel can beat."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

from evolve.scoring.task import Task
from evolve.sol.bound import Bound

DRAM_FLOOR = 0.95
"""Of the hard DRAM bound: the device's own memory clock gives 4814 GB/s where the data sheet says 4800."""
COMPUTE_FLOOR = 0.92
"""Of the hard arithmetic bound: data sheets state tensor peaks at a lower clock than the boost clock."""


def fitness(task: Task, times: Sequence[float]) -> float:
    """Geometric mean over the timed shapes of attainable time / time (seconds)."""
    ratios = [b.time_s / t for b, t in zip(task.bounds, times, strict=True)]
    return exp(sum(log(r) for r in ratios) / len(ratios))


def floor_s(bound: Bound) -> tuple[float, str]:
    """The shortest time that is believed, seconds, and the term of the hard bound that sets it.

    L2 is cold, so compulsory reads come from DRAM even when everything fits L2; what L2 can hold of the
    writes is not in the hard bound.
    """
    floors = {
        name: t * (DRAM_FLOOR if name == "dram" else COMPUTE_FLOOR) for name, t in bound.hard_terms.items()
    }
    if not floors:
        return 0.0, ""
    binding = max(floors, key=lambda n: floors[n])
    return floors[binding], binding


def beats_physics(task: Task, times: Sequence[float]) -> str | None:
    """Why these times cannot be: a sentence for the first shape that is faster than its hard bound allows."""
    for sizes, bound, t in zip(task.workload.timed, task.bounds, times, strict=True):
        floor, binding = floor_s(bound)
        if t < floor:
            at = ", ".join(f"{n}={v}" for n, v in sizes.items())
            return (
                f"at {at} it would take {t * 1e6:.1f} us, and no correct run takes less than "
                f"{floor * 1e6:.1f} us (hard {binding} bound)"
            )
    return None
