"""Float64 results of the lifted kernel with a tolerance for each element, once per shape and family."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.codegen.reference import render_reference
from evolve.codegen.reference_model import Reference, Role
from evolve.devices.sim.plain import run_plain
from evolve.scoring.task import Task, size_key
from evolve.scoring.tolerance import tolerance_factor
from evolve.workload.inputs import generate, numpy_dtype
from evolve.workload.model import Sizes

Arrays = dict[str, NDArray[Any]]

LONGEST_S = 300.0
KEPT_BYTES = 64 << 20
"""Of references kept in memory, those that were not used for longest dropped first."""


@dataclass(frozen=True)
class Expected:
    """For each output its value (float64; integers as they are) and the error allowed, element by element."""

    inputs: Arrays
    values: Arrays
    tolerances: Arrays

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(a.nbytes for group in (self.inputs, self.values, self.tolerances) for a in group.values())


class References:
    """References of one task, on demand; several threads may ask at a time."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.reference: Reference = render_reference(task.loosest)
        self._kept: OrderedDict[object, Expected] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def expected(
        self, sizes: Sizes, family: str, *, keep: bool = True, time_limit_s: float = LONGEST_S
    ) -> Expected:
        """Inputs and expected outputs.

        Raises EvolveError `sim.reference` when the reference itself fails or takes more CPU seconds.
        """
        key = (size_key(sizes), family)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        found = self._compute(sizes, family, time_limit_s)
        if keep and found.nbytes <= KEPT_BYTES:
            with self._lock:
                self._keep(key, found)
        return found

    def _keep(self, key: object, found: Expected) -> None:
        if key in self._kept:  # another thread was as quick
            return
        self._kept[key] = found
        self._bytes += found.nbytes
        while self._bytes > KEPT_BYTES:
            self._bytes -= self._kept.popitem(last=False)[1].nbytes

    def inputs(self, sizes: Sizes, family: str) -> Arrays:
        """All arrays at these sizes; those that the kernel only writes start as zeros."""
        made: Arrays = dict(generate(self.task.workload, sizes, family, self.task.seed))
        for a in self.task.workload.arrays:
            if a.name not in made:
                made[a.name] = np.zeros(a.shape(sizes), numpy_dtype(a.dtype))
        return made

    def _compute(self, sizes: Sizes, family: str, time_limit_s: float) -> Expected:
        inputs = self.inputs(sizes, family)
        arrays: Arrays = {}
        for a in self.reference.arrays:
            if a.role is Role.INPUT:
                arrays[a.name] = inputs[a.buffer]
            else:
                arrays[a.name] = np.zeros(inputs[a.buffer].shape, np.float64)
        scalars = {n: sizes[n] for n in self.reference.scalars}
        writable = {a.name for a in self.reference.arrays if a.role is not Role.INPUT}
        done = run_plain(
            self.reference.text,
            self.reference.function,
            arrays,
            scalars,
            writable=writable,
            order=[*(a.name for a in self.reference.arrays), *self.reference.scalars],
            time_limit_s=time_limit_s,
            memory_limit_mb=1024 + 4 * sum(a.nbytes for a in arrays.values()) // 2**20,
        )
        values = {a.buffer: done[a.name] for a in self.reference.arrays if a.role is Role.VALUE}
        held = {a.name: inputs[a.name] for a in self.task.workload.arrays if a.values is not None}
        factor = tolerance_factor(self.task.source.kernel, sizes, family, held)
        tolerances = {a.buffer: done[a.name] * factor for a in self.reference.arrays if a.role is Role.ERROR}
        return Expected(inputs, values, tolerances)
