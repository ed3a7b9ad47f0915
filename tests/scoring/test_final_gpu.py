"""The examination of measured programs on a GPU, everything in it real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evolve.devices.cuda.alone import find
from evolve.scoring.built import build
from evolve.scoring.measured import MeasuredScorer
from evolve.scoring.profiled import Profiling
from evolve.search.devices import has_gpu
from evolve.search.problem import ProblemRequest
from evolve.sol.breakdown import Breakdown
from evolve.sol.counters import MEMORY
from tests.exploits.cases import CASES, candidate, task

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_gpu(), reason="needs a CUDA GPU and PyCUDA")]

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kernel", ["softmax", "row_sum", "transpose"])
def test_a_proved_program_passes(kernel: str) -> None:
    from evolve.search.measured_task import MeasuredProblem
    from evolve.search.task import open_problem

    path = ROOT / "kernels" / f"{kernel}.cu"
    problem = open_problem(ProblemRequest(str(path), path.read_text(), device="cuda:0"))
    assert isinstance(problem, MeasuredProblem)
    try:
        compiled = problem.compile(problem.parse((ROOT / f"kernels/programs/{kernel}.dsl").read_text()))
        assert compiled.verdict == "PROVED"
        got = problem.examine(problem.build(compiled))
    finally:
        problem.close()
    print(json.dumps(got, indent=1, allow_nan=False))
    assert got["failures"] == []
    assert [h["verdict"] for h in got["held_out"]] == ["right"] * 3
    assert got["perturbed"] and all(p["affected"] and p["verdict"] == "right" for p in got["perturbed"])
    assert got["retimed"]["better"] and got["retimed"]["speedup"] > 1.0
    (low, high) = got["retimed"]["noise_interval"][0]
    assert 0.98 < low <= high < 1.02
    sanitizer = got["sanitizer"]["state"]
    assert sanitizer == ("not installed" if find("compute-sanitizer") is None else "clean")
    assert got["state"] == "passed", got["open_points"]
    counters = got["counters"]
    assert counters["state"] in ("counted", "not installed", "not permitted"), counters["message"]
    assert counters["state"] != "counted" or counters["memory"] > counters["compute"]


def test_counters_or_why_not() -> None:
    of = task("row_sum", "cuda:0")
    scorer = MeasuredScorer(of)
    profiling = Profiling(of, scorer.secret)
    try:
        tree = candidate("row_sum", of, CASES["row_sum"][0])
        model = Breakdown(1e-3, "measured")
        got = profiling.counted(build(tree, scorer.worker.info.arch), model)
    finally:
        scorer.close()
        profiling.close()
    print(profiling.unavailable, got)
    if profiling.unavailable is None:
        assert got.facts[MEMORY] > 0.3
        assert got.facts["dram_read"] == pytest.approx(of.bounds[0].bytes_read, rel=0.2)
    else:
        assert profiling.unavailable.kind != "failed", profiling.unavailable.message
        assert got == model
