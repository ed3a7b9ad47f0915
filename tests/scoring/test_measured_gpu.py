"""Measured scoring on a real GPU. Everything here skips itself elsewhere."""

from __future__ import annotations

import cProfile
import pstats
import time
from pathlib import Path

import numpy as np
import pytest

from evolve.devices.compare import bounds
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import SetArrays
from evolve.scoring.reference_gpu import GpuReference
from evolve.scoring.references import References
from evolve.search.devices import choose_device, has_gpu
from evolve.search.measured_task import MeasuredProblem
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_gpu(), reason="needs a CUDA GPU and PyCUDA")]

KERNELS = Path(__file__).parents[2] / "kernels"
PROGRAMS = KERNELS / "programs"


def problem_of(name: str, workload: str | None = None) -> MeasuredProblem:
    path = KERNELS / f"{name}.cu"
    request = ProblemRequest(str(path), path.read_text(), workload_text=workload, device="cuda:0")
    problem = open_problem(request)
    assert isinstance(problem, MeasuredProblem)
    return problem


@pytest.mark.parametrize("name", ["softmax", "transpose", "stencil", "matmul"])
def test_a_program_is_scored(name: str) -> None:
    """Prints how long each part takes, and the duel of the program with the original."""
    assert choose_device("auto")[0].kind == "cuda"
    problem = problem_of(name)
    begin = time.monotonic()
    scorer = problem.scorer_on()
    made = time.monotonic()
    try:
        baseline = problem.baseline()
        based = time.monotonic()
        assert baseline.status == "scored", baseline.message
        compiled = problem.compile(problem.parse((PROGRAMS / f"{name}.dsl").read_text()))
        start = time.monotonic()
        score = problem.score(compiled)
        scored = time.monotonic()
        assert score.status == "scored", score.message
        duel = problem.compare(compiled, compiled)
        dueled = time.monotonic()
        scorer.timed._digests.clear()
        scorer.timed._seen.clear()
        profile = cProfile.Profile()
        profile.enable()
        again = time.monotonic()
        assert problem.score(compiled).status == "scored"
        again = time.monotonic() - again
        profile.disable()
    finally:
        scorer.close()
    seconds = made - begin, based - made, scored - start, dueled - scored
    print(name, "prepared, baseline, score, duel: {:.1f} {:.1f} {:.2f} {:.2f} s".format(*seconds))
    print(f"baseline {baseline.time_us:.1f} us, program {score.time_us:.1f} us, fitness {score.fitness:.3f}")
    print(score.detail["timing"], duel)
    print(f"scored once more, with everything prepared: {again:.2f} s")
    pstats.Stats(profile).sort_stats("cumulative").print_stats(25)
    assert 0.5 < score.fitness < 1.12
    assert score.detail["timing"][0]["right_by"] == "reference"
    assert not duel.better, "a program is not faster than itself"


def test_a_short_kernel_is_timed_in_batches_too() -> None:
    problem = problem_of("vecadd", 'entry = "vecadd"\n[[timed]]\nn = 65536\n[[check]]\nn = 4099\n')
    scorer = problem.scorer_on()
    try:
        score = problem.baseline()
        assert score.status == "scored", score.message
        batch = score.detail["timing"][0]["batch"]
        print(score.time_us, batch, score.detail["timing"][0]["floor_us"])
        assert batch is not None and np.median(batch["us"]) < score.time_us
        assert score.detail["l2_resident"] == [True]
    finally:
        scorer.close()


def test_launches_that_share_scratch_memory_are_scored() -> None:
    problem = problem_of("total", 'entry = "total"\n[[timed]]\nn = 67108864\n[[check]]\nn = 4099\n')
    compiled = problem.compile(problem.parse((PROGRAMS / "alternatives" / "total-launches.dsl").read_text()))
    scorer = problem.scorer_on()
    try:
        assert problem.baseline().status == "scored"
        score = problem.score(compiled)
        print(score.time_us, score.fitness, score.detail["timing"][0])
        assert score.status == "scored", score.message
        assert 0.5 < score.fitness < 1.12
    finally:
        scorer.close()


@pytest.mark.parametrize("name", sorted(p.stem for p in KERNELS.glob("*.cu")))
def test_the_reference_on_the_gpu_is_the_hosts(name: str, tmp_path: Path) -> None:
    """Bounds from both, on the largest check size: the same, but for the last bits of double functions."""
    problem = problem_of(name)
    task = problem.task
    worker = CudaWorker()
    try:
        gpu = GpuReference(task, worker, tmp_path)
        sizes = max(task.workload.check, key=task.workload.bytes_at)
        for family in task.workload.families:
            e = References(task).expected(sizes, family)
            worker.set_arrays(SetArrays("r", e.inputs))
            found = gpu.bounds("r", sizes, family)
            assert found is not None
            for output, (low_file, high_file) in found.items():
                dtype = e.inputs[output].dtype
                low, high = bounds(e.values[output], e.tolerances[output], dtype)
                width = np.maximum(high.astype(np.float64) - low, np.finfo(np.float32).tiny)
                for a, b in ((np.load(low_file), low), (np.load(high_file), high)):
                    same = (a == b) | (np.isnan(a) & np.isnan(b))
                    near = np.abs(a.astype(np.float64) - b) <= 0.05 * width
                    assert (same | near).all(), (family, output)
    finally:
        worker.close()
