"""The programs of kernels/programs/, proved and built for the sizes at which their kernels are timed.

A case is a kernel of kernels/, or one run on other inputs: `histogram-equal` is `histogram` on what
kernels/workloads/histogram-equal.toml says, and `cross_entropy-fast` is `cross_entropy` under
another numerics contract.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evolve.codegen.launch import BufferArg, ConcreteLaunch
from evolve.codegen.module import render
from evolve.codegen.rendered import concretise
from evolve.scoring.built import Built, build
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem
from evolve.toolchain.cubin import read_cubin

KERNELS = Path(__file__).parent.parent / "kernels"
PROGRAMS = KERNELS / "programs"
WORKLOADS = KERNELS / "workloads"


@dataclass(frozen=True)
class Program:
    """A proved and built program, and its launches at the timed sizes. `name` is its file's stem."""

    name: str
    text: str
    built: Built
    launches: tuple[ConcreteLaunch, ...]


@dataclass(frozen=True)
class Prepared:
    """A case with its programs, all that can be done without a GPU. `kernel` is its kernel's name."""

    kernel: str
    problem: KernelProblem
    programs: tuple[Program, ...]

    @property
    def sizes(self) -> Mapping[str, int | float]:
        return self.problem.task.workload.timed[0]

    @property
    def moved(self) -> tuple[int, int]:
        """Bytes that the kernel must read and write."""
        bound = self.problem.task.bounds[0]
        return bound.bytes_read, bound.bytes_written


def kernel_of(case: str) -> str:
    """The kernel that a case runs."""
    return case.partition("-")[0] if (WORKLOADS / f"{case}.toml").is_file() else case


def files_of(case: str) -> list[Path]:
    """Its kernel's program, then the alternatives: those named after the case, if there are any, else those
    that are for no other case."""
    kernel = kernel_of(case)
    found = sorted((PROGRAMS / "alternatives").glob(f"{kernel}-*.dsl"))
    own = [f for f in found if case_of(f) == case]
    others = [f for f in found if case_of(f) is None]
    # A program that shares out sums is none under `exact`.
    first = [] if own and contract_of(case) == "exact" else [PROGRAMS / f"{kernel}.dsl"]
    return [*first, *(own or others)]


def contract_of(case: str) -> str:
    """The numerics contract that its workload names."""
    given = WORKLOADS / f"{case}.toml"
    return str(tomllib.loads(given.read_text()).get("numerics", "reassociate"))


def case_of(alternative: Path) -> str | None:
    """The case that an alternative is named after, as `cross_entropy-fast`; None if after its kernel only."""
    words = alternative.stem.split("-")
    names = ("-".join(words[:n]) for n in range(len(words), 0, -1))
    return next((n for n in names if (WORKLOADS / f"{n}.toml").is_file()), None)


def prepare(case: str, device: str) -> Prepared:
    """Raises ValueError when a program is not proved, or when not its variant but the original would run."""
    kernel = kernel_of(case)
    path, given = KERNELS / f"{kernel}.cu", WORKLOADS / f"{case}.toml"
    workload = given.read_text() if given.is_file() else None
    request = ProblemRequest(
        str(path), path.read_text(), workload_text=workload, workload_file=str(given), device=device
    )
    problem = open_problem(request)
    programs = []
    for file in files_of(case):
        text = file.read_text()
        compiled = problem.compile(problem.parse(text))
        if compiled.verdict != "PROVED":
            raise ValueError(f"{file.name}: {compiled.verdict}: {compiled.diagnostics}")
        built = build(render(compiled.payload), problem.task.profile.arch)
        variant, launches = concretise(built.rendered, problem.task.workload.timed[0])
        kernels = read_cubin(built.cubin).kernels
        arrays = {a.name for a in problem.task.workload.arrays}
        if variant < 0 or any(x.kernel not in kernels for x in launches):
            raise ValueError(f"{file.name}: the original would run")
        if any(isinstance(a, BufferArg) and a.name not in arrays for x in launches for a in x.args):
            raise ValueError(f"{file.name}: a launch needs an array that the workload lacks")
        programs.append(Program(file.stem, text, built, launches))
    return Prepared(kernel, problem, tuple(programs))
