"""One element of one input changed: what depends on it must change, and nothing else.

A result that was kept from other inputs, or made from a sample of them, is as it was before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evolve.codegen.launch import ConcreteLaunch
from evolve.codegen.rendered import concretise, concretise_variant
from evolve.devices.compare import poisoned, worst_error
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import Execute, Executed, SetArrays
from evolve.ir.errors import EvolveError
from evolve.scoring.built import Built
from evolve.scoring.correctness import at_sizes
from evolve.scoring.references import Arrays, Expected, References
from evolve.scoring.small_sizes import of_fault, wrong
from evolve.scoring.task import Task
from evolve.scoring.timed import FAMILY, secret_seed
from evolve.workload.model import ArraySpec, Sizes

LIMIT_S = 10.0
REFERENCE_LIMIT_S = 60.0
_KEY = "perturbed"
_STEP = 5
"""What is added to a float, far more than rounding."""

Verdict = Literal["right", "failed", "not judged"]


@dataclass(frozen=True)
class Perturbed:
    """What became of changing element `element` (in the order of memory) of `array`.

    affected   elements of the outputs that must change by more than their tolerances
    """

    sizes: Sizes
    variant: int
    array: str
    element: int
    affected: int
    verdict: Verdict = "right"
    message: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "sizes": dict(self.sizes),
            "variant": self.variant,
            "array": self.array,
            "element": self.element,
            "affected": self.affected,
            "verdict": self.verdict,
            "message": self.message,
        }


class OneChanged(References):
    """References of the same task on inputs of which one element is another."""

    def __init__(self, task: Task, array: str, element: int) -> None:
        super().__init__(task)
        self.array = array
        self.element = element

    def inputs(self, sizes: Sizes, family: str) -> Arrays:
        """As those of `References`, one element changed."""
        made = super().inputs(sizes, family)
        made[self.array] = changed(made[self.array], self.element)
        return made


def changed(a: NDArray[Any], element: int) -> NDArray[Any]:
    """A copy with another value at one place: of integers, which may be subscripts, one that `a` holds.

    The same values if all integers are equal.
    """
    out = np.array(a)
    flat = out.reshape(-1)
    old = flat[element]
    if a.dtype == np.bool_:
        flat[element] = not old
    elif a.dtype.kind == "f":
        flat[element] = old + a.dtype.type(_STEP)
    else:
        others = np.unique(flat[flat != old])
        if others.size:
            flat[element] = others[0]
    return out


def perturb(
    task: Task, worker: CudaWorker, built: Built, original: Built, sizes: Sizes, secret: int
) -> Iterator[Perturbed]:
    """Changes one element, drawn from the secret, of each array that the kernel reads; a verdict for each.

    It has run on the unchanged arrays before. Raises EvolveError as CudaWorker.
    """
    of = References(_with_seed(task, secret))
    variant, launches = concretise(built.rendered, sizes)
    own = concretise_variant(original.rendered, -1, sizes)
    before = _reference(of, sizes)
    if before is None:
        return
    _on(task, worker, before, (built.cubin, launches))  # so that there is something to remember
    for a in task.workload.arrays:
        size = before.inputs[a.name].size
        if not _may_change(a) or not size:
            continue
        element = int(np.random.default_rng(secret_seed(secret, _KEY, a.name)).integers(size))
        other = OneChanged(of.task, a.name, element)
        after = _reference(other, sizes)
        if after is None:
            continue
        affected = sum(_differ(before, after, n) for n in task.outputs)
        verdict, message = _judge(task, worker, (built.cubin, launches), (original.cubin, own), after)
        if message:
            message = f"{at_sizes(sizes)}, element {element} of {a.name} changed: {message}"
        yield Perturbed(sizes, variant, a.name, element, affected, verdict, message)


def _reference(of: References, sizes: Sizes) -> Expected | None:
    """None where it takes too long, as it did not when a candidate was checked: the host is busy."""
    try:
        return of.expected(sizes, FAMILY, time_limit_s=REFERENCE_LIMIT_S)
    except EvolveError as e:
        if e.code != "sim.reference":
            raise
        return None


def _may_change(a: ArraySpec) -> bool:
    """Whether the kernel reads the array, and is still what it was proved on when one element is another:
    row pointers must not step down."""
    return a.role != "out" and (a.values is None or not a.values.nondecreasing)


def _with_seed(task: Task, secret: int) -> Task:
    return replace(task, seed=secret_seed(secret, _KEY))


def _differ(before: Expected, after: Expected, name: str) -> int:
    with np.errstate(invalid="ignore"):
        apart = np.abs(after.values[name].astype(np.float64) - before.values[name].astype(np.float64))
        return int((apart > before.tolerances[name] + after.tolerances[name]).sum())


Image = tuple[bytes, tuple[ConcreteLaunch, ...]]


def _judge(
    task: Task, worker: CudaWorker, candidate: Image, original: Image, expected: Expected
) -> tuple[Verdict, str]:
    done, own = _on(task, worker, expected, candidate, original)
    if own.fault is not None:
        return "not judged", f"the kernel as given fails: {of_fault(own.fault, 'here').message}"
    failed = wrong(done, "here")
    if failed is not None:
        return "failed", failed.message
    for name in task.outputs:
        left, must = (poisoned(x.outputs[name], worker.poison) for x in (done, own))
        if name not in task.inouts and not np.array_equal(left, must):
            return "failed", f"it does not write the elements of {name} that the original writes"
        keep = np.ones(must.shape, bool) if name in task.inouts else ~must
        error = worst_error(
            done.outputs[name][keep],
            expected.values[name].reshape(keep.shape)[keep],
            expected.tolerances[name].reshape(keep.shape)[keep],
        )
        if error > 1.0:
            return "failed", f"{name} is off by {error:.3g} times the tolerance"
    return "right", ""


def _on(task: Task, worker: CudaWorker, expected: Expected, *images: Image) -> list[Executed]:
    """What each image leaves, run on the same arrays."""
    worker.set_arrays(SetArrays(_KEY, expected.inputs))
    try:
        return [
            worker.execute(Execute(cubin, launches, _KEY, task.outputs, task.inouts, limit_s=LIMIT_S))
            for cubin, launches in images
        ]
    finally:
        worker.drop((_KEY,))
