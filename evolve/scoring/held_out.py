"""Sizes that no candidate was ever checked or timed at, drawn from the run's secret, for the end of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal

import numpy as np

from evolve.codegen.rendered import concretise, concretise_variant
from evolve.devices.cuda.messages import Execute, Measure
from evolve.ir.errors import EvolveError
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Expr
from evolve.scoring.audit import doubt
from evolve.scoring.built import Built
from evolve.scoring.correctness import at_sizes
from evolve.scoring.small_sizes import wrong
from evolve.scoring.task import Task, make_task, size_key
from evolve.scoring.timed import FAMILY, ORIGINAL_LIMIT_S, Preparation, secret_seed
from evolve.workload.gates import gates, works
from evolve.workload.model import Sizes
from evolve.workload.pitches import pitches

_STEPS = (1, 4, 32, 64, 128, 256)
"""Guards ask for multiples; a plain number would hardly ever be one."""
_TRIES = 2000
_SMALLEST, _LARGEST = 0.2, 1.2
"""Of the timed sizes."""


_ABOUT_THE_SIZES = ("baseline-failed", "bad-values", "sim.reference")
"""Errors that say that nothing can be judged at these sizes: the original fails there, no arrays are such as
the kernel asks for, the reference on the host takes too long."""

Verdict = Literal["right", "failed", "doubted", "not judged"]


@dataclass(frozen=True)
class HeldOut:
    """What a module does at one size: which variant runs (-1: the original), and a verdict.

    verdict     right; failed: wrong results, or it does not run; doubted: right, but its time is not to be
                believed; not judged: nothing tells what is right there
    message     why it is not right
    time_s, original_s   interleaved medians, when it is right
    fraction    attainable time / time
    """

    sizes: Sizes
    variant: int
    verdict: Verdict = "right"
    message: str = ""
    time_s: float | None = None
    original_s: float | None = None
    fraction: float | None = None

    @property
    def speedup(self) -> float | None:
        """The original's time over this one's."""
        return self.original_s / self.time_s if self.original_s and self.time_s else None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "sizes": dict(self.sizes),
            "variant": self.variant,
            "verdict": self.verdict,
            "message": self.message,
            "time_us": None if self.time_s is None else self.time_s * 1e6,
            "original_us": None if self.original_s is None else self.original_s * 1e6,
            "speedup": self.speedup,
            "fraction": self.fraction,
        }


def draw(task: Task, guards: Sequence[Expr], secret: int, count: int) -> list[Sizes]:
    """Up to `count` sizes near the timed ones that satisfy a guard where there are any, and are new.

    Like the timed ones they lie where the kernel stores something, and rows do not overlap: nothing else can
    be judged. Where the guards leave no other sizes these are the timed ones: their inputs will be new.
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
        if not _satisfies(guards, made):
            continue
        if not apart or pitches(kernel, made) == made:
            known.add(size_key(made))
            found.append(made)
    return found or [s for s in task.workload.timed if _satisfies(guards, s)][:count]


def _satisfies(guards: Sequence[Expr], sizes: Sizes) -> bool:
    return not guards or any(bool(evaluate(g, sizes)) for g in guards)


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
    try:
        found = preparation.family(f"held-out-{number}", sizes, FAMILY, (original.cubin, own))
    except EvolveError as e:
        if e.code not in _ABOUT_THE_SIZES:
            raise
        return HeldOut(sizes, variant, "not judged", e.message)
    if found is None:
        return HeldOut(sizes, variant, "not judged", "nothing tells what is right there")
    key, expected = found
    worker, outputs, inouts = preparation.worker, task.outputs, task.inouts
    digests: list[Mapping[str, int]] = []
    for k, (cubin, these) in enumerate(((built.cubin, launches), (original.cubin, own))):
        done = worker.execute(
            Execute(cubin, these, key, outputs, inouts, expected, fetch=False, limit_s=ORIGINAL_LIMIT_S)
        )
        failed = wrong(done, at_sizes(sizes))
        if failed is not None and k == 1:
            return HeldOut(sizes, variant, "not judged", f"the kernel as given fails: {failed.message}")
        if failed is not None:
            return HeldOut(sizes, variant, "failed", failed.message)
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
            limit_s=ORIGINAL_LIMIT_S,
            batch=0,
        )
    )
    if measured.fault is not None:
        return HeldOut(sizes, variant, "failed", f"{at_sizes(sizes)}: {measured.fault.message}")
    there = replace(task.workload, timed=(sizes,))
    limit = make_task(task.source, there, task.profile).bounds[0]
    bad = doubt(measured, limit, at_sizes(sizes))
    if bad is not None:
        verdict: Verdict = "failed" if bad.status == "incorrect" else "doubted"
        return HeldOut(sizes, variant, verdict, bad.message)
    time_s, original_s = (median(s) * 1e-6 for s in measured.samples_us)
    return HeldOut(sizes, variant, "right", "", time_s, original_s, limit.time_s / time_s)
