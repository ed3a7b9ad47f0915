"""Sizes that no candidate was ever checked or timed at, drawn from the run's secret, for the end of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal

import numpy as np

from evolve.codegen.rendered import concretise, concretise_variant
from evolve.devices.cuda.messages import Execute, Executed, Measure
from evolve.features.extract import extract
from evolve.ir.errors import EvolveError
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Expr
from evolve.scoring.audit import doubt
from evolve.scoring.built import Built
from evolve.scoring.correctness import at_sizes
from evolve.scoring.small_sizes import wrong
from evolve.scoring.task import Task, make_task, size_key
from evolve.scoring.timed import FAMILY, ORIGINAL_LIMIT_S, Original, Preparation, secret_seed
from evolve.workload.gates import gates, works
from evolve.workload.model import Sizes
from evolve.workload.parameters import settings
from evolve.workload.pitches import pitches
from evolve.workload.structure import structure

_STEPS = (1, 4, 32, 64, 128, 256)
"""Guards ask for multiples; a plain number would hardly ever be one."""
_TRIES = 2000
_SMALLEST, _LARGEST = 0.2, 1.2
"""Of the timed sizes."""
BEYOND_L2 = 4
"""One size has at least so many times the bytes of L2."""
_MOST_INSTANCES = 2.0**38
"""Of statements at that size: the original may take a second there."""


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
    families    of inputs on which it is right
    """

    sizes: Sizes
    variant: int
    verdict: Verdict = "right"
    message: str = ""
    time_s: float | None = None
    original_s: float | None = None
    fraction: float | None = None
    families: tuple[str, ...] = ()

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
            "families": list(self.families),
        }


def draw(task: Task, guards: Sequence[Expr], secret: int, count: int) -> list[Sizes]:
    """Up to `count` sizes near the timed ones that satisfy a guard where there are any, and are new.

    Like the timed ones they lie where the kernel stores something, and rows do not overlap: nothing else can
    be judged. Parameters that are no sizes have other values in half of the draws. Where the guards leave no
    other sizes these are the timed ones: their inputs will be new. Where all timed sizes fit L2, or nearly,
    the last one is far beyond it, if there is one.
    """
    rng = np.random.default_rng(secret_seed(secret, "held out"))
    known = {size_key(s) for s in (*task.workload.timed, *task.workload.check)}
    known |= {size_key(s) for g in guards for s in task.shapes_for(g)}
    kernel = task.source.kernel
    names = [s.name for s in kernel.scalars if s.is_size]
    gate, apart = gates(kernel), all(pitches(kernel, s) == s for s in task.workload.timed)
    set_to = settings(kernel, task.workload.timed)
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
        if len(set_to) > 1 and rng.random() < 0.5:
            made |= set_to[rng.integers(len(set_to))]
        if size_key(made) in known or task.workload.bytes_at(made) > most or not works(gate, made):
            continue
        if not _satisfies(guards, made):
            continue
        if not apart or pitches(kernel, made) == made:
            known.add(size_key(made))
            found.append(made)
    beyond = beyond_l2(task, guards)
    if beyond is not None:
        found = [*found[: count - 1], beyond]
    return found or [s for s in task.workload.timed if _satisfies(guards, s)][:count]


def beyond_l2(task: Task, guards: Sequence[Expr]) -> Sizes | None:
    """The largest timed size with what the guards let grow doubled, until the arrays have `BEYOND_L2` times
    the bytes of L2. None where a timed size has, or where none is found."""
    need = BEYOND_L2 * task.profile.memory.l2_bytes
    kernel, bytes_at = task.source.kernel, task.workload.bytes_at
    largest = max(task.workload.timed, key=bytes_at)
    # Another size of what index arrays reach into is another problem.
    if bytes_at(largest) >= need or kernel.implied:
        return None
    gate, apart = gates(kernel), pitches(kernel, largest) == largest
    made = dict(largest)
    names = [s.name for s in kernel.scalars if s.is_size]
    grown = True
    while grown:
        grown = False
        for n in names:
            tried = made | {n: 2 * made[n]}
            holds = (
                _satisfies(guards, tried)
                and works(gate, tried)
                and all(bool(evaluate(f, tried)) for f in task.source.no_wrap)
                and (not apart or pitches(kernel, tried) == tried)
            )
            if (
                not holds
                or extract(kernel, tried, structure(task.workload, tried)).instances > _MOST_INSTANCES
            ):
                continue
            made, grown = tried, bytes_at(tried) > bytes_at(made) or grown
            if bytes_at(made) >= need:
                return made
    return None


def _satisfies(guards: Sequence[Expr], sizes: Sizes) -> bool:
    return not guards or any(bool(evaluate(g, sizes)) for g in guards)


def examine(
    task: Task, preparation: Preparation, built: Built, original: Built, sizes: Sequence[Sizes]
) -> tuple[HeldOut, ...]:
    """How a module does at these sizes, on the timed family beside the original and on another one.

    For the end of a run: what it says must reach nobody that proposes candidates.
    """
    others = [f for f in task.workload.families if f != FAMILY]
    first = secret_seed(preparation.secret, "held-out family")
    out = []
    for number, at in enumerate(sizes):
        look = _Look(task, preparation, built, original, number, at)
        found = look.timed()
        if others and found.verdict in ("right", "doubted"):
            found = look.on(others[(first + number) % len(others)], found)
        out.append(found)
    return tuple(out)


class _Look:
    """A module at one size, beside the original."""

    def __init__(
        self, task: Task, preparation: Preparation, built: Built, original: Built, number: int, sizes: Sizes
    ) -> None:
        self.task = task
        self.preparation = preparation
        self.name = f"held-out-{number}"
        self.sizes = sizes
        self.variant, launches = concretise(built.rendered, sizes)
        self.own = built.cubin, launches
        self.original = original.cubin, concretise_variant(original.rendered, -1, sizes)

    def timed(self) -> HeldOut:
        """Results and time on the timed family."""
        found = self._resident(FAMILY)
        if isinstance(found, str):
            return self._verdict("not judged", found)
        key, expected = found
        done, known = self._run(self.own, key, expected), self._run(self.original, key, expected)
        failed, unjudged = (wrong(x, at_sizes(self.sizes)) for x in (done, known))
        if failed is not None:
            return self._verdict("failed", failed.message)
        if unjudged is not None:
            return self._verdict("not judged", f"the kernel as given fails: {unjudged.message}")
        measured = self.preparation.worker.measure(
            Measure(
                (self.own[0], self.original[0]),
                (self.own[1], self.original[1]),
                (key,),
                self.task.outputs,
                self.task.inouts,
                ((done.digests,), (known.digests,)),
                (expected,),
                limit_s=ORIGINAL_LIMIT_S,
                batch=0,
            )
        )
        if measured.fault is not None:
            return self._verdict("failed", f"{at_sizes(self.sizes)}: {measured.fault.message}")
        there = replace(self.task.workload, timed=(self.sizes,))
        limit = make_task(self.task.source, there, self.task.profile).bounds[0]
        bad = doubt(measured, limit, at_sizes(self.sizes))
        if bad is not None:
            return self._verdict("failed" if bad.status == "incorrect" else "doubted", bad.message)
        time_s, original_s = (median(s) * 1e-6 for s in measured.samples_us)
        fraction = limit.time_s / time_s
        return replace(
            self._verdict("right"),
            time_s=time_s,
            original_s=original_s,
            fraction=fraction,
            families=(FAMILY,),
        )

    def on(self, family: str, found: HeldOut) -> HeldOut:
        """What was found before, or what is wrong on this family."""
        resident = self._resident(family)
        if isinstance(resident, str):
            return found
        failed = wrong(self._run(self.own, *resident), f"{at_sizes(self.sizes)}, {family} inputs")
        if failed is not None:
            return self._verdict("failed", failed.message)
        return replace(found, families=(*found.families, family))

    def _verdict(self, verdict: Verdict, message: str = "") -> HeldOut:
        return HeldOut(self.sizes, self.variant, verdict, message)

    def _resident(self, family: str) -> tuple[str, str] | str:
        """A set and its SetExpected, or why nothing can be judged on it."""
        try:
            found = self.preparation.family(self.name, self.sizes, family, self.original)
        except EvolveError as e:
            if e.code not in _ABOUT_THE_SIZES:
                raise
            return e.message
        return found or "nothing tells what is right there"

    def _run(self, image: Original, key: str, expected: str) -> Executed:
        cubin, launches = image
        outputs, inouts = self.task.outputs, self.task.inouts
        return self.preparation.worker.execute(
            Execute(cubin, launches, key, outputs, inouts, expected, fetch=False, limit_s=ORIGINAL_LIMIT_S)
        )
