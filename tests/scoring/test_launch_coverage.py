"""A launch that does not reach the kernel's whole domain is no baseline: its time would be too good."""

from __future__ import annotations

import pytest

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
    ("text", "grid", "status"),
    (
        (SCALE, "1", "incorrect"),
        (SCALE, "n // 128", "incorrect"),
        (SCALE, "(n + 127) // 128", "scored"),
        (STRIDED, "2", "scored"),
    ),
)
def test_the_launch_reaches_all_that_the_kernel_computes(text: str, grid: str, status: str) -> None:
    score = open_problem(request(text, grid)).baseline()
    assert score.status == status, score.message
    assert ("the launch leaves elements of y alone" in score.message) == (status == "incorrect")
