"""A sum over the whole grid, from its text to its score: launches executed under checks and estimated."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evolve.codegen.rounding import rounded_by_order
from evolve.devices.estimate import Estimate, together
from evolve.scoring.correctness import Checked, Correctness, Failure
from evolve.scoring.estimated import EstimatedScorer, Executed
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "kernels" / "programs"


@cache
def problem() -> KernelProblem:
    path = ROOT / "kernels" / "total.cu"
    return open_problem(ProblemRequest(str(path), path.read_text(), device="sim:h200-sxm"))


@pytest.mark.parametrize("name", ["total", "alternatives/total-launches"])
def test_programs_for_the_sum_are_right_and_near_the_speed_of_reading(name: str) -> None:
    compiled = problem().compile(problem().parse((PROGRAMS / f"{name}.dsl").read_text()))
    assert compiled.verdict == "PROVED", compiled.diagnostics
    scorer = EstimatedScorer(problem().task)
    begun = scorer.begin(compiled.payload)
    assert isinstance(begun, Executed), begun
    done = scorer.conclude(begun)
    assert done.status == "scored", done.message
    assert 0.9 < done.fitness < 1.0
    (launches,) = (v.launches for v in begun.rendered.variants)
    assert len(launches) == (2 if name.endswith("launches") else 1)
    assert done.time_s == pytest.approx(done.detail["estimate"]["time_s"])
    assert len(done.detail["registers"]) == 1


def test_sums_that_round_by_order_are_compared_with_the_reference_in_each_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = problem().task
    assert rounded_by_order((whole.source.kernel,)) == {"out"}
    few = replace(whole.workload, families=("normal",), check=whole.workload.check[-1:])
    scorer = EstimatedScorer(replace(whole, workload=few))
    begun = scorer.begin(whole.original)
    assert isinstance(begun, Executed), begun
    ran: list[tuple[str, ...]] = []
    execute = Correctness._execute

    def watched(self: Correctness, *args: Any) -> Any:
        ran.append(args[-1])
        return execute(self, *args)

    monkeypatch.setattr(Correctness, "_execute", watched)
    checked = scorer.correctness.check_original(begun.rendered, begun.program)
    assert isinstance(checked, Checked) and ("permuted",) in ran
    monkeypatch.setattr("evolve.scoring.correctness.rounded_by_order", lambda kernels: frozenset())
    failed = Correctness(scorer.task, scorer.references).check_original(begun.rendered, begun.program)
    assert isinstance(failed, Failure) and "order of threads" in failed.message


def test_launches_that_follow_each_other_are_explained_together() -> None:
    long = Estimate(
        9e-5, "dram", {"dram": 8e-5, "launch": 1e-5}, {"dram": 8e-5, "launch": 1e-5}, {"waves": 4.0}
    )
    short = Estimate(2e-5, "latency", {"latency": 1e-5}, {"latency": 1e-5, "launch": 1e-5}, {"waves": 0.1})
    both = together((long, short))
    assert both.time_s == pytest.approx(1.1e-4) and both.binding == "dram"
    assert both.terms == {"dram": 8e-5, "launch": 1e-5, "latency": 1e-5}
    assert sum(both.shares.values()) == pytest.approx(both.time_s)
    assert both.facts == long.facts
    assert together((short,)) is short
