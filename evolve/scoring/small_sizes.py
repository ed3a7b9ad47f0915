"""Correctness on a GPU at small sizes: many shapes and input families, resident with what is right there."""

from __future__ import annotations

import os
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.codegen.launch import ConcreteLaunch
from evolve.codegen.rendered import concretise, concretise_variant
from evolve.devices.compare import bounds, left_alone, poisoned
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import Execute, Executed, Fault, SetArrays, SetExpected
from evolve.ir.errors import EvolveError
from evolve.scoring.audit import Doubt
from evolve.scoring.built import Built
from evolve.scoring.correctness import TOO_SMALL_LAUNCH, Plan, at_sizes, misses
from evolve.scoring.references import Expected, References
from evolve.scoring.task import Status, Task, size_key
from evolve.workload.model import Sizes

LIMIT_S = 10.0
KEPT_BYTES = 512 << 20
"""On the GPU, and as much twice over on the host; sets not used for longest are given up first."""

_STATUS: dict[str, Status] = {
    "load": "compile_failed",
    "launch": "compile_failed",
    "memory": "compile_failed",
    "fault": "incorrect",
    "timeout": "quarantined",
    "lost": "quarantined",
}


@dataclass(frozen=True)
class _Set:
    """One size and family, resident.

    bytes    of all arrays
    left     for each output, how many elements the original does not write
    stores   whether a right result shows there: else it could not be told from a kernel that does nothing
    missed   an output of which the original leaves elements alone that the kernel computes
    """

    key: str
    expected: str
    bytes: int
    left: dict[str, int]
    stores: bool
    missed: str | None


class SmallSizes:
    """Checks images of one task. `references` must be those of its secret."""

    def __init__(self, task: Task, references: References, worker: CudaWorker, original: Built) -> None:
        self.task = task
        self.references = references
        self.worker = worker
        self._original = original
        self._sets: OrderedDict[object, _Set] = OrderedDict()
        self._bytes = 0
        self._made = 0

    def check(self, built: Built, plan: Plan, is_original: bool) -> Doubt | None:
        """The first thing that is wrong with a module on this plan. Raises EvolveError as CudaWorker."""
        self._prepare(plan)
        ran: set[int] = set()  # and stored something
        for sizes, family in plan:
            variant, launches = concretise(built.rendered, sizes)
            if not launches:
                continue  # an empty domain: nothing runs and nothing is written
            on = self._set(sizes, family)
            if is_original and on.missed is not None:
                return Doubt("incorrect", f"{at_sizes(sizes)}: {TOO_SMALL_LAUNCH.format(on.missed)}")
            failed = self._judge(self._execute(built.cubin, launches, on), on, sizes, family)
            if failed is not None:
                return failed
            if on.stores:
                ran.add(variant)
        wanted = {-1} if is_original else set(range(len(built.rendered.variants)))
        if wanted - ran:
            first = min(wanted - ran)
            who = f"variant {first + 1}" if first >= 0 else "the kernel"
            what = f"not judged: no sizes were found at which {who} runs and stores anything"
            return Doubt("quarantined", what)
        return None

    def _judge(self, done: Executed, on: _Set, sizes: Sizes, family: str) -> Doubt | None:
        at = at_sizes(sizes)
        if done.fault is not None:
            return of_fault(done.fault, at)
        for name, left in on.left.items():
            if done.left[name] > left:
                what = f"it does not write all elements of {name} that the original writes"
                return Doubt("incorrect", f"{at}, {family} inputs: {what}")
        return wrong(done, f"{at}, {family} inputs")

    def _execute(self, cubin: bytes, launches: tuple[ConcreteLaunch, ...], on: _Set) -> Executed:
        outputs, inouts = self.task.outputs, self.task.inouts
        return self.worker.execute(
            Execute(cubin, launches, on.key, outputs, inouts, on.expected, fetch=False, limit_s=LIMIT_S)
        )

    # ---- resident sets

    def _prepare(self, plan: Plan) -> None:
        """Makes resident what this plan needs for the first time; references run side by side on the host."""
        new = [(s, f) for s, f in plan if (size_key(s), f) not in self._sets]
        if len(new) > 1:
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                for (sizes, family), e in zip(
                    new, pool.map(lambda run: self.references.expected(*run), new), strict=True
                ):
                    self._keep(sizes, family, self._resident(sizes, e))

    def _set(self, sizes: Sizes, family: str) -> _Set:
        found = self._sets.get((size_key(sizes), family))
        if found is None:
            found = self._resident(sizes, self.references.expected(sizes, family))
            self._keep(sizes, family, found)
        self._sets.move_to_end((size_key(sizes), family))
        return found

    def _keep(self, sizes: Sizes, family: str, made: _Set) -> None:
        self._sets[size_key(sizes), family] = made
        self._bytes += made.bytes
        while self._bytes > KEPT_BYTES and len(self._sets) > 1:
            _, old = self._sets.popitem(last=False)
            self._bytes -= old.bytes
            self.worker.drop((old.key, old.expected))

    def _resident(self, sizes: Sizes, e: Expected) -> _Set:
        """Makes one, with what the original writes there. Raises EvolveError `baseline-failed`."""
        self._made += 1
        key, expected = f"check:{self._made}", f"expected:check:{self._made}"
        self.worker.set_arrays(SetArrays(key, e.inputs))
        launches = concretise_variant(self._original.rendered, -1, sizes)
        outputs, inouts = self.task.outputs, self.task.inouts
        done = self.worker.execute(
            Execute(self._original.cubin, launches, key, outputs, inouts, limit_s=LIMIT_S)
        )
        if done.error:
            self.worker.drop((key,))
            what = f"the kernel as given fails at {at_sizes(sizes)}: {done.error}"
            raise EvolveError("baseline-failed", what)
        unwritten = {
            n: np.zeros(a.shape, bool) if n in inouts else poisoned(a, self.worker.poison)
            for n, a in done.outputs.items()
        }
        self.worker.set_expected(SetExpected(expected, _allowed(e, done.outputs, unwritten)))
        missed = next((n for n, left in unwritten.items() if misses(e, n, ~left)), None)
        stores = any(
            bool((e.values[n] != e.inputs[n]).any()) if n in inouts else not left.all()
            for n, left in unwritten.items()
        )
        left = {n: int(x.sum()) for n, x in unwritten.items() if n not in inouts}
        return _Set(key, expected, sum(a.nbytes for a in e.inputs.values()), left, stores, missed)


def _allowed(
    e: Expected, written: dict[str, NDArray[Any]], unwritten: dict[str, NDArray[Any]]
) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """For each output the lowest and highest right values; what the original leaves alone must stay."""
    found = {}
    for name, a in written.items():
        low, high = bounds(e.values[name], e.tolerances[name], a.dtype)
        low, high = low.reshape(a.shape), high.reshape(a.shape)
        left_alone(low, high, unwritten[name])
        found[name] = low, high
    return found


def of_fault(fault: Fault, at: str) -> Doubt:
    """What a fault of the GPU makes of its candidate."""
    return Doubt(_STATUS.get(fault.kind, "quarantined"), f"{at}: {fault.message}")


def wrong(done: Executed, at: str) -> Doubt | None:
    """What is wrong with a run that was compared on the GPU."""
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
