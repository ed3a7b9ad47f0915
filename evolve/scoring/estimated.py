"""Scoring without a GPU: executed on the CPU under checks, its time estimated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from evolve.codegen.launch import ConcreteLaunch
from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered, concretise
from evolve.devices.estimate import Estimate, together
from evolve.devices.sim.build import HostProgram, compile_host
from evolve.ir.errors import EvolveError
from evolve.ir.kernel import Module
from evolve.scoring.correctness import Checked, Correctness, Failure, at_sizes, refused
from evolve.scoring.detail import describe
from evolve.scoring.fitness import beats_physics, fitness
from evolve.scoring.model import estimates
from evolve.scoring.references import References
from evolve.scoring.task import Outcome, Task
from evolve.sol.gap import gap
from evolve.target.limits import occupancy
from evolve.toolchain.cubin import Cubin, read_cubin
from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import Sass, disassemble


@dataclass(frozen=True)
class Executed:
    """A module that was compiled and passed its execution; only its time is missing."""

    rendered: Rendered
    program: HostProgram
    image: bytes
    checked: Checked


class EstimatedScorer:
    """Scores modules of one task for a GPU that is not there. Every time it gives is an estimate.

    `begin`, `look` and `conclude` are the stages of `score`, for several modules at a time: a disassembler
    takes a third of a second to start and next to nothing for each kernel.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.references = References(task)
        self.correctness = Correctness(task, self.references)
        self.arch = task.profile.arch

    def baseline(self) -> Outcome:
        """The original, which must agree with the reference on every family: else the lifting is wrong."""
        return self.score(self.task.original)

    def score(self, module: Module) -> Outcome:
        """A proved module."""
        begun = self.begin(module)
        return begun if isinstance(begun, Outcome) else self.conclude(begun)

    def begin(self, module: Module) -> Outcome | Executed:
        """Compiles and executes: why it has no score, or what `conclude` needs."""
        rendered = render(module)
        text = rendered.text
        built = compile_cuda(rendered.by_statement, self.arch, [LINE_INFO])
        if built.cubin is None:
            first = built.errors[0] if built.errors else None
            where = f"line {first.line}: " if first and first.line else ""
            return Outcome("compile_failed", text, message=where + (first.message if first else built.log))
        try:
            program = compile_host(rendered.by_statement, list(rendered.signatures))
        except EvolveError as e:
            failure = refused(e, f"line {e.line}" if e.line else "its host build")
            return Outcome(failure.status, text, message=failure.message)
        check = self.correctness.check if module.variants else self.correctness.check_original
        checked = check(rendered, program)
        if isinstance(checked, Failure):
            return Outcome(checked.status, text, message=checked.message)
        return Executed(rendered, program, built.cubin, checked)

    def look(self, executed: Sequence[Executed]) -> list[dict[str, Sass]]:
        """Machine code by kernel, of each. Raises as `disassemble`: one bad image spoils all."""
        return disassemble([e.image for e in executed])

    def conclude(self, executed: Executed, sass: Mapping[str, Sass] | None = None) -> Outcome:
        """Its estimated time; `sass` as `look` gives it, None to disassemble now."""
        rendered, program, checked = executed.rendered, executed.program, executed.checked
        cubin = read_cubin(executed.image)
        sass = self.look([executed])[0] if sass is None else sass
        totals: list[float] = []
        first: Estimate | None = None
        variants: list[int] = []
        for shape, sizes in enumerate(self.task.workload.timed):
            variant, launches = concretise(rendered, sizes)
            variants.append(variant)
            too_much = self._unlaunchable(cubin, launches)
            if too_much:
                return Outcome("compile_failed", rendered.text, message=too_much)
            try:
                parts = estimates(self.task, rendered, program, cubin.kernels, sass, shape)
            except EvolveError as e:
                # Every shape passed, so what stops the trace is a limit of the host's or its made-up data.
                failure = refused(e, f"traced at {at_sizes(sizes)} for the estimate")
                return Outcome(failure.status, rendered.text, message=failure.message)
            whole = together(parts)
            totals.append(whole.time_s)
            first = first or whole
        detail = describe(rendered, cubin, variants, checked.runs, checked.shapes) | {
            "worst_error": checked.worst,
            "times_us": [t * 1e6 for t in totals],
            "estimate": first.to_json() if first else {},
        }
        suspicious = beats_physics(self.task, totals)
        if suspicious:
            return Outcome("quarantined", rendered.text, sum(totals), detail=detail, message=suspicious)
        assert first is not None
        report = gap(self.task.bounds[0], first.breakdown())
        return Outcome(
            "scored",
            rendered.text,
            time_s=sum(totals),
            fitness=fitness(self.task, totals),
            gap=report.to_json(),
            detail=detail,
        )

    def _unlaunchable(self, cubin: Cubin, launches: Sequence[ConcreteLaunch]) -> str | None:
        """Why the compiled code cannot be launched on this GPU: a block that no SM can hold."""
        for launch in launches:
            kernel = cubin.kernels[launch.kernel]
            threads, shared = prod(launch.block), kernel.shared_bytes + launch.shared_bytes
            if occupancy(self.task.profile, kernel.registers, shared, threads).blocks_per_sm == 0:
                return (
                    f"the compiled code cannot be launched: a block of {threads} threads with "
                    f"{kernel.registers} registers each and {shared} bytes of shared memory "
                    f"does not fit an SM of {self.task.profile.name}"
                )
        return None
