"""Sizes inside and just outside a guard."""

from __future__ import annotations

from pathlib import Path

import pytest

from evolve.ir.evaluate import evaluate
from evolve.ir.expr import BinaryOp, Expr, compare, index, mod, var
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from evolve.workload.infer import infer
from evolve.workload.shapes import check_shapes_for
from tests import kernels_ir
from tests.workload.helpers import handmade

SOFTMAX = infer(handmade(kernels_ir.softmax(), "rows"))
MATMUL = infer(handmade(kernels_ir.matmul(), "M"))


def split(guard: tuple[Expr, ...], shapes: list) -> tuple[list, list]:  # type: ignore[type-arg]
    inside = [s for s in shapes if all(evaluate(g, s) for g in guard)]
    return inside, [s for s in shapes if s not in inside]


def test_fixed_columns() -> None:
    guard = (compare(BinaryOp.EQ, var("cols"), 8192),)
    inside, outside = split(guard, check_shapes_for(guard, SOFTMAX))
    assert inside[:2] == [{"rows": 1, "cols": 8192}, {"rows": 3, "cols": 8192}]
    assert {s["cols"] for s in inside} == {8192}
    assert {"rows": 1, "cols": 8193} in outside
    assert {"rows": 1, "cols": 8191} in outside


def test_multiples() -> None:
    guard = (compare(BinaryOp.EQ, mod(var("cols"), 4), 0),)
    inside, outside = split(guard, check_shapes_for(guard, SOFTMAX))
    assert {s["cols"] for s in inside} >= {4, 8}
    assert {s["rows"] for s in inside} >= {1, 3}
    assert {"rows": 1, "cols": 5} in outside


def test_three_sizes() -> None:
    guard = tuple(compare(BinaryOp.EQ, mod(var(n), d), 0) for n, d in (("M", 128), ("N", 128), ("K", 16)))
    inside, outside = split(guard, check_shapes_for(guard, MATMUL))
    assert inside[0] == {"M": 128, "N": 128, "K": 16}
    assert len(inside) >= 4
    assert all(max(s[n] for s in inside) >= 2 * inside[0][n] for n in ("M", "N", "K"))
    assert outside


def test_free_sizes_reach_several_blocks() -> None:
    guard = (compare(BinaryOp.EQ, mod(var("K"), 4), 0),)
    inside, _ = split(guard, check_shapes_for(guard, MATMUL))
    assert any(s["M"] > 128 and s["N"] > 128 and s["M"] % 2 and s["N"] % 2 for s in inside)
    assert any(s["K"] >= 32 for s in inside)
    volumes = [s["M"] * s["N"] * s["K"] for s in inside]
    assert max(volumes) <= 2**20


def test_an_upper_bound_is_kept_while_growing() -> None:
    guard = (compare(BinaryOp.LE, var("cols"), 64), compare(BinaryOp.EQ, mod(var("cols"), 8), 0))
    inside, _ = split(guard, check_shapes_for(guard, SOFTMAX))
    assert max(s["cols"] for s in inside) == 64
    assert max(s["rows"] for s in inside) > 128


def test_bounds_and_multiples_together() -> None:
    guard = (
        compare(BinaryOp.GE, var("cols"), 1000),
        compare(BinaryOp.EQ, mod(var("cols"), 32), 0),
        compare(BinaryOp.LE, var("cols"), 4096),
    )
    inside, outside = split(guard, check_shapes_for(guard, SOFTMAX))
    assert inside[0] == {"rows": 1, "cols": 1024}
    assert outside


def test_no_guard_gives_small_sizes() -> None:
    assert check_shapes_for((), SOFTMAX)[0] == {"rows": 1, "cols": 1}


def test_impossible_guard_gives_nothing() -> None:
    guard = (compare(BinaryOp.GT, var("cols"), 10), compare(BinaryOp.LT, var("cols"), 5))
    assert check_shapes_for(guard, SOFTMAX) == []


@pytest.mark.parametrize(("divisor", "least"), [(2, 10), (4, 12)])
def test_no_array_is_empty_at_a_shape(divisor: int, least: int) -> None:
    """One of n - taps + 1 elements, at sizes which a guard asks to be taps and more."""
    kernel = Path(__file__).parents[2] / "kernels" / "conv1d.cu"
    problem = open_problem(ProblemRequest("conv1d.cu", kernel.read_text(), device="sim:h200-sxm"))
    workload = problem.task.workload
    guard = (compare(BinaryOp.EQ, var("taps"), 9), compare(BinaryOp.EQ, mod(var("n"), index(divisor)), 0))
    inside, outside = split(guard, check_shapes_for(guard, workload))
    assert {(s["n"], s["taps"]) for s in inside} >= {(least, 9)} and outside
    for sizes in (*inside, *outside):
        assert all(n >= 1 for a in workload.arrays for n in a.shape(sizes)), sizes
