"""Correctness on a GPU at sizes whose results are compared on the host, element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.codegen.launch import ConcreteLaunch
from evolve.codegen.rendered import Rendered, concretise, concretise_variant
from evolve.devices.compare import poisoned, worst_error
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import Execute, Executed, Fault, SetArrays
from evolve.ir.errors import EvolveError
from evolve.scoring.audit import Doubt
from evolve.scoring.correctness import TOO_SMALL_LAUNCH, Plan, at_sizes, misses
from evolve.scoring.references import References
from evolve.scoring.task import Status, Task, size_key
from evolve.workload.model import Sizes

LIMIT_S = 10.0

_STATUS: dict[str, Status] = {
    "load": "compile_failed",
    "launch": "compile_failed",
    "memory": "compile_failed",
    "fault": "incorrect",
    "timeout": "quarantined",
    "lost": "quarantined",
}


@dataclass(frozen=True)
class Built:
    """A module as text and machine code."""

    rendered: Rendered
    cubin: bytes


class SmallSizes:
    """Checks images of one task, remembering which elements the original writes."""

    def __init__(self, task: Task, references: References, worker: CudaWorker, original: Built) -> None:
        self.task = task
        self.references = references
        self.worker = worker
        self._original = original
        self._written: dict[object, dict[str, NDArray[Any]]] = {}

    def check(self, built: Built, plan: Plan, is_original: bool) -> Doubt | None:
        """The first thing that is wrong with a module on this plan. Raises EvolveError as CudaWorker."""
        ran: set[int] = set()  # and stored something
        for sizes, family in plan:
            variant, launches = concretise(built.rendered, sizes)
            if not launches:
                continue  # an empty domain: nothing runs and nothing is written
            failed = self._check_at(built.cubin, launches, sizes, family, is_original)
            if failed is not None:
                return failed
            if self._stores(sizes, family):
                ran.add(variant)
        wanted = {-1} if is_original else set(range(len(built.rendered.variants)))
        if wanted - ran:
            first = min(wanted - ran)
            who = f"variant {first + 1}" if first >= 0 else "the kernel"
            what = f"not judged: no sizes were found at which {who} runs and stores anything"
            return Doubt("quarantined", what)
        return None

    def _check_at(
        self, cubin: bytes, launches: tuple[ConcreteLaunch, ...], sizes: Sizes, family: str, is_original: bool
    ) -> Doubt | None:
        expected = self.references.expected(sizes, family)
        at = at_sizes(sizes)
        self.worker.set_arrays(SetArrays("check", expected.inputs))
        must = self._must_write(sizes, family)
        done = self._execute(cubin, launches)
        if done.fault is not None:
            return of_fault(done.fault, at)
        if done.broken_guards or done.changed:
            where = ", ".join({*done.broken_guards, *done.changed})
            return Doubt("incorrect", f"{at}: it writes outside its outputs (found in or around {where})")
        for name in self.task.outputs:
            if is_original and misses(expected, name, must[name]):
                return Doubt("incorrect", f"{at}: {TOO_SMALL_LAUNCH.format(name)}")
            wrote = ~poisoned(done.outputs[name], self.worker.poison)
            if name not in self.task.inouts and not np.array_equal(wrote, must[name]):
                what = f"{at}: it does not write the elements of {name} that the original writes"
                return Doubt("incorrect", what)
            keep = must[name]
            error = worst_error(
                done.outputs[name][keep], expected.values[name][keep], expected.tolerances[name][keep]
            )
            if error > 1.0:
                what = f"{at}, {family} inputs: {name} is off by {error:.3g} times the tolerance"
                return Doubt("incorrect", what)
        return None

    def _stores(self, sizes: Sizes, family: str) -> bool:
        """Whether a right result shows there: else it could not be told from a kernel that does nothing."""
        expected, must = self.references.expected(sizes, family), self._must_write(sizes, family)
        return any(
            bool((expected.values[n] != expected.inputs[n]).any()) if n in self.task.inouts else must[n].any()
            for n in self.task.outputs
        )

    def _execute(self, cubin: bytes, launches: tuple[ConcreteLaunch, ...]) -> Executed:
        return self.worker.execute(
            Execute(cubin, launches, "check", self.task.outputs, self.task.inouts, limit_s=LIMIT_S)
        )

    def _must_write(self, sizes: Sizes, family: str) -> dict[str, NDArray[Any]]:
        """Elements that the original writes on the resident check arrays (all of an in-out array)."""
        key = (size_key(sizes), family)
        if key not in self._written:
            rendered, cubin = self._original.rendered, self._original.cubin
            done = self._execute(cubin, concretise_variant(rendered, -1, sizes))
            if done.error:
                raise EvolveError(
                    "baseline-failed", f"the kernel as given fails at {at_sizes(sizes)}: {done.error}"
                )
            self._written[key] = {
                n: np.ones(a.shape, bool) if n in self.task.inouts else ~poisoned(a, self.worker.poison)
                for n, a in done.outputs.items()
            }
        return self._written[key]


def of_fault(fault: Fault, at: str) -> Doubt:
    """What a fault of the GPU makes of its candidate."""
    return Doubt(_STATUS.get(fault.kind, "quarantined"), f"{at}: {fault.message}")


def wrong(done: Executed, at: str) -> Doubt | None:
    """What is wrong with a run at a timed size."""
    if done.fault is not None:
        return of_fault(done.fault, at)
    if done.broken_guards or done.changed:
        where = ", ".join({*done.broken_guards, *done.changed})
        return Doubt("incorrect", f"{at}: it writes outside its outputs (in or around {where})")
    for name, c in done.compared.items():
        if c.wrong:
            what = f"{c.wrong} elements of {name} are wrong, the worst by {c.worst:.3g} tolerances"
            return Doubt("incorrect", f"{at}: {what}")
    return None
