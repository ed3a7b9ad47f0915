"""What this host cannot execute is set aside with its reason; it is not said to have failed to compile."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from evolve.codegen.module import render
from evolve.devices.sim import process, tracing
from evolve.devices.sim.build import compile_host
from evolve.ir.errors import EvolveError
from evolve.ir.kernel import Module
from evolve.scoring import correctness
from evolve.scoring.correctness import Correctness, Failure, refused
from evolve.scoring.estimated import EstimatedScorer
from evolve.scoring.references import References
from evolve.scoring.task import Task
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem

SAXPY = Path(__file__).parents[2] / "kernels" / "saxpy.cu"
Case = tuple[Task, Module]


@pytest.fixture(scope="module")
def case() -> Case:
    problem = open_problem(ProblemRequest(str(SAXPY), SAXPY.read_text(), device="sim:h200-sxm"))
    program = (SAXPY.parent / "programs" / "saxpy.dsl").read_text()
    compiled = problem.compile(problem.parse(program))
    assert compiled.verdict == "PROVED"
    return problem.task, compiled.payload


def test_memory(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    task, module = case
    scorer = EstimatedScorer(task)
    monkeypatch.setattr(process, "_wait", lambda *_: "memory")
    done = scorer.score(module)
    assert done.status == "quarantined", done.message
    assert done.message.startswith("not judged") and "alpha=1.25, n=" in done.message
    assert "needs more memory than it may use" in done.message


def test_no_shape(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correctness, "variant_plan", lambda task, rendered: [])
    task, module = case
    done = EstimatedScorer(task).score(module)
    assert done.status == "quarantined", done.message
    assert "no sizes were found at which variant 1 runs" in done.message


def test_trace_at_the_timed_size(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tracing.trace.__kwdefaults__, "time_limit_s", 1e-6)
    task, module = case
    done = EstimatedScorer(task).score(module)
    assert done.status == "quarantined", done.message
    assert "not judged" in done.message and "traced at alpha=1.25, n=" in done.message


def test_host_compiler(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise EvolveError("sim.compile", "the host compiler says: no", line=7)

    monkeypatch.setattr("evolve.scoring.estimated.compile_host", fails)
    task, module = case
    done = EstimatedScorer(task).score(module)
    assert done.status == "quarantined", done.message
    assert "line 7" in done.message and "the host compiler says: no" in done.message


def test_a_block_that_no_sm_can_hold_is_a_failure_of_the_compiled_code(case: Case) -> None:
    task, module = case
    limits = replace(task.profile.limits, registers_per_block=1024)
    done = EstimatedScorer(replace(task, profile=replace(task.profile, limits=limits))).score(module)
    assert done.status == "compile_failed", done.message
    assert "cannot be launched" in done.message and "registers" in done.message


@pytest.mark.parametrize("code", ["no-host-compiler", "sim.conformance", "sim.cache", "no-nvrtc"])
def test_errors_about_the_machine_are_raised(code: str) -> None:
    with pytest.raises(EvolveError) as caught:
        refused(EvolveError(code, "gone"), "n=1")
    assert caught.value.code == code


DEEP = """__device__ __noinline__ float slow(int n) {
    volatile float a[64]; a[n & 63] = n; return n ? slow(n + 1) + a[0] : 0.0f; }
"""
SPINS = """__device__ __noinline__ float slow(int n) {
    float s = n; while (s > 0.0f) s = s * 2.0f + 1.0f; return s; }
"""


@pytest.mark.parametrize(("function", "said"), ((DEEP, "overflowed its stack"), (SPINS, "at the time limit")))
def test_stack_and_time_are_the_hosts(
    case: Case, monkeypatch: pytest.MonkeyPatch, function: str, said: str
) -> None:
    monkeypatch.setattr(correctness, "TIME_LIMIT_S", 0.5)
    task, _ = case
    rendered = render(task.original)
    called = re.sub(r"(y\[\w+\] = )", r"\1slow(n) + ", rendered.text, count=1)
    assert called != rendered.text
    program = compile_host(function + called, list(rendered.signatures))
    done = Correctness(task, References(task)).check_original(rendered, program)
    assert isinstance(done, Failure) and done.status == "quarantined"
    assert said in done.message


GATED = """__global__ void k(float *y, const float *x, int n, int m) { if (m != 1000) return;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float s = 0.0f; for (int j = 0; j < m; j++) s += x[i * m + j]; y[i] = s; } }
"""


def test_sizes_at_which_nothing_is_stored_check_nothing() -> None:
    workload = "[[timed]]\nn = 4096\nm = 1000\n[[check]]\nn = 5\nm = 999\n"
    request = ProblemRequest(
        "k.cu", GATED, workload_text=workload, workload_file="w.toml", device="sim:h200-sxm"
    )
    done = open_problem(request).baseline()
    assert done.status == "quarantined"
    assert "no sizes were found at which the kernel runs and stores anything" in done.message


def test_a_variant_is_checked_where_the_kernel_stores() -> None:
    problem = open_problem(ProblemRequest("k.cu", GATED, device="sim:h200-sxm"))
    rendered = render(problem.compile(problem.parse("specialize(n % 64 == 0)\n")).payload)
    plan = correctness.variant_plan(problem.task, rendered)
    first = plan[0][0]
    assert first["m"] == 1000 and first["n"] % 64 == 0
    assert [f for s, f in plan if s == first] == list(problem.task.workload.families)


def test_a_kernel_that_runs_too_long_is_told_after_one_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correctness, "TIME_LIMIT_S", 0.5)
    text = """__global__ void k(float *y, const float *x, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) { float s = x[i]; for (int k = 0; k < 2000000; k++) s = s * 0.999f + 0.001f; y[i] = s; } }"""
    problem = open_problem(ProblemRequest("k.cu", text, device="sim:h200-sxm"))
    began = os.times().children_user
    done = problem.baseline()
    assert done.status == "quarantined" and "n=4099" in done.message and "time limit" in done.message
    assert os.times().children_user - began < 5.0  # a compiler, and the limit; each family would be 36 of it
