"""Values of flags, modes and factors at which checks run."""

from __future__ import annotations

from evolve.frontend.lift import lift
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Var
from evolve.ir.kernel import Kernel
from evolve.ir.types import DType
from evolve.workload.infer import infer
from evolve.workload.parameters import MOST, in_turns, settings

MODES = """
__global__ void k(const float *x, float *y, int n, int mode, float alpha, bool twice) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = mode == 1 ? x[i] * alpha : x[i];
    y[i] = twice ? 2.0f * v : v;
}
"""
AT = {"n": 64, "mode": 7, "alpha": 1.5, "twice": 1}


def kernel(text: str = MODES) -> Kernel:
    return lift("k.cu", None, text).kernel


def mode(op: BinaryOp, value: int) -> Expr:
    return Binary(op, Var("mode", DType.I32), Const(value, DType.I32), DType.BOOL)


def test_the_timed_setting_is_first_and_every_value_has_a_turn() -> None:
    first, *others = settings(kernel(), [AT])
    assert first == {"mode": 7, "alpha": 1.5, "twice": 1}
    assert {s["mode"] for s in others} >= {0, 1, 2}
    assert {s["alpha"] for s in others} >= {0.75} and {s["twice"] for s in others} == {0, 1}
    assert len(others) < MOST


def test_what_a_variant_is_specialised_on_stays() -> None:
    fixed = [mode(BinaryOp.NE, 1)]
    assert {s["mode"] for s in settings(kernel(), [AT], fixed)} == {0, 2, 7}
    assert {s["mode"] for s in settings(kernel(), [AT], [mode(BinaryOp.EQ, 1)])} == {1}
    assert settings(kernel(), [AT], [mode(BinaryOp.GE, 9)]) == [settings(kernel(), [AT])[0]]


def test_every_timed_setting_is_among_them() -> None:
    found = settings(kernel(), [AT, AT | {"mode": 1}, AT | {"mode": 40}])
    assert [s["mode"] for s in found[:3]] == [7, 1, 40]


def test_integers_that_something_is_divided_by_do_not_become_zero() -> None:
    text = """
    __global__ void k(const int *x, int *y, int n, int p, int s) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = p == 1 ? x[i] : x[i] % p + (x[i] >> s);
    }
    """
    found = settings(kernel(text), [{"n": 64, "p": 1, "s": 3}])
    assert {s["p"] for s in found} == {1, 2} and {s["s"] for s in found} == {3, 4}


def test_shapes_take_turns_and_none_leaves_the_guard() -> None:
    rows = settings(kernel(), [AT])
    shapes = [{**AT, "n": n} for n in (1, 3)]
    found = in_turns(shapes, rows, [])
    assert [s["n"] for s in found] == [1, 3, *[3] * (len(rows) - 2)]
    assert [{k: s[k] for k in rows[0]} for s in found] == rows
    assert {s["mode"] for s in in_turns(shapes, rows, [mode(BinaryOp.GE, 2)])} == {2, 7}
    assert in_turns(shapes, [{}], []) == shapes


def test_inferred_checks_reach_both_sides_of_a_comparison() -> None:
    found = infer(lift("k.cu", None, MODES)).check
    assert {s["mode"] == 1 for s in found} == {s["twice"] == 1 for s in found} == {True, False}
