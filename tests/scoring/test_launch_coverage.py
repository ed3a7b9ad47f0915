"""A launch that does not reach the kernel's whole domain is no baseline: its time would be too good."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.ir.errors import EvolveError
from evolve.ir.expr import index
from evolve.ir.printer import print_expr
from evolve.scoring.estimated import EstimatedScorer
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem

SCALE = """__global__ void scale(float *y, const float *x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
"""
STRIDED = """__global__ void scale(float *y, const float *x, float a, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i];
}
"""


def request(text: str, grid: str) -> ProblemRequest:
    launch = f'[launch]\ngrid = ["{grid}", "1", "1"]\nblock = ["128", "1", "1"]\n'
    workload = f"[[timed]]\na = 2.0\nn = 65536\n{launch}"
    return ProblemRequest("k.cu", text, workload_text=workload, workload_file="w.toml", device="sim:h100-sxm")


@pytest.mark.parametrize(
    ("text", "grid", "facts"),
    (
        (SCALE, "n // 128", ["n <= n // 128 * 128"]),
        (SCALE, "(n + 127) // 128", []),
        (STRIDED, "2", []),
    ),
)
def test_the_launch_reaches_all_that_the_kernel_computes(text: str, grid: str, facts: list[str]) -> None:
    """Where it does not at all sizes, programs are for those at which it does."""
    problem = open_problem(request(text, grid))
    assert [print_expr(f) for f in problem.task.source.no_wrap] == facts
    score = problem.baseline()
    assert score.status == "scored", score.message


def test_a_launch_that_never_does_is_refused() -> None:
    with pytest.raises(EvolveError, match="the original's launch does not cover the kernel's domain"):
        open_problem(request(SCALE, "1"))


def test_a_launch_that_is_too_small_would_be_found_by_execution() -> None:
    task = open_problem(request(SCALE, "(n + 127) // 128")).task
    one = replace(task.source.original, grid=(index(1), index(1), index(1)))
    outcome = EstimatedScorer(replace(task, source=replace(task.source, original=one))).baseline()
    assert outcome.status == "incorrect" and "the launch leaves elements of y alone" in outcome.message
