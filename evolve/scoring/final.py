"""The end of a measured run: the champion where nothing was checked or timed before, and under the sanitizer.

What is found here reaches nobody that proposes candidates, and selects nothing: many noisy times were
compared to find the champion, so these, taken once and for it alone, are the ones without that bias. Only
here does the secret that all inputs were drawn from leave the scorer, so that anybody can repeat the checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from math import prod
from typing import Any, Literal

from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered, concretise
from evolve.devices.cuda.alone import Run
from evolve.devices.cuda.sanitizer import Sanitized, sanitize
from evolve.scoring.built import Built, build
from evolve.scoring.correctness import original_plan, variant_plan
from evolve.scoring.duel import Duel
from evolve.scoring.held_out import HeldOut
from evolve.scoring.measured import MeasuredScorer
from evolve.scoring.perturbed import Perturbed, perturb
from evolve.scoring.profiled import headline
from evolve.scoring.references import References
from evolve.scoring.task import Task, size_key
from evolve.scoring.timed import FAMILY, secret_seed
from evolve.workload.model import Sizes

HELD_OUT = 3
WATCHED_BYTES = 8 << 20
"""Of all arrays, and"""
WATCHED_THREADS = 1 << 18
"""of a launch under the sanitizer: it makes kernels up to hundreds of times slower."""

State = Literal["passed", "failed", "incomplete"]


@dataclass(frozen=True)
class Retimed:
    """A champion and the original in turns at the timed sizes, from fresh samples.

    time_s, original_s   summed over these sizes; 0 when they could not be timed, which `message` says why
    better    faster than the original beyond the noise; `wrong`: its results are
    ratios    for each size the 95 % interval of original time / time; `noise`: the same of the original with
              itself, which says how far from 1 chance alone gets
    """

    time_s: float
    original_s: float
    better: bool
    wrong: bool
    ratios: tuple[tuple[float, float], ...]
    noise: tuple[tuple[float, float], ...]
    message: str = ""

    @property
    def speedup(self) -> float | None:
        """The original's time over the champion's."""
        return self.original_s / self.time_s if self.time_s and self.original_s else None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data, times in microseconds."""
        return {
            "time_us": self.time_s * 1e6,
            "original_us": self.original_s * 1e6,
            "speedup": self.speedup,
            "better": self.better,
            "ratio_interval": [list(r) for r in self.ratios],
            "noise_interval": [list(r) for r in self.noise],
            "message": self.message,
        }


@dataclass(frozen=True)
class Examination:
    """What the examination of a champion came to; `secret` repeats it.

    `retimed` is None where the champion is the original; `counters` are as `profiled.headline` has them.
    """

    retimed: Retimed | None
    held_out: tuple[HeldOut, ...]
    perturbed: tuple[Perturbed, ...]
    sanitized: Sanitized
    secret: int
    counters: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def failures(self) -> tuple[str, ...]:
        """Why it is not right, in sentences."""
        again = self.retimed
        return (
            *([again.message] if again is not None and again.wrong else []),
            *(h.message for h in self.held_out if h.verdict == "failed"),
            *(p.message for p in self.perturbed if p.verdict == "failed"),
            *(f.text() for f in self.sanitized.findings),
        )

    @property
    def open_points(self) -> tuple[str, ...]:
        """What could not be judged, in sentences."""
        return (
            *_not_faster(self.retimed),
            *(h.message for h in self.held_out if h.verdict in ("doubted", "not judged")),
            *(p.message for p in self.perturbed if p.verdict == "not judged"),
            *(f"{tool}: {why}" for tool, why in self.sanitized.unjudged.items()),
        )

    @property
    def state(self) -> State:
        """passed: everything that could be asked was right; incomplete: something could not be judged."""
        if self.failures:
            return "failed"
        right = any(h.verdict == "right" for h in self.held_out)
        return "passed" if right and not self.open_points else "incomplete"

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data; the secret in hexadecimal, since many readers round large numbers."""
        return {
            "state": self.state,
            "failures": list(self.failures),
            "open_points": list(self.open_points),
            "retimed": {} if self.retimed is None else self.retimed.to_json(),
            "held_out": [h.to_json() for h in self.held_out],
            "perturbed": [p.to_json() for p in self.perturbed],
            "sanitizer": {
                "state": self.sanitized.state,
                "findings": [asdict(f) | {"text": f.text()} for f in self.sanitized.findings],
                "unjudged": dict(self.sanitized.unjudged),
            },
            "counters": dict(self.counters),
            "secret": f"{self.secret:x}",
        }


def _not_faster(again: Retimed | None) -> tuple[str, ...]:
    if again is None or again.wrong or again.better:
        return ()
    return (again.message or "timed once more, it is not faster than the original beyond the noise",)


def examine(scorer: MeasuredScorer, built: Built) -> Examination:
    """Examines a module: timed once more, held-out sizes, one input element changed, under compute-sanitizer
    and Nsight Compute where these are installed.

    Held-out sizes are about as large as the timed ones, and each needs its float64 reference. Raises
    EvolveError about the machine, as CudaWorker does.
    """
    task, worker = scorer.task, scorer.worker
    original = build(render(task.original), worker.info.arch)
    retimed = _retime(scorer, built, original) if built.rendered.variants else None
    held_out = scorer.held_out(built, HELD_OUT)
    watched = watched_sizes(task, built.rendered)
    largest: dict[int, Sizes] = {}
    for sizes in watched:
        largest[concretise(built.rendered, sizes)[0]] = sizes
    perturbed = [
        p for s in largest.values() for p in perturb(task, worker, built, original, s, scorer.secret)
    ]
    runs = watched_runs(task, built.rendered, watched, scorer.secret)
    sanitized = sanitize(built.cubin, runs, ordinal=worker.ordinal)
    counters = headline(task, built, scorer.secret, worker.ordinal)
    return Examination(retimed, held_out, tuple(perturbed), sanitized, scorer.secret, counters)


def _retime(scorer: MeasuredScorer, built: Built, original: Built) -> Retimed:
    duel, noise = scorer.compare(built, original), scorer.compare(original, original)
    return Retimed(
        duel.first_s,
        duel.second_s,
        duel.better,
        duel.wrong == 0,
        _intervals(duel),
        _intervals(noise),
        duel.message,
    )


def _intervals(duel: Duel) -> tuple[tuple[float, float], ...]:
    return tuple((float(low), float(high)) for low, high in duel.detail.get("ratio_interval", ()))


def watched_sizes(task: Task, rendered: Rendered) -> tuple[Sizes, ...]:
    """For each variant a small size and the largest one that is small enough, from those it was checked at.

    That is where several tiles and blocks meet, the last of them partial where the guard allows it. Smallest
    first. A module without variants is the original.
    """
    plan = variant_plan(task, rendered) if rendered.variants else original_plan(task)
    found: dict[int, list[Sizes]] = {}
    for sizes in {size_key(s): s for s, _ in plan}.values():
        variant, launches = concretise(rendered, sizes)
        threads = sum(prod(x.grid) * prod(x.block) for x in launches)
        if launches and task.workload.bytes_at(sizes) <= WATCHED_BYTES and threads <= WATCHED_THREADS:
            found.setdefault(variant, []).append(sizes)
    out: list[Sizes] = []
    for variant, all_sizes in found.items():
        if variant < 0 and rendered.variants:
            continue
        ordered = sorted(all_sizes, key=task.workload.bytes_at)
        out += [ordered[0], ordered[-1]] if len(ordered) > 1 else ordered
    return tuple(out)


def watched_runs(task: Task, rendered: Rendered, sizes: Sequence[Sizes], secret: int) -> tuple[Run, ...]:
    """What the sanitizer watches: inputs as in checks, outputs that nothing was written to."""
    references = References(replace(task, seed=secret_seed(secret, "watched")))
    runs = []
    for at in sizes:
        inputs = references.inputs(at, FAMILY)
        written = {a.name for a in task.workload.arrays if a.role == "out"}
        arrays = {n: a.nbytes if n in written else a for n, a in inputs.items()}
        runs.append(Run(concretise(rendered, at)[1], arrays))
    return tuple(runs)
