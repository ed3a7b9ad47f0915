"""Scoring on a CUDA GPU: checked against the reference, timed with events, L2 cold."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.codegen.launch import ConcreteLaunch
from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered, concretise, concretise_variant
from evolve.devices.compare import worst_error
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import Execute, Executed, Measure, SetArrays
from evolve.features.extract import extract
from evolve.ir.errors import EvolveError
from evolve.ir.kernel import Module
from evolve.ir.types import LoopKind
from evolve.ir.visit import loop_sites, variables
from evolve.scoring.correctness import TOO_SMALL_LAUNCH, Plan, misses, original_plan, variant_plan
from evolve.scoring.fitness import beats_physics, fitness
from evolve.scoring.references import References
from evolve.scoring.task import Outcome, Task, size_key
from evolve.sol.gap import Breakdown, gap
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.nvrtc import compile_cuda
from evolve.workload.model import Sizes

LIGHT_INSTANCES = 1e9
"""Statement instances up to which the reference is computed at the timed shape on the host."""
TIMED_FAMILY = "normal"
MARGIN = 1.005
"""A challenger is better when the confidence interval of the ratio excludes 1 by more than 0.5 %."""
RESAMPLES = 500
INTERLEAVED = 40


class MeasuredScorer:
    """Scores modules of one task on a GPU. Raises EvolveError `no-cuda` when there is none."""

    def __init__(self, task: Task, ordinal: int = 0) -> None:
        self.task = task
        self.references = References(task)
        self.worker = CudaWorker(ordinal)
        self.folder = tempfile.TemporaryDirectory(prefix="evolve-")
        self._written: dict[object, dict[str, NDArray[Any]]] = {}
        self._original = self._build(task.original)
        self._comparable: list[bool] = []
        for k, sizes in enumerate(task.workload.timed):
            self._make_timed(k, sizes)

    # ---- candidates

    def baseline(self) -> Outcome:
        """The original, checked on every family."""
        return self._score(self.task.original, is_original=True)

    def score(self, module: Module) -> Outcome:
        """A proved module."""
        return self._score(module, is_original=not module.variants)

    def compare(self, first: Module, second: Module) -> tuple[float, float, bool, Mapping[str, Any]]:
        """Interleaved times of two modules (seconds, summed over shapes); is the first better?"""
        built = [self._build(m) for m in (first, second)]
        ratios: list[tuple[float, float]] = []
        totals = [0.0, 0.0]
        for k, sizes in enumerate(self.task.workload.timed):
            launches = tuple(concretise(r, sizes)[1] for r, _ in built)
            done = self.worker.measure(
                Measure(tuple(c for _, c in built), launches, f"timed:{k}", self.task.inouts, INTERLEAVED)
            )
            if done.error or not done.samples_us:
                return 0.0, 0.0, False, {"error": done.error}
            a, b = (np.asarray(s) for s in done.samples_us)
            totals[0] += float(np.median(a)) * 1e-6
            totals[1] += float(np.median(b)) * 1e-6
            ratios.append(ratio_interval(a, b))
        better = all(low > MARGIN for low, _ in ratios)
        return totals[0], totals[1], better, {"ratio_interval": [list(r) for r in ratios]}

    def _build(self, module: Module) -> tuple[Rendered, bytes]:
        rendered = render(module)
        built = compile_cuda(rendered.text, self.worker.info.arch)
        if built.cubin is None:
            first = built.errors[0].message if built.errors else built.log
            raise _BuildError(rendered.text, first)
        return rendered, built.cubin

    def _score(self, module: Module, *, is_original: bool) -> Outcome:
        try:
            rendered, cubin = self._build(module)
        except _BuildError as e:
            return Outcome("compile_failed", e.text, message=e.message)
        plan = original_plan(self.task) if is_original else variant_plan(self.task, rendered)
        failure = self._check(rendered, cubin, plan, is_original)
        if failure:
            return Outcome("incorrect", rendered.text, message=failure)
        times: list[float] = []
        detail: dict[str, Any] = {"samples_us": [], "floor_us": 0.0}
        for k, sizes in enumerate(self.task.workload.timed):
            variant, launches = concretise(rendered, sizes)
            failure = self._check_timed(k, cubin, launches)
            if failure:
                return Outcome("incorrect", rendered.text, message=failure)
            done = self.worker.measure(Measure((cubin,), (launches,), f"timed:{k}", self.task.inouts))
            if done.error or not done.samples_us[0]:
                return Outcome("incorrect", rendered.text, message=done.error or "it could not be timed")
            times.append(median(done.samples_us[0]) * 1e-6)
            detail["samples_us"].append(list(done.samples_us[0]))
            detail["floor_us"] = done.floor_us
        kernels = read_cubin(cubin).kernels
        used = rendered.original if variant < 0 else rendered.variants[variant].launches[0]
        detail |= {
            "registers": [kernels[used.kernel].registers],
            "shared_bytes": [kernels[used.kernel].shared_bytes],
            "local_bytes": [kernels[used.kernel].stack_bytes],
            "runs_checked": len(plan),
        }
        suspicious = beats_physics(self.task, times)
        if suspicious:
            return Outcome("quarantined", rendered.text, sum(times), detail=detail, message=suspicious)
        report = gap(self.task.bounds[0], Breakdown(times[0], "measured"))
        return Outcome(
            "scored", rendered.text, sum(times), fitness(self.task, times), report.to_json(), detail
        )

    # ---- checks

    def _check(self, rendered: Rendered, cubin: bytes, plan: Plan, is_original: bool) -> str | None:
        ran: set[int] = set()
        for sizes, family in plan:
            variant, launches = concretise(rendered, sizes)
            if not launches:
                continue  # an empty domain: nothing runs and nothing is written
            ran.add(variant)
            expected = self.references.expected(sizes, family)
            at = ", ".join(f"{n}={v}" for n, v in sizes.items())
            self.worker.set_arrays(SetArrays("check", expected.inputs))
            done = self._execute(cubin, launches)
            if done.error:
                return f"{at}: {done.error}"
            if done.broken_guards or done.changed:
                where = ", ".join({*done.broken_guards, *done.changed})
                return f"{at}: it writes outside its outputs (found in or around {where})"
            must = self._must_write(sizes)
            for name in self.task.outputs:
                if is_original and misses(expected, name, must[name]):
                    return f"{at}: {TOO_SMALL_LAUNCH.format(name)}"
                wrote = ~_poisoned(done.outputs[name])
                if name not in self.task.inouts and not np.array_equal(wrote, must[name]):
                    return f"{at}: it does not write the elements of {name} that the original writes"
                keep = must[name]
                error = worst_error(
                    done.outputs[name][keep], expected.values[name][keep], expected.tolerances[name][keep]
                )
                if error > 1.0:
                    return f"{at}, {family} inputs: {name} is off by {error:.3g} times the tolerance"
        wanted = {-1} if is_original else set(range(len(rendered.variants)))
        if wanted - ran:
            return f"no shape was found on which variant {min(wanted - ran) + 1} runs"
        return None

    def _execute(self, cubin: bytes, launches: tuple[ConcreteLaunch, ...]) -> Executed:
        return self.worker.execute(Execute(cubin, launches, "check", self.task.outputs, self.task.inouts))

    def _must_write(self, sizes: Sizes) -> dict[str, NDArray[Any]]:
        """Elements that the original writes at these sizes (all of an in-out array)."""
        key = size_key(sizes)
        if key not in self._written:
            rendered, cubin = self._original
            done = self._execute(cubin, concretise_variant(rendered, -1, sizes))
            self._written[key] = {
                n: np.ones(a.shape, bool) if n in self.task.inouts else ~_poisoned(a)
                for n, a in done.outputs.items()
            }
        return self._written[key]

    # ---- the timed shape

    def _make_timed(self, k: int, sizes: Sizes) -> None:
        """Inputs resident on the device; expected outputs as files that the worker maps."""
        inputs = self.references.inputs(sizes, TIMED_FAMILY)
        self.worker.set_arrays(SetArrays(f"timed:{k}", self._files(f"in{k}", inputs)))
        own = self._run_original(k, sizes)
        light = extract(self.task.source.kernel, sizes).instances <= LIGHT_INSTANCES
        if light:
            e = self.references.expected(sizes, TIMED_FAMILY, keep=False)
            values, tolerances = e.values, e.tolerances
            for name, a in own.items():
                if name not in self.task.inouts and misses(e, name, ~_poisoned(a)):
                    raise EvolveError("baseline-failed", TOO_SMALL_LAUNCH.format(name))
        else:
            found = self._from_original(own, sizes)
            if found is None:
                self._comparable.append(False)
                return
            values, tolerances = found
        for name, a in own.items():
            # What the original leaves alone must still be poison after a candidate.
            untouched = _poisoned(a) if name not in self.task.inouts else np.zeros(a.shape, bool)
            values[name] = np.where(untouched, a.astype(np.float64), values[name])
        both = values | {f"{n}.tolerance": t for n, t in tolerances.items()}
        self.worker.set_arrays(SetArrays(f"expected:timed:{k}", self._files(f"out{k}", both)))
        self._comparable.append(True)

    def _run_original(self, k: int, sizes: Sizes) -> dict[str, NDArray[Any]]:
        rendered, cubin = self._original
        launches = concretise_variant(rendered, -1, sizes)
        done = self.worker.execute(
            Execute(cubin, launches, f"timed:{k}", self.task.outputs, self.task.inouts)
        )
        if done.error:
            raise EvolveError("baseline-failed", f"the kernel as given fails at its timed size: {done.error}")
        return done.outputs

    def _from_original(
        self, own: Mapping[str, NDArray[Any]], sizes: Sizes
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]] | None:
        """The original's own outputs, with twice the tolerance of a shape with fewer rows and columns.

        The sums of that shape are as long as those of the timed one, so its errors are as large; both
        the original and the candidate may be off by one tolerance. None when no size can be reduced.
        """
        small = _same_sums(self.task, sizes)
        if small is None:
            return None
        e = self.references.expected(small, TIMED_FAMILY, keep=False)
        tolerances = {
            n: np.full(a.shape, 2 * float(e.tolerances[n].max()), np.float64) for n, a in own.items()
        }
        return {n: a.astype(np.float64) for n, a in own.items()}, tolerances

    def _check_timed(self, k: int, cubin: bytes, launches: tuple[ConcreteLaunch, ...]) -> str | None:
        expected = f"expected:timed:{k}" if self._comparable[k] else None
        done = self.worker.execute(
            Execute(cubin, launches, f"timed:{k}", self.task.outputs, self.task.inouts, expected)
        )
        if done.error:
            return f"at the timed shape: {done.error}"
        if done.broken_guards or done.changed:
            return "at the timed shape it writes outside its outputs"
        for name, error in done.worst.items():
            if error > 1.0:
                return f"at the timed shape {name} is off by {error:.3g} times the tolerance"
        return None

    def _files(self, stem: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, a in arrays.items():
            path = Path(self.folder.name) / f"{stem}.{name}.npy"
            np.save(path, a)
            out[name] = str(path)
        return out


class _BuildError(EvolveError):
    """NVRTC's first error. Of the original it ends the run, of a candidate it is its status."""

    def __init__(self, text: str, message: str) -> None:
        super().__init__("compile-failed", f"the CUDA text does not compile: {message}")
        self.text = text


def _poisoned(a: NDArray[Any]) -> NDArray[Any]:
    """Elements whose every byte is still the worker's poison."""
    raw = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, a.dtype.itemsize)
    return np.asarray((raw == 0xFF).all(axis=-1))


def _same_sums(task: Task, sizes: Sizes) -> Sizes | None:
    """Sizes with every parallel extent small and every sequential one as given; None if they are tied."""
    parallel: set[str] = set()
    sequential: set[str] = set()
    for site in loop_sites(task.source.kernel.body).values():
        loop = site.stmt
        names = variables(loop.extent)  # type: ignore[union-attr]
        (parallel if loop.kind is LoopKind.PARALLEL else sequential).update(names)  # type: ignore[union-attr]
    free = parallel - sequential
    return {n: min(int(v), 64) if n in free else v for n, v in sizes.items()} if free else None


def ratio_interval(a: NDArray[Any], b: NDArray[Any]) -> tuple[float, float]:
    """95 % bootstrap interval of median(b) / median(a): above 1 where a is faster."""
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(a), (RESAMPLES, len(a)))
    other = rng.integers(0, len(b), (RESAMPLES, len(b)))
    ratios = np.median(b[other], axis=1) / np.median(a[draws], axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)
