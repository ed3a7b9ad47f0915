"""Sizes that no candidate was ever checked or timed at, drawn from the run's secret, for the end of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from evolve.codegen.rendered import concretise, concretise_variant
from evolve.devices.cuda.messages import Execute, Measure
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Expr
from evolve.scoring.audit import doubt
from evolve.scoring.correctness import at_sizes
from evolve.scoring.small_sizes import Built, wrong
from evolve.scoring.task import Task, size_key
from evolve.scoring.timed import FAMILY, ORIGINAL_LIMIT_S, Preparation, secret_seed
from evolve.sol.bound import bound
from evolve.workload.gates import gates, works
from evolve.workload.model import Sizes
from evolve.workload.pitches import pitches

_STEPS = (1, 4, 32, 64, 128, 256)
"""Guards ask for multiples; a plain number would hardly ever be one."""
_TRIES = 2000
_SMALLEST, _LARGEST = 0.2, 1.2
"""Of the timed sizes."""


@dataclass(frozen=True)
class HeldOut:
    """What a module does at one size: which variant runs (-1: the original), why it is wrong if it is.

    `time_s` and `original_s` are interleaved medians, None when it is wrong.
    """

    sizes: Sizes
    variant: int
    message: str = ""
    time_s: float | None = None
    original_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "sizes": dict(self.sizes),
            "variant": self.variant,
            "message": self.message,
            "time_us": None if self.time_s is None else self.time_s * 1e6,
            "original_us": None if self.original_s is None else self.original_s * 1e6,
        }


def draw(task: Task, guards: Sequence[Expr], secret: int, count: int) -> list[Sizes]:
    """Up to `count` sizes near the timed ones that satisfy a guard where there are any, and are new.

    Like the timed ones they lie where the kernel stores something, and rows do not overlap: nothing else can
    be judged.
    """
    rng = np.random.default_rng(secret_seed(secret, "held out"))
    known = {size_key(s) for s in (*task.workload.timed, *task.workload.check)}
    known |= {size_key(s) for g in guards for s in task.shapes_for(g)}
    kernel = task.source.kernel
    names = [s.name for s in kernel.scalars if s.is_size]
    gate, apart = gates(kernel), all(pitches(kernel, s) == s for s in task.workload.timed)
    most = _LARGEST * max(task.workload.bytes_at(s) for s in task.workload.timed)
    found: list[Sizes] = []
    for _ in range(_TRIES):
        if len(found) >= count:
            break
        base = task.workload.timed[rng.integers(len(task.workload.timed))]
        made = dict(base)
        for n in names:
            # A size that a guard fixes stays as it is in half of the draws.
            if rng.random() < 0.5:
                step = int(rng.choice(_STEPS))
                drawn = int(base[n] * rng.uniform(_SMALLEST, _LARGEST)) // step * step
                made[n] = max(1, drawn)
        if size_key(made) in known or task.workload.bytes_at(made) > most or not works(gate, made):
            continue
        if guards and not any(bool(evaluate(g, made)) for g in guards):
            continue
        if not apart or pitches(kernel, made) == made:
            known.add(size_key(made))
            found.append(made)
    return found


def examine(
    task: Task, preparation: Preparation, built: Built, original: Built, sizes: Sequence[Sizes]
) -> tuple[HeldOut, ...]:
    """How a module does at these sizes on the timed family, beside the original.

    For the end of a run: what it says must reach nobody that proposes candidates.
    """
    return tuple(_examine(task, preparation, built, original, i, s) for i, s in enumerate(sizes))


def _examine(
    task: Task, preparation: Preparation, built: Built, original: Built, number: int, sizes: Sizes
) -> HeldOut:
    variant, launches = concretise(built.rendered, sizes)
    own = concretise_variant(original.rendered, -1, sizes)
    found = preparation.family(f"held-out-{number}", sizes, FAMILY, (original.cubin, own))
    if found is None:
        return HeldOut(sizes, variant, "not judged: nothing tells what is right there")
    key, expected = found
    worker, outputs, inouts = preparation.worker, task.outputs, task.inouts
    digests: list[Mapping[str, int]] = []
    for cubin, these in ((built.cubin, launches), (original.cubin, own)):
        done = worker.execute(
            Execute(cubin, these, key, outputs, inouts, expected, fetch=False, limit_s=ORIGINAL_LIMIT_S)
        )
        failed = wrong(done, at_sizes(sizes))
        if failed is not None:
            return HeldOut(sizes, variant, failed.message)
        digests.append(done.digests)
    known = tuple((d,) for d in digests)
    measured = worker.measure(
        Measure(
            (built.cubin, original.cubin),
            (launches, own),
            (key,),
            outputs,
            inouts,
            known,
            (expected,),
            batch=0,
        )
    )
    if measured.fault is not None:
        return HeldOut(sizes, variant, measured.fault.message)
    bad = doubt(
        measured,
        bound(task.source.kernel, sizes, task.profile, task.workload.numerics),
        at_sizes(sizes),
    )
    if bad is not None:
        return HeldOut(sizes, variant, bad.message)
    times = [median(s) * 1e-6 for s in measured.samples_us]
    return HeldOut(sizes, variant, "", *times)
