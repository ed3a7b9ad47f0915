"""Sizes for the end of a run: new ones, at which something can be judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.ir.expr import TRUE, Binary, BinaryOp, index, var
from evolve.ir.types import DType
from evolve.scoring import held_out
from evolve.scoring.held_out import beyond_l2, draw
from evolve.scoring.task import Task
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from tests.scoring.measured_task import task

THREAD = "int c = blockIdx.x * blockDim.x + threadIdx.x; int r = blockIdx.y * blockDim.y + threadIdx.y;"


def task_of(signature: str, body: str) -> Task:
    text = f'extern "C" __global__ void k({signature}) {{ {THREAD} {body} }}'
    return open_problem(ProblemRequest("k.cu", text, device="sim:h200-sxm")).task


@pytest.fixture(autouse=True)
def near(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes of these tests are small; only those about L2 ask for large ones."""
    if "beyond" not in request.node.name:
        monkeypatch.setattr(held_out, "BEYOND_L2", 0)


def test_one_is_beyond_l2_where_the_timed_ones_are_not() -> None:
    of = task()
    l2 = of.profile.memory.l2_bytes
    *near, far = draw(of, [], 7, 3)
    assert len(near) == 2 and all(of.workload.bytes_at(s) < l2 for s in near)
    assert 4 * l2 <= of.workload.bytes_at(far) < 8 * l2 and far["n"] % of.workload.timed[0]["n"] == 0
    timed = replace(of, workload=replace(of.workload, timed=(far,)))
    assert beyond_l2(timed, []) is None


def test_what_is_beyond_l2_satisfies_the_guard() -> None:
    of = task_of(
        "const float *x, float *y, int rows, int cols", "if (r < rows && c < cols) y[r * cols + c] = 1.0f;"
    )
    small = replace(of, workload=replace(of.workload, timed=({"rows": 64, "cols": 96},)))
    fixed = Binary(BinaryOp.EQ, var("cols"), index(96), DType.BOOL)
    found = beyond_l2(small, [fixed])
    assert found is not None and found["cols"] == 96 and found["rows"] > 64
    assert beyond_l2(small, [fixed, Binary(BinaryOp.LT, var("rows"), index(70), DType.BOOL)]) is not None
    both = Binary(BinaryOp.AND, fixed, Binary(BinaryOp.LT, var("rows"), index(70), DType.BOOL), DType.BOOL)
    assert beyond_l2(small, [both]) is None


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
