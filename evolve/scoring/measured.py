"""Scoring on a CUDA GPU: checked against the reference, timed with events, L2 cold and clean.

The worker runs and counts; everything is judged here. What a candidate is checked on is drawn from a secret
of this scorer, so nothing that proposes candidates can know it.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from evolve.codegen.launch import ConcreteLaunch
from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered, concretise, concretise_variant
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import Measure, Measured
from evolve.devices.cuda.scratch import Scratch
from evolve.devices.estimate import together
from evolve.ir.errors import EvolveError
from evolve.scoring.audit import HELD, clock_moved, clock_shift, doubt, record, summary, unsteady
from evolve.scoring.built import BuildError, Built, build
from evolve.scoring.correctness import Plan, at_sizes, original_plan, variant_plan
from evolve.scoring.detail import Spent, describe
from evolve.scoring.duel import Duel, decided, lost, ratio_interval
from evolve.scoring.fitness import fitness
from evolve.scoring.held_out import HeldOut, draw, examine
from evolve.scoring.model import modelled
from evolve.scoring.references import References
from evolve.scoring.selftest import too_loose
from evolve.scoring.small_sizes import SmallSizes, of_fault
from evolve.scoring.task import Outcome, Task, size_key
from evolve.scoring.timed import Preparation, TimedShape, secret_seed
from evolve.scoring.timed_sizes import Digests, TimedSizes
from evolve.sol.gap import Breakdown, gap
from evolve.toolchain.cubin import read_cubin
from evolve.workload.model import Sizes

INTERLEAVED = 40
INTERLEAVED_BATCHES = 15
HURRIED = 3
UNFLUSHED = 3
"""Launches whose warm time is reported; none of what is timed in a hurry."""
SLOW = 3.0
"""What ran that many times as long as the best when it was checked is timed by HURRIED samples, with no warm
clock and caches, and by more where these say otherwise: how slow it is exactly helps nobody."""
FAR = 1.5
"""Where one was that much faster, as few samples as for a score tell."""
KEPT_TIMES = 256
TOLD_AT = 2
"""The largest check sizes, at which a task must tell wrong results from right ones."""


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
        self.folder = Scratch()
        self._original = build(render(task.original), self.worker.info.arch)
        self.small = SmallSizes(task, self.references, self.worker, self._original)
        self._times: OrderedDict[bytes, float] = OrderedDict()
        self._best: float | None = None
        self._best_us: list[float] | None = None
        self._preparation = Preparation(task, self.worker, self.folder.path, self.secret)
        self.shapes: list[TimedShape] = []
        for k, sizes in enumerate(task.workload.timed):
            self._preparation.anticipate(k, sizes)
        for k, sizes in enumerate(task.workload.timed):
            launches = concretise_variant(self._original.rendered, -1, sizes)
            self.shapes.append(self._preparation.prepare(k, sizes, self._original.cubin, launches))
        self.timed = TimedSizes(task, self.worker, self._preparation, self._original, self.shapes)

    # ---- candidates

    def baseline(self) -> Outcome:
        """The original, checked on every family.

        Raises EvolveError `task-too-loose` when results that are plainly wrong would pass.
        """
        largest = sorted(self.task.workload.check, key=self.task.workload.bytes_at)[-TOLD_AT:]
        runs = (self.references.expected(s, f) for s in largest for f in self.task.workload.families)
        loose = too_loose(runs, self.task.outputs, self.task.workload.numerics)
        if loose is not None:
            raise EvolveError(
                "task-too-loose",
                f"this task cannot tell right from wrong: {loose}",
                hint="larger check sizes, or more input families, in the workload",
            )
        rendered, cubin = self._original.rendered, self._original.cubin
        modelled_original = replace(self._original, estimates=modelled(self.task, rendered, cubin))
        return self.score(modelled_original, is_original=True)

    def score_rendered(self, rendered: Rendered, *, is_original: bool = False) -> Outcome:
        """Any text with its launches."""
        try:
            built = build(rendered, self.worker.info.arch)
        except BuildError as e:
            return Outcome("compile_failed", rendered.text, message=e.message)
        return self.score(built, is_original=is_original)

    def score(self, built: Built, *, is_original: bool = False) -> Outcome:
        """A module that was proved and built."""
        rendered = built.rendered
        plan = original_plan(self.task) if is_original else self._plan(rendered)
        outcome = self._once(built, plan, is_original)
        if outcome.status == "scored" and not is_original and self._suspiciously_fast(outcome):
            outcome = self._again(built, plan, outcome)
        if outcome.status != "scored" or outcome.time_s is None:
            return outcome
        self._times[built.cubin] = outcome.time_s
        while len(self._times) > KEPT_TIMES:
            self._times.popitem(last=False)
        if self._best is None or outcome.time_s < self._best:
            failed = self.timed.every_family(built)
            if failed is not None:
                return Outcome(failed.status, rendered.text, message=failed.message)
            self._best, self._best_us = outcome.time_s, outcome.detail["times_us"]
        told = explained(self.task, built, outcome.detail["times_us"][0])
        return outcome if told is None else replace(outcome, gap=told)

    def compare(self, first: Built, second: Built) -> Duel:
        """Both interleaved, the outputs of all launches checked, on every family at the timed sizes.

        Short kernels are compared by their times in batches, if both are short: never one kind of time with
        another.
        """
        built = [first, second]
        ratios: list[tuple[float, float]] = []
        batched: list[bool] = []
        shifts: list[float] = []
        totals = [0.0, 0.0]
        for k, shape in enumerate(self.shapes):
            launches = tuple(concretise(b.rendered, shape.sizes)[1] for b in built)
            known: list[Digests] = []
            for i, (b, one) in enumerate(zip(built, launches, strict=True)):
                failed, digests = self.timed.known(k, b, one)
                if failed is None:
                    failed = self.timed.families(k, b, one, self.task.workload.families)
                if failed is not None:
                    return lost(failed, i)
                known.append(digests)
            close: dict[str, Any] = (
                {} if self._far(first, second) else {"least": INTERLEAVED, "batch": INTERLEAVED_BATCHES}
            )
            done = self._measure(k, built, launches, known, **close)
            if done.error or not done.samples_us or not all(done.samples_us):
                return Duel(message=done.error or "no samples were taken")
            for i in range(2):
                bad = doubt(done, self.task.bounds[k], at_sizes(shape.sizes), i)
                if bad is not None:
                    return lost(bad, i)
            in_batches = len(done.batches) == 2 and all(b is not None for b in done.batches)
            samples = [b.us for b in done.batches if b is not None] if in_batches else done.samples_us
            a, b_ = (np.asarray(s) for s in samples)
            totals[0] += float(np.median(a)) * 1e-6
            totals[1] += float(np.median(b_)) * 1e-6
            ratios.append(ratio_interval(a, b_))
            batched.append(in_batches)
            shifts.append(clock_shift(done))
        better, why = decided(ratios, shifts)
        detail = {
            "ratio_interval": [list(r) for r in ratios],
            "in_batches": batched,
            "clock_moved": [s > 1.0 for s in shifts],
        }
        return Duel(totals[0], totals[1], better, detail, message=why)

    def _far(self, first: Built, second: Built) -> bool:
        """Whether their scores leave no doubt which is faster."""
        a, b = (self._times.get(x.cubin) for x in (first, second))
        return a is not None and b is not None and max(a, b) > FAR * min(a, b)

    def held_out(self, built: Built, count: int = 3) -> tuple[HeldOut, ...]:
        """How a module does at sizes that nothing was checked or timed at: see `held_out.examine`."""
        guards = [v.guard for v in built.rendered.variants]
        return examine(
            self.task, self._preparation, built, self._original, draw(self.task, guards, self.secret, count)
        )

    def close(self) -> None:
        """Ends the worker and removes the files."""
        self._preparation.close()
        self.worker.close()
        self.folder.close()

    # ---- one look at a candidate

    def _once(self, built: Built, plan: Plan, is_original: bool) -> Outcome:
        rendered, cubin = built.rendered, built.cubin
        family = () if is_original else self.timed.rotating()
        spent = Spent()
        failure = self.small.check(built, plan, is_original)
        spent.on("small_sizes")
        if failure is not None:
            return Outcome(failure.status, rendered.text, message=failure.message)
        times: list[float] = []
        timing: list[dict[str, Any]] = []
        variants: list[int] = []
        unsure: list[str] = []
        for k, shape in enumerate(self.shapes):
            variant, launches = concretise(rendered, shape.sizes)
            variants.append(variant)
            failure, digests = self.timed.known(k, built, launches)
            if failure is None:
                failure = self.timed.families(k, built, launches, family)
            spent.on("timed_sizes")
            if failure is not None:
                return Outcome(failure.status, rendered.text, message=failure.message)
            few = self._best_us is not None and self.timed.ran_us(built, k) > SLOW * self._best_us[k]
            hurry: dict[str, Any] = {"least": HURRIED, "most": HURRIED, "warm": False}
            how = hurry if few else {"unflushed": UNFLUSHED}
            done = self._measure(k, [built], (launches,), [digests], **how)
            if few and not self._is_slow(done, k):
                # In the run that was checked the GPU waited for the host, as it does when a kernel is short.
                done = self._measure(k, [built], (launches,), [digests], unflushed=UNFLUSHED)
            spent.on("timing")
            if done.fault is not None:
                failed = of_fault(done.fault, at_sizes(shape.sizes))
                return Outcome(failed.status, rendered.text, message=failed.message)
            bad = doubt(done, self.task.bounds[k], at_sizes(shape.sizes))
            times.append(median(done.samples_us[0]) * 1e-6)
            if bad is not None:
                audit = record(done, self.task.bounds[k], digests)
                return Outcome(
                    bad.status, rendered.text, sum(times), detail={"audit": audit}, message=bad.message
                )
            timing.append(summary(done) | {"right_by": shape.source, "input_sets": len(shape.keys)})
            unsure += [said] if (said := unsteady(done, at_sizes(shape.sizes))) else []
            unsure += self.timed.seen_otherwise(built, k)
            if is_original:
                self.timed.original_s[k] = times[-1]
        detail = describe(rendered, read_cubin(cubin), variants, len(plan), (s for s, _ in plan)) | {
            "times_us": [t * 1e6 for t in times],
            "samples_us": [t["samples_us"] for t in timing],
            "floor_us": timing[-1]["floor_us"],
            "timing": [{n: v for n, v in t.items() if n != "samples_us"} for t in timing],
            "l2_resident": [b.l2_resident for b in self.task.bounds],
            "families_not_judged_timed": list(self._preparation.left_out),
            "spent_ms": spent.ms,
        }
        report = gap(self.task.bounds[0], Breakdown(times[0], "measured"))
        return Outcome(
            "scored",
            rendered.text,
            sum(times),
            fitness(self.task, times),
            report.to_json(),
            detail,
            "; ".join(unsure),
        )

    def _is_slow(self, done: Measured, k: int) -> bool:
        """Whether the samples, if there are any, bear out that few of them are enough."""
        us = done.samples_us[0] if done.samples_us else ()
        return not us or self._best_us is None or median(us) > SLOW * self._best_us[k]

    def _plan(self, rendered: Rendered) -> Plan:
        """`variant_plan`, and every family at each variant's largest size too.

        At the smallest one, often a single element, there is not much that a kernel can get wrong.
        """
        plan = variant_plan(self.task, rendered)
        largest: dict[int, Sizes] = {}
        for sizes, _ in plan:
            variant = concretise(rendered, sizes)[0]
            if variant not in largest or self._bytes(sizes) > self._bytes(largest[variant]):
                largest[variant] = sizes
        planned = {(size_key(s), f) for s, f in plan}
        every = [(s, f) for s in largest.values() for f in self.task.workload.families]
        return plan + [(s, f) for s, f in every if (size_key(s), f) not in planned]

    def _bytes(self, sizes: Sizes) -> int:
        return self.task.workload.bytes_at(sizes)

    def _suspiciously_fast(self, outcome: Outcome) -> bool:
        """Ten times faster than anything before, or the first of all where no baseline was timed."""
        assert outcome.time_s is not None
        return self._best is None or outcome.time_s * HELD < self._best

    def _again(self, built: Built, plan: Plan, first: Outcome) -> Outcome:
        """A second, full look at what is ten times faster than anything before; the slower time counts."""
        shapes = {size_key(s): s for s, _ in plan}
        every = [(s, f) for s in shapes.values() for f in self.task.workload.families]
        self.timed.forget(built)
        second = self._once(built, every, is_original=False)
        slower = second.status != "scored" or (second.time_s or 0.0) >= (first.time_s or 0.0)
        chosen = second if slower else first
        return replace(chosen, detail={**chosen.detail, "looked_at_twice": True})

    def _measure(
        self,
        k: int,
        built: list[Built],
        launches: tuple[tuple[ConcreteLaunch, ...], ...],
        known: list[Digests],
        **more: Any,
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
            limit_s=self.timed.limit_s(k),
            **more,
        )
        done = self.worker.measure(request)
        if done.fault is None and clock_moved(done):
            done = self.worker.measure(request)
        return done


def explained(task: Task, built: Built, first_us: float) -> Mapping[str, Any] | None:
    """The gap report of a time measured at the first timed size, if the model was asked."""
    if not built.estimates:
        return None
    return gap(task.bounds[0], together(built.estimates[0]).breakdown(first_us * 1e-6)).to_json()
