"""Execution of a rendered module on the CPU, under checks, on shapes that reach every variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.codegen.launch import ConcreteLaunch
from evolve.codegen.rendered import Rendered, concretise, concretise_variant
from evolve.codegen.rounding import rounded_by_order
from evolve.devices.compare import worst_error
from evolve.devices.sim.build import HostProgram
from evolve.devices.sim.execute import ExecOptions, Execution, execute
from evolve.ir.errors import EvolveError
from evolve.scoring.references import Expected, References
from evolve.scoring.task import Status, Task, size_key
from evolve.workload.model import SPECIALS, Sizes

MEMORY_MB = 4096
TIME_LIMIT_S = 20.0
LARGEST_CHECK_BYTES = 4 << 20
"""Of all arrays, at the shapes beyond a variant's smallest."""

LARGEST_FIRST_BYTES = 16 << 20
"""Of all arrays at a variant's smallest shape. Execution with its shadow memory and a float64 reference take
about ten times as much, and about a second for each 20 MiB."""
LARGEST_FIRST_THREADS = 1 << 18
"""Threads that a variant's smallest launch may start: each input family runs them all."""


HOST_LIMITS = ("timeout", "stack")
"""Findings about this host's limits on time and stack, not about the candidate."""
MACHINE = ("sim.conformance", "sim.cache")
"""Errors of host execution that no candidate causes: raised, since nothing can be judged any more."""


@dataclass(frozen=True)
class Failure:
    """The first thing that went wrong, in a sentence.

    `judged`: false when this host could not execute it within its limits, which says nothing about whether it
    is right.
    """

    message: str
    judged: bool = True

    @property
    def status(self) -> Status:
        """Where it falls in the funnel."""
        return "incorrect" if self.judged else "quarantined"


def not_judged(where: str, why: str) -> Failure:
    """The failure of what could not be executed, at the sizes `where`."""
    return Failure(f"not judged, since this host could not execute it: {where}{why}", judged=False)


def refused(error: EvolveError, where: str) -> Failure:
    """The failure that an error of host execution means. Raises it again if it is about the machine."""
    if error.code in MACHINE or not error.code.startswith("sim."):
        raise error
    return not_judged(f"{where}: ", error.message)


@dataclass(frozen=True)
class Checked:
    """What was executed: runs, the variants that ran (-1: the original), the worst error in tolerances, and
    the sizes, each once."""

    runs: int
    variants: tuple[int, ...]
    worst: float
    shapes: tuple[Sizes, ...] = ()


def at_sizes(sizes: Sizes) -> str:
    """Sizes in words: n=5, rows=7."""
    return ", ".join(f"{n}={v}" for n, v in sizes.items()) or "at its only size"


Plan = list[tuple[Sizes, str]]
"""Shapes with the input family to run each on."""


def original_plan(task: Task) -> Plan:
    """Every check shape on every family: does the lifted reference agree with the text?

    The largest one comes first: a kernel that this host cannot execute is told after one time limit.
    """
    given, families = task.workload.check, task.workload.families
    check = tuple({size_key(s): s for s in (*given, *task.with_lengths(given[-3:]))}.values())
    plan = [(s, f) for s in check for f in families]
    largest = max(check, key=task.workload.bytes_at, default=None)
    return sorted(plan, key=lambda run: run[0] != largest or run[1] != families[0])


@dataclass(frozen=True)
class TooLarge:
    """Variant number `variant` runs at no sizes smaller than these, with so much to execute there."""

    variant: int
    sizes: Sizes
    bytes: int
    threads: int


def too_large(task: Task, rendered: Rendered) -> TooLarge | None:
    """The first variant whose guard holds at no shape small enough to be executed.

    Threads count beyond what the kernel as given starts at the check sizes, which may be fixed in its text.
    """
    most = max([LARGEST_FIRST_THREADS, *(_threads(rendered, -1, s) for s in task.workload.check)])
    for number, v in enumerate(rendered.variants):
        shapes = task.shapes_for(v.guard)
        if not shapes:
            continue
        found = TooLarge(
            number, shapes[0], task.workload.bytes_at(shapes[0]), _threads(rendered, number, shapes[0])
        )
        if found.bytes > LARGEST_FIRST_BYTES or found.threads > most:
            return found
    return None


def _threads(rendered: Rendered, variant: int, sizes: Sizes) -> int:
    """That the launches of a variant (-1: the original) start at these sizes."""
    return sum(prod(x.grid) * prod(x.block) for x in concretise_variant(rendered, variant, sizes))


def variant_plan(task: Task, rendered: Rendered) -> Plan:
    """For every variant its smallest shape on every input family, then more shapes with families in rotation;
    NaNs and infinities, where they are drawn, at its largest too.

    More shapes: the next smallest in its guard, and the workload's own for which it runs. Shapes at
    which it launches nothing are left out.
    """
    families = task.workload.families
    plan: Plan = []
    for number, v in enumerate(rendered.variants):
        shapes = task.shapes_for(v.guard)
        small = [s for s in shapes[1:] if task.workload.bytes_at(s) <= LARGEST_CHECK_BYTES]
        own = [s for s in task.workload.check if s not in shapes]
        runs = [s for s in (*shapes[:1], *small, *own) if _runs(rendered, number, s)]
        plan += [(s, f) for s in runs[:1] for f in families]
        plan += [(s, families[(k + 1) % len(families)]) for k, s in enumerate(runs[1:])]
        if SPECIALS in families and runs:
            # Among few elements hardly any is special.
            most = (max(runs, key=task.workload.bytes_at), SPECIALS)
            plan += [most] * (most not in plan)
    return plan


def _runs(rendered: Rendered, number: int, sizes: Sizes) -> bool:
    variant, launches = concretise(rendered, sizes)
    return variant == number and bool(launches)


TOO_SMALL_LAUNCH = (
    "the launch leaves elements of {} alone that the kernel computes: "
    "its grid or block is too small, see [launch] of the workload"
)


def misses(expected: Expected, name: str, written: NDArray[Any]) -> bool:
    """Whether an element that was not written should have another value than it began with."""
    want = expected.values[name].reshape(-1)
    began = expected.inputs[name].reshape(-1)
    off = np.abs(want - began.astype(want.dtype)) > expected.tolerances[name].reshape(-1)
    return bool((off & ~written.reshape(-1)).any())


def changed(after: NDArray[Any], before: NDArray[Any]) -> NDArray[Any]:
    """Which elements have other bits than before."""
    was = before.astype(after.dtype).reshape(after.shape)
    bits = np.dtype(f"u{after.dtype.itemsize}")
    return np.asarray(np.ascontiguousarray(after).view(bits) != np.ascontiguousarray(was).view(bits))


def identical(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Which elements are the same number with the same sign, or both NaN."""
    same = a == b
    if a.dtype.kind != "f":
        return np.asarray(same)
    return np.asarray((same & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b)))


class Correctness:
    """Checks modules of one task, remembering which elements the original writes at each shape."""

    def __init__(self, task: Task, references: References) -> None:
        self.task = task
        self.references = references
        self._kept: dict[object, dict[str, NDArray[Any]]] = {}
        self._exact: dict[object, dict[str, NDArray[Any]]] = {}
        self._rounded = rounded_by_order((task.source.kernel,))

    def check_original(self, rendered: Rendered, program: HostProgram) -> Failure | Checked:
        """The kernel as given, on every input family and every check shape: is the lifting right?"""
        plan = original_plan(self.task)
        return self._run(rendered, program, plan, wanted=(-1,))

    def check(self, rendered: Rendered, program: HostProgram) -> Failure | Checked:
        """Every variant, on what `variant_plan` says."""
        plan = variant_plan(self.task, rendered)
        return self._run(rendered, program, plan, wanted=tuple(range(len(rendered.variants))))

    def _run(
        self,
        rendered: Rendered,
        program: HostProgram,
        plan: Sequence[tuple[Sizes, str]],
        wanted: tuple[int, ...],
    ) -> Failure | Checked:
        ran: set[int] = set()  # and stored something
        worst = 0.0
        for sizes, family in plan:
            variant, launches = concretise(rendered, sizes)
            if not launches:
                continue  # an empty domain: nothing runs and nothing is written
            where = at_sizes(sizes)
            try:
                expected = self.references.expected(sizes, family, time_limit_s=TIME_LIMIT_S)
                done = self._execute(program, launches, expected, ("forward", "permuted"))
                if done.findings:
                    first = done.findings[0]
                    if first.kind in HOST_LIMITS:
                        return not_judged(f"{where}: ", first.message)
                    return Failure(f"{where}: {first.message}")
                rounded = self._rounded if variant < 0 else rendered.variants[variant].rounded
                unsteady = [n for n in done.order_sensitive if n not in rounded]
                if unsteady:
                    return Failure(f"{where}: {unsteady[0]} depends on the order of threads")
                if variant >= 0 and self.task.workload.numerics == "exact":
                    differs = self._differs(sizes, family, rendered, program, done)
                    if differs is not None:
                        return Failure(f"{where}, {family} inputs: {differs}")
                again = [self._execute(program, launches, expected, ("permuted",))] * bool(
                    done.order_sensitive
                )
                must = self._written(sizes, rendered, program, expected)
            except EvolveError as e:
                return refused(e, where)
            if any(w.any() for w in done.written.values()):
                ran.add(variant)
            for name in self.task.outputs:
                # Only of the original: of a variant `must` decides, and that is what the original writes.
                if variant < 0 and misses(expected, name, done.written[name]):
                    return Failure(f"{where}: {TOO_SMALL_LAUNCH.format(name)}")
                if (must[name] & ~done.written[name]).any():
                    return Failure(f"{where}: it does not write all of {name}")
                more = done.written[name] & ~must[name]
                if name in self.task.inouts:
                    # Nothing is added to cells that no input reaches: that shows nowhere.
                    more &= changed(done.outputs[name], expected.inputs[name])
                if more.any():
                    return Failure(f"{where}: it writes elements of {name} that the original leaves alone")
                mask = done.written[name]
                want, tolerance = expected.values[name][mask], expected.tolerances[name][mask]
                error = max(worst_error(d.outputs[name][mask], want, tolerance) for d in (done, *again))
                worst = max(worst, error)
                if error > 1.0:
                    return Failure(
                        f"{where}, {family} inputs: {name} is off by {error:.3g} times the tolerance"
                    )
        missing_variants = [v for v in wanted if v not in ran]
        if missing_variants:
            who = f"variant {missing_variants[0] + 1}" if missing_variants[0] >= 0 else "the kernel"
            return not_judged("", f"no sizes were found at which {who} runs and stores anything")
        shapes = {size_key(s): s for s, _ in plan}
        return Checked(len(plan), tuple(sorted(ran)), worst, tuple(shapes.values()))

    def _differs(
        self, sizes: Sizes, family: str, rendered: Rendered, program: HostProgram, done: Execution
    ) -> str | None:
        """What an execution gives otherwise than the original, which the host runs without contraction too.

        Raises EvolveError `sim.original` when it cannot be run to its end.
        """
        key = (size_key(sizes), family)
        if key not in self._exact:
            expected = self.references.expected(sizes, family, time_limit_s=TIME_LIMIT_S)
            self._exact[key] = self._original(sizes, rendered, program, expected).outputs
        for name, want in self._exact[key].items():
            if not identical(done.outputs[name], want).all():
                return f"{name} is not what the kernel itself computes, bit for bit, and numerics are exact"
        return None

    def _written(
        self, sizes: Sizes, rendered: Rendered, program: HostProgram, expected: Expected
    ) -> dict[str, NDArray[Any]]:
        """Elements that the original writes at these sizes, found by running it once.

        Raises EvolveError `sim.original` when it cannot be run to its end.
        """
        key = size_key(sizes)
        if key not in self._kept:
            self._kept[key] = self._original(sizes, rendered, program, expected).written
        return self._kept[key]

    def _original(
        self, sizes: Sizes, rendered: Rendered, program: HostProgram, expected: Expected
    ) -> Execution:
        launches = concretise_variant(rendered, -1, sizes)
        done = self._execute(program, launches, expected, ("forward",))
        if done.findings:
            raise EvolveError("sim.original", f"the original fails there: {done.findings[0].message}")
        return done

    def _execute(
        self,
        program: HostProgram,
        launches: Sequence[ConcreteLaunch],
        expected: Expected,
        orders: tuple[str, ...],
    ) -> Execution:
        options = ExecOptions(
            orders=orders,
            inout=frozenset(self.task.inouts),
            time_limit_s=TIME_LIMIT_S,
            memory_limit_mb=MEMORY_MB,
        )
        return execute(program, launches, expected.inputs, set(self.task.outputs), options)
