"""The GPU's own counters for a champion, where Nsight Compute is installed and allowed to read them."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from evolve.codegen.rendered import concretise
from evolve.devices.cuda.alone import Run
from evolve.devices.cuda.profiler import Unavailable, profile
from evolve.devices.cuda.scratch import Scratch
from evolve.scoring.built import Built
from evolve.scoring.references import References
from evolve.scoring.task import Task
from evolve.scoring.timed import FAMILY, secret_seed
from evolve.sol.breakdown import Breakdown
from evolve.sol.counters import counted
from evolve.sol.gap import gap
from evolve.workload.inputs import numpy_dtype


class Profiling:
    """Counters at a task's first timed size. Inputs are made once; what cannot work is tried once.

    `unavailable` says why there are no counters, None while there are.
    """

    def __init__(self, task: Task, secret: int, ordinal: int = 0) -> None:
        self.task = task
        self.secret = secret
        self.ordinal = ordinal
        self.unavailable: Unavailable | None = None
        self._folder = Scratch()
        self._arrays: dict[str, Path | int] | None = None

    def counted(self, built: Built, breakdown: Breakdown) -> Breakdown:
        """The breakdown with what the GPU counted, or as it is where nothing can be counted.

        For new champions only: a start of Python under ncu and some replays of each launch, seconds in all,
        during which nothing may be timed on this GPU.
        """
        if self.unavailable is not None and self.unavailable.lasting:
            return breakdown
        _, launches = concretise(built.rendered, self.task.workload.timed[0])
        found = profile(built.cubin, Run(launches, self._inputs()), ordinal=self.ordinal)
        self.unavailable = found if isinstance(found, Unavailable) else None
        return breakdown if isinstance(found, Unavailable) else counted(breakdown, found)

    def close(self) -> None:
        """Removes the files."""
        self._folder.close()

    def _inputs(self) -> dict[str, Path | int]:
        if self._arrays is None:
            sizes = self.task.workload.timed[0]
            made = References(replace(self.task, seed=secret_seed(self.secret, "profiled")))
            inputs = made.inputs(sizes, FAMILY)
            self._arrays = {}
            for a in self.task.workload.arrays:
                if a.role == "out":
                    self._arrays[a.name] = prod(a.shape(sizes)) * numpy_dtype(a.dtype).itemsize
                    continue
                path = self._folder.path / f"{len(self._arrays)}.npy"
                np.save(path, inputs[a.name])
                self._arrays[a.name] = path
        return self._arrays


def headline(task: Task, built: Built, secret: int, ordinal: int = 0) -> dict[str, Any]:
    """What the GPU counted of a module at the first timed size, as JSON data.

    `state` is `counted`, or why nothing was, which `message` says more about. Then `limiter` and `near_limit`
    are Nsight Compute's verdict, `memory` and `compute` its two throughputs as fractions of the peak, `facts`
    the rest of what was counted.
    """
    profiling = Profiling(task, secret, ordinal)
    try:
        # The verdict rests on the counters alone, whatever the time is.
        found = profiling.counted(built, Breakdown(task.bounds[0].time_s, "measured"))
    finally:
        profiling.close()
    why = profiling.unavailable
    if why is not None:
        return {"state": why.kind, "message": why.message}
    report = gap(task.bounds[0], found)
    return {
        "state": "counted",
        "limiter": report.limiter,
        "near_limit": report.near_limit,
        "memory": report.memory,
        "compute": report.compute,
        "facts": dict(found.facts),
    }
