"""Which shapes variants are executed at, and that none of them is unaffordable."""

from __future__ import annotations

from pathlib import Path

import pytest

from evolve.scoring.correctness import LARGEST_FIRST_BYTES, variant_plan
from evolve.scoring.references import KEPT_BYTES, References
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem

KERNEL = Path(__file__).parents[2] / "kernels" / "softmax.cu"


@pytest.fixture(scope="module")
def softmax() -> KernelProblem:
    return open_problem(ProblemRequest(str(KERNEL), KERNEL.read_text(), device="sim:h200-sxm"))


def program(guard: str) -> str:
    return f"specialize({guard})\nbind(row, grid.x)\n"


@pytest.mark.parametrize("guard", ["rows == 8192 and cols == 8192", "rows > 3000 and cols > 3000"])
def test_a_guard_that_only_large_sizes_satisfy_is_refused(softmax: KernelProblem, guard: str) -> None:
    done = softmax.compile(softmax.parse(program(guard)))
    assert done.verdict == "UNKNOWN"
    assert [d["code"] for d in done.diagnostics] == ["E-GUARD-CHECK"]


def test_a_launch_of_too_many_threads_is_refused_before_it_runs(softmax: KernelProblem) -> None:
    """8192 blocks of 256 threads at one column: little memory, but forty seconds of execution."""
    lines = ["bind(row, grid.x)", "split([c, c_2, c_3], 256)", "block_reduce([c.i, c_2.i])"]
    text = "\n".join([*lines, "bind(c_3.i, thread.x)", ""])
    assert softmax.compile(softmax.parse(text)).verdict == "PROVED"
    done = softmax.compile(softmax.parse(f"specialize(rows == 8192)\n{text}"))
    assert done.verdict == "UNKNOWN"
    (found,) = done.diagnostics
    assert found["code"] == "E-GUARD-CHECK" and f"{8192 * 256} threads" in found["message"]


def test_sizes_in_the_text_may_start_many_threads() -> None:
    """What the kernel as given starts anyway, its variants may start too."""
    text = """#define N 524288
    __global__ void twice(const float *x, float *y) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < N) y[i] = 2.0f * x[i];
    }"""
    problem = open_problem(ProblemRequest("twice.cu", text, device="sim:h200-sxm"))
    program = "split(i, 256)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n"
    assert problem.compile(problem.parse(program)).verdict == "PROVED"


@pytest.mark.parametrize("guard", ["cols == 8192", "rows == 8192", "rows % 64 == 0 and cols % 64 == 0"])
def test_a_guard_with_small_sizes_is_executed_inside_it(softmax: KernelProblem, guard: str) -> None:
    done = softmax.compile(softmax.parse(program(guard)))
    assert done.verdict == "PROVED"
    from evolve.codegen.module import render
    from evolve.codegen.rendered import concretise

    rendered = render(done.payload)
    plan = variant_plan(softmax.task, rendered)
    assert any(concretise(rendered, sizes)[0] == 0 for sizes, _ in plan)
    assert all(softmax.task.workload.bytes_at(sizes) <= LARGEST_FIRST_BYTES for sizes, _ in plan)


def test_references_in_memory_are_bounded_by_their_bytes(softmax: KernelProblem) -> None:
    references = References(softmax.task)
    shapes = [{"rows": 700 + k, "cols": 900} for k in range(6)]
    sizes = [references.expected(s, "uniform").nbytes for s in shapes]
    assert sum(sizes) > KEPT_BYTES > sizes[0]
    again = references.expected(shapes[-1], "uniform")
    assert again is references.expected(shapes[-1], "uniform")
    assert sum(e.nbytes for e in references._kept.values()) <= KEPT_BYTES
