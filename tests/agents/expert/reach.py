"""How far the expert's sketches get on a kernel: compiled, proved, executed and scored on sim:h200-sxm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evolve.agents.expert.agent import sketches
from evolve.agents.holes import read_template
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem

KERNELS = Path(__file__).parents[3] / "kernels"
DEVICE = "sim:h200-sxm"


@dataclass(frozen=True)
class Reached:
    """The best of the sketches tried: its fitness (0 if none is proved and correct) and its reason."""

    fitness: float
    why: str
    offered: int
    refused: int


def problem_of(name: str, text: str, workload: str | None = None) -> KernelProblem:
    """The problem of a kernel's text on the estimated H200."""
    return open_problem(ProblemRequest(f"{name}.cu", text, workload_text=workload, device=DEVICE))


@cache
def reach(name: str, text: str, workload: str | None, offers: int) -> Reached:
    """The best of the first `offers` sketches, each with the first choice in its holes."""
    problem = problem_of(name, text, workload)
    info = problem.info()
    best, why, refused = 0.0, "", 0
    found = sketches(info.kernel, info.workload["sizes"])
    for sketch in found[:offers]:
        template = read_template(sketch.text)
        program = problem.parse(template.fill((0,) * len(template.choices)))
        compiled = problem.compile(program)
        if compiled.verdict != "PROVED":
            refused += 1
            continue
        score = problem.score(compiled)
        assert score.status == "scored", (sketch.text, score.message)
        if score.fitness > best:
            best, why = score.fitness, sketch.why
    return Reached(best, why, len(found), refused)


def original(name: str, offers: int) -> Reached:
    """What is reached on one of the example kernels."""
    return reach(name, (KERNELS / f"{name}.cu").read_text(), None, offers)
