"""Scoring on a CUDA GPU: checked against the reference, timed with events, L2 cold and clean.

The worker runs and counts; everything is judged here. What a candidate is checked on is drawn from a secret
of this scorer, so nothing that proposes candidates can know it.
"""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.codegen.launch import ConcreteLaunch
from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered, concretise, concretise_variant
from evolve.devices.compare import poisoned, worst_error
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import Execute, Executed, Fault, Measure, Measured, SetArrays
from evolve.ir.errors import EvolveError
from evolve.ir.kernel import Module
from evolve.scoring.audit import HELD, Doubt, clock_moved, doubt, record, summary
from evolve.scoring.correctness import TOO_SMALL_LAUNCH, Plan, at_sizes, misses, original_plan, variant_plan
from evolve.scoring.fitness import fitness
from evolve.scoring.references import References
from evolve.scoring.task import Outcome, Status, Task, size_key
from evolve.scoring.timed import Preparation, TimedShape, secret_seed
from evolve.sol.gap import Breakdown, gap
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.nvrtc import compile_cuda
from evolve.workload.model import Sizes

MARGIN = 1.005
"""A challenger is better when the confidence interval of the ratio excludes 1 by more than 0.5 %."""
RESAMPLES = 500
INTERLEAVED = 40
INTERLEAVED_BATCHES = 15
LIMIT_S = 10.0
TIMED_LIMIT = (100.0, 1.0, 60.0)
"""How many times as long as the original a candidate may take at a timed size; least and most seconds."""
KEPT_DIGESTS = 256

Digests = dict[str, dict[str, int]]
"""By resident set, by output."""

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


class MeasuredScorer:
    """Scores modules of one task on a GPU. Raises EvolveError `no-cuda` when there is none.

    `secret` seeds the inputs; it is drawn when not given. A run may record it when it has ended, so that its
    checks can be repeated; until then it belongs nowhere that a proposer can read.
    """

    def __init__(self, task: Task, ordinal: int = 0, *, secret: int | None = None) -> None:
        self.task = task
        self.secret = int.from_bytes(os.urandom(8), "little") if secret is None else secret
        self.references = References(replace(task, seed=secret_seed(self.secret, "check")))
        self.worker = CudaWorker(ordinal)
        self.folder = tempfile.TemporaryDirectory(prefix="evolve-")
        self._written: dict[object, dict[str, NDArray[Any]]] = {}
        self._digests: OrderedDict[tuple[bytes, int], Digests] = OrderedDict()
        self._original = self._build(render(task.original))
        self._original_s: dict[int, float] = {}
        self._best: float | None = None
        preparation = Preparation(task, self.worker, Path(self.folder.name), self.secret)
        self.shapes: list[TimedShape] = []
        for k, sizes in enumerate(task.workload.timed):
            launches = concretise_variant(self._original.rendered, -1, sizes)
            self.shapes.append(preparation.prepare(k, sizes, self._original.cubin, launches))

    # ---- candidates

    def baseline(self) -> Outcome:
        """The original, checked on every family."""
        return self.score_rendered(render(self.task.original), is_original=True)

    def score(self, module: Module) -> Outcome:
        """A proved module."""
        return self.score_rendered(render(module), is_original=not module.variants)

    def score_rendered(self, rendered: Rendered, *, is_original: bool = False) -> Outcome:
        """Any text with its launches."""
        try:
            built = self._build(rendered)
        except _BuildError as e:
            return Outcome("compile_failed", rendered.text, message=e.message)
        plan = original_plan(self.task) if is_original else variant_plan(self.task, rendered)
        outcome = self._once(built, plan, is_original)
        if outcome.status == "scored" and self._suspiciously_fast(outcome):
            outcome = self._again(built, plan, outcome)
        if outcome.status == "scored" and outcome.time_s is not None:
            self._best = min(outcome.time_s, self._best or outcome.time_s)
        return outcome

    def compare(self, first: Module, second: Module) -> tuple[float, float, bool, Mapping[str, Any]]:
        """Interleaved times of two modules (seconds, summed over shapes); is the first better?

        Short kernels are compared by their times in batches, if both are short: never one kind of time with
        another. The outputs of all launches are checked; one that is wrong makes its module the worse.
        """
        built = [self._build(render(m)) for m in (first, second)]
        ratios: list[tuple[float, float]] = []
        batched: list[bool] = []
        totals = [0.0, 0.0]
        for k, shape in enumerate(self.shapes):
            launches = tuple(concretise(b.rendered, shape.sizes)[1] for b in built)
            known: list[Digests] = []
            for b, one in zip(built, launches, strict=True):
                failed, digests = self._known(k, b, one)
                if failed is not None:
                    return 0.0, 0.0, False, {"error": failed.message}
                known.append(digests)
            done = self._measure(k, built, launches, known, least=INTERLEAVED, batch=INTERLEAVED_BATCHES)
            if done.error or not done.samples_us or not all(done.samples_us):
                return 0.0, 0.0, False, {"error": done.error}
            for i in range(2):
                bad = doubt(done, self.task.bounds[k], at_sizes(shape.sizes), i)
                if bad is not None:
                    return 0.0, 0.0, False, {"error": bad.message}
            in_batches = len(done.batches) == 2 and all(b is not None for b in done.batches)
            samples = [b.us for b in done.batches if b is not None] if in_batches else done.samples_us
            a, b_ = (np.asarray(s) for s in samples)
            totals[0] += float(np.median(a)) * 1e-6
            totals[1] += float(np.median(b_)) * 1e-6
            ratios.append(ratio_interval(a, b_))
            batched.append(in_batches)
        better = all(low > MARGIN for low, _ in ratios)
        detail = {"ratio_interval": [list(r) for r in ratios], "in_batches": batched}
        return totals[0], totals[1], better, detail

    def close(self) -> None:
        """Ends the worker and removes the files."""
        self.worker.close()
        self.folder.cleanup()

    # ---- one look at a candidate

    def _build(self, rendered: Rendered) -> Built:
        built = compile_cuda(rendered.text, self.worker.info.arch)
        if built.cubin is None:
            first = built.errors[0].message if built.errors else built.log
            raise _BuildError(first)
        return Built(rendered, built.cubin)

    def _once(self, built: Built, plan: Plan, is_original: bool) -> Outcome:
        rendered, cubin = built.rendered, built.cubin
        failure = self._check(built, plan, is_original)
        if failure is not None:
            return Outcome(failure.status, rendered.text, message=failure.message)
        times: list[float] = []
        timing: list[dict[str, Any]] = []
        variants: list[int] = []
        for k, shape in enumerate(self.shapes):
            variant, launches = concretise(rendered, shape.sizes)
            variants.append(variant)
            failure, digests = self._known(k, built, launches)
            if failure is not None:
                return Outcome(failure.status, rendered.text, message=failure.message)
            done = self._measure(k, [built], (launches,), [digests])
            if done.fault is not None:
                failed = _of_fault(done.fault, at_sizes(shape.sizes))
                return Outcome(failed.status, rendered.text, message=failed.message)
            bad = doubt(done, self.task.bounds[k], at_sizes(shape.sizes))
            times.append(median(done.samples_us[0]) * 1e-6)
            if bad is not None:
                audit = record(done, self.task.bounds[k], digests)
                return Outcome(
                    bad.status, rendered.text, sum(times), detail={"audit": audit}, message=bad.message
                )
            timing.append(summary(done) | {"right_by": shape.source, "input_sets": len(shape.keys)})
            if is_original:
                self._original_s[k] = times[-1]
        kernels = read_cubin(cubin).kernels
        used = [rendered.original if v < 0 else rendered.variants[v].launches[0] for v in variants]
        detail: dict[str, Any] = {
            "samples_us": [t["samples_us"] for t in timing],
            "floor_us": timing[-1]["floor_us"],
            "timing": [{n: v for n, v in t.items() if n != "samples_us"} for t in timing],
            "registers": [kernels[x.kernel].registers for x in used],
            "shared_bytes": [kernels[x.kernel].shared_bytes for x in used],
            "local_bytes": [kernels[x.kernel].stack_bytes for x in used],
            "l2_resident": [b.l2_resident for b in self.task.bounds],
            "runs_checked": len(plan),
        }
        report = gap(self.task.bounds[0], Breakdown(times[0], "measured"))
        return Outcome(
            "scored", rendered.text, sum(times), fitness(self.task, times), report.to_json(), detail
        )

    def _suspiciously_fast(self, outcome: Outcome) -> bool:
        return self._best is not None and outcome.time_s is not None and outcome.time_s * HELD < self._best

    def _again(self, built: Built, plan: Plan, first: Outcome) -> Outcome:
        """A second, full look at what is ten times faster than anything before; the slower time counts."""
        shapes = {size_key(s): s for s, _ in plan}
        every = [(s, f) for s in shapes.values() for f in self.task.workload.families]
        for k in range(len(self.shapes)):
            self._digests.pop((built.cubin, k), None)
        second = self._once(built, every, is_original=False)
        slower = second.status != "scored" or (second.time_s or 0.0) >= (first.time_s or 0.0)
        chosen = second if slower else first
        return replace(chosen, detail={**chosen.detail, "looked_at_twice": True})

    # ---- small sizes

    def _check(self, built: Built, plan: Plan, is_original: bool) -> Doubt | None:
        ran: set[int] = set()
        for sizes, family in plan:
            variant, launches = concretise(built.rendered, sizes)
            if not launches:
                continue  # an empty domain: nothing runs and nothing is written
            ran.add(variant)
            failed = self._check_at(built.cubin, launches, sizes, family, is_original)
            if failed is not None:
                return failed
        wanted = {-1} if is_original else set(range(len(built.rendered.variants)))
        if wanted - ran:
            number = min(wanted - ran) + 1
            return Doubt("quarantined", f"not judged: no shape was found at which variant {number} runs")
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
            return _of_fault(done.fault, at)
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

    # ---- the timed sizes

    def _known(
        self, k: int, built: Built, launches: tuple[ConcreteLaunch, ...]
    ) -> tuple[Doubt | None, Digests]:
        """Checks one run on each of the resident sets; the digests of what it left there."""
        found = self._digests.get((built.cubin, k))
        if found is not None:
            return None, found
        shape, at = self.shapes[k], at_sizes(self.shapes[k].sizes)
        found = {}
        for key, expected in zip(shape.keys, shape.expected, strict=True):
            done = self.worker.execute(
                Execute(
                    built.cubin,
                    launches,
                    key,
                    self.task.outputs,
                    self.task.inouts,
                    expected,
                    fetch=False,
                    limit_s=self._limit_s(k),
                )
            )
            if done.fault is not None:
                return _of_fault(done.fault, at), {}
            if done.broken_guards or done.changed:
                where = ", ".join({*done.broken_guards, *done.changed})
                return Doubt("incorrect", f"{at}: it writes outside its outputs (in or around {where})"), {}
            for name, c in done.compared.items():
                if c.wrong:
                    what = f"{c.wrong} elements of {name} are wrong, the worst by {c.worst:.3g} tolerances"
                    return Doubt("incorrect", f"{at}: {what}"), {}
            found[key] = done.digests
        self._digests[built.cubin, k] = found
        while len(self._digests) > KEPT_DIGESTS:
            self._digests.popitem(last=False)
        return None, found

    def _measure(
        self,
        k: int,
        built: list[Built],
        launches: tuple[tuple[ConcreteLaunch, ...], ...],
        known: list[Digests],
        **more: int,
    ) -> Measured:
        """Timed once, and once more when the clock moved meanwhile."""
        shape = self.shapes[k]
        request = Measure(
            tuple(b.cubin for b in built),
            launches,
            shape.keys,
            self.task.outputs,
            self.task.inouts,
            tuple(tuple(digests[key] for key in shape.keys) for digests in known),
            shape.expected,
            limit_s=self._limit_s(k),
            **more,
        )
        done = self.worker.measure(request)
        if done.fault is None and clock_moved(done):
            done = self.worker.measure(request)
        return done

    def _limit_s(self, k: int) -> float:
        times, least, most = TIMED_LIMIT
        original = self._original_s.get(k)
        return most if original is None else min(most, max(least, times * original))


class _BuildError(EvolveError):
    """NVRTC's first error. Of the original it ends the run, of a candidate it is its status."""

    def __init__(self, message: str) -> None:
        super().__init__("compile-failed", f"the CUDA text does not compile: {message}")


def _of_fault(fault: Fault, at: str) -> Doubt:
    """What a fault of the GPU makes of its candidate."""
    return Doubt(_STATUS.get(fault.kind, "quarantined"), f"{at}: {fault.message}")


def ratio_interval(a: NDArray[Any], b: NDArray[Any]) -> tuple[float, float]:
    """95 % bootstrap interval of median(b) / median(a): above 1 where a is faster."""
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(a), (RESAMPLES, len(a)))
    other = rng.integers(0, len(b), (RESAMPLES, len(b)))
    ratios = np.median(b[other], axis=1) / np.median(a[draws], axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)
