"""Sizes for the end of a run: new ones, at which something can be judged."""

from __future__ import annotations

from evolve.ir.expr import TRUE, Binary, BinaryOp, index, var
from evolve.ir.types import DType
from evolve.scoring.held_out import draw
from evolve.scoring.task import Task
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from tests.scoring.measured_task import task

THREAD = "int c = blockIdx.x * blockDim.x + threadIdx.x; int r = blockIdx.y * blockDim.y + threadIdx.y;"


def task_of(signature: str, body: str) -> Task:
    text = f'extern "C" __global__ void k({signature}) {{ {THREAD} {body} }}'
    return open_problem(ProblemRequest("k.cu", text, device="sim:h200-sxm")).task


def test_they_are_new_and_come_from_the_secret() -> None:
    of = task()
    first, again, other = (draw(of, [], s, 4) for s in (7, 7, 8))
    assert first == again != other and len(first) == 4
    known = [s["n"] for s in (*of.workload.timed, *of.workload.check, *of.shapes_for(TRUE))]
    assert not {s["n"] for s in first} & set(known) and len({s["n"] for s in first}) == 4


def test_they_satisfy_a_guard() -> None:
    guard = Binary(BinaryOp.EQ, Binary(BinaryOp.MOD, var("n"), index(64), DType.INDEX), index(0), DType.BOOL)
    found = draw(task(), [guard], 7, 3)
    assert len(found) == 3 and all(s["n"] % 64 == 0 for s in found)


def test_they_lie_where_the_kernel_stores_something() -> None:
    of = task_of("const float *x, float *y, int n", "if (n % 3 == 0 && c < n) y[c] = x[c];")
    found = draw(of, [], 7, 8)
    assert len(found) == 8 and all(s["n"] % 3 == 0 for s in found)


def test_rows_do_not_overlap_there() -> None:
    of = task_of(
        "const float *x, float *y, int rows, int cols, int ld",
        "if (r < rows && c < cols) y[r * ld + c] = x[r * ld + c];",
    )
    found = draw(of, [], 7, 8)
    assert len(found) == 8 and all(s["ld"] >= s["cols"] for s in found)
