"""The CUDA worker and measured scoring, on a GPU. Everything here skips itself elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import Execute, Measure, SetArrays
from evolve.search.devices import choose_device, has_gpu
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from evolve.toolchain.nvrtc import compile_cuda

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_gpu(), reason="needs a CUDA GPU and PyCUDA")]

KERNELS = Path(__file__).parents[3] / "kernels"
N = 1 << 20

TEXT = """
extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
extern "C" __global__ void hang(const float* x, float* y, int n) {
    while (*(volatile const float*)x < 1e30f) {}
}
extern "C" __global__ void stray(const float* x, float* y, int n) { y[(long long)n << 32] = 1.0f; }
extern "C" __global__ void over_end(const float* x, float* y, int n) {
    if (blockIdx.x == 0 && threadIdx.x == 0) y[n + 3] = 1.0f;
}
extern "C" __global__ void spoil(float* x, float* y, int n) { if (blockIdx.x == 0) x[threadIdx.x] = 7.0f; }
"""


@pytest.fixture(scope="module")
def worker() -> Iterator[CudaWorker]:
    w = CudaWorker(0, timeout_s=20.0)
    x = np.arange(N, dtype=np.float32)
    w.set_arrays(SetArrays("a", {"x": x, "y": np.zeros_like(x)}))
    yield w
    w.close()


@pytest.fixture(scope="module")
def cubin(worker: CudaWorker) -> bytes:
    built = compile_cuda(TEXT, worker.info.arch)
    assert built.cubin is not None, built.log
    return built.cubin


def launch(name: str) -> tuple[ConcreteLaunch, ...]:
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", N))
    return (ConcreteLaunch(name, args, (N // 256, 1, 1), (256, 1, 1)),)


def test_runs_and_returns(worker: CudaWorker, cubin: bytes) -> None:
    done = worker.execute(Execute(cubin, launch("twice"), "a", ("y",)))
    assert done.error is None and not done.changed and not done.broken_guards
    assert np.array_equal(done.outputs["y"], 2 * np.arange(N, dtype=np.float32))


def test_writes_where_none_belong_are_seen(worker: CudaWorker, cubin: bytes) -> None:
    assert worker.execute(Execute(cubin, launch("over_end"), "a", ("y",))).broken_guards == ("y",)
    assert worker.execute(Execute(cubin, launch("spoil"), "a", ("y",))).changed == ("x",)


@pytest.mark.parametrize("fault", ["stray", "hang"])
def test_a_fault_costs_the_candidate_and_the_worker_is_replaced(fault: str, cubin: bytes) -> None:
    w = CudaWorker(0, timeout_s=5.0)
    x = np.arange(N, dtype=np.float32)
    w.set_arrays(SetArrays("a", {"x": x, "y": np.zeros_like(x)}))
    try:
        assert w.execute(Execute(cubin, launch(fault), "a", ("y",))).error
        assert w.replaced == 1
        assert w.execute(Execute(cubin, launch("twice"), "a", ("y",))).error is None
    finally:
        w.close()


def test_times_are_cold_and_plausible(worker: CudaWorker, cubin: bytes) -> None:
    done = worker.measure(Measure((cubin, cubin), (launch("twice"), launch("twice")), "a"))
    first, second = (sorted(s)[len(s) // 2] for s in done.samples_us)
    assert 2.0 < first < 100.0
    assert abs(first / second - 1) < 0.2


@pytest.mark.parametrize("name", ["softmax", "transpose", "stencil"])
def test_a_program_is_scored(name: str) -> None:
    assert choose_device("auto")[0].kind == "cuda"
    path = KERNELS / f"{name}.cu"
    problem = open_problem(ProblemRequest(str(path), path.read_text(), device="cuda:0"))
    program = (KERNELS.parent / "benchmarks" / "programs" / f"{name}.dsl").read_text()
    score = problem.score(problem.compile(problem.parse(program)))
    assert score.status == "scored", score.message
    assert 0.7 < score.fitness < 1.05
