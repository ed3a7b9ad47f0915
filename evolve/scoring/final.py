"""The end of a measured run: the champion where nothing was checked or timed before, and under the sanitizer.

What is found here reaches nobody that proposes candidates, and selects nothing: many noisy times were
compared to find the champion, so these, taken once and at other sizes, are the ones without that bias. Only
here does the secret that all inputs were drawn from leave the scorer, so that anybody can repeat the checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any, Literal, Protocol

from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered, concretise
from evolve.devices.cuda.alone import Run
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.sanitizer import Sanitized, sanitize
from evolve.scoring.built import Built, build
from evolve.scoring.correctness import original_plan, variant_plan
from evolve.scoring.held_out import HeldOut
from evolve.scoring.perturbed import Perturbed, perturb
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


class Examinable(Protocol):
    """What is needed of a scorer of measured times."""

    @property
    def task(self) -> Task:
        """What is being optimised."""
        ...

    @property
    def secret(self) -> int:
        """What inputs were drawn from."""
        ...

    @property
    def worker(self) -> CudaWorker:
        """A GPU."""
        ...

    def held_out(self, built: Built, count: int = ...) -> tuple[HeldOut, ...]:
        """How a module does at sizes drawn from the secret."""
        ...


@dataclass(frozen=True)
class Examination:
    """What the examination of a champion came to; `secret` repeats it."""

    held_out: tuple[HeldOut, ...]
    perturbed: tuple[Perturbed, ...]
    sanitized: Sanitized
    secret: int

    @property
    def failures(self) -> tuple[str, ...]:
        """Why it is not right, in sentences."""
        return (
            *(h.message for h in self.held_out if h.verdict == "failed"),
            *(p.message for p in self.perturbed if p.verdict == "failed"),
            *(f.text() for f in self.sanitized.findings),
        )

    @property
    def open_points(self) -> tuple[str, ...]:
        """What could not be judged, in sentences."""
        return (
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
            "held_out": [h.to_json() for h in self.held_out],
            "perturbed": [p.to_json() for p in self.perturbed],
            "sanitizer": {
                "state": self.sanitized.state,
                "findings": [asdict(f) | {"text": f.text()} for f in self.sanitized.findings],
                "unjudged": dict(self.sanitized.unjudged),
            },
            "secret": f"{self.secret:x}",
        }


def examine(scorer: Examinable, built: Built) -> Examination:
    """Examines a module: held-out sizes beside the original, one input element changed, compute-sanitizer.

    Held-out sizes are about as large as the timed ones, and each needs its float64 reference. Raises
    EvolveError about the machine, as CudaWorker does.
    """
    task, worker = scorer.task, scorer.worker
    held_out = scorer.held_out(built, HELD_OUT)
    watched = watched_sizes(task, built.rendered)
    original = build(render(task.original), worker.info.arch)
    largest: dict[int, Sizes] = {}
    for sizes in watched:
        largest[concretise(built.rendered, sizes)[0]] = sizes
    perturbed = [
        p for s in largest.values() for p in perturb(task, worker, built, original, s, scorer.secret)
    ]
    runs = watched_runs(task, built.rendered, watched, scorer.secret)
    sanitized = sanitize(built.cubin, runs, ordinal=worker.ordinal)
    return Examination(held_out, tuple(perturbed), sanitized, scorer.secret)


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
