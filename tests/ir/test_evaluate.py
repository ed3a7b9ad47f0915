"""Expressions over scalars have the values that C and isl give them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolve.ir.errors import EvolveError
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load, Select, Unary, UnaryOp, Var, index, var
from evolve.ir.types import DType

INTEGERS = st.integers(-50, 50)
A, B = Var("a", DType.I32), Var("b", DType.I32)


def over(op: BinaryOp, dtype: DType = DType.I32) -> Expr:
    return Binary(op, A, B, dtype)


@given(INTEGERS, INTEGERS.filter(bool))
def test_integer_division_truncates_as_in_c_and_floor_division_rounds_down(a: int, b: int) -> None:
    values = {"a": a, "b": b}
    quotient, rest = evaluate(over(BinaryOp.DIV), values), evaluate(over(BinaryOp.REM), values)
    assert quotient * b + rest == a and abs(rest) < abs(b) and (rest == 0 or (rest < 0) == (a < 0))
    assert evaluate(over(BinaryOp.FLOORDIV), values) == a // b
    assert evaluate(over(BinaryOp.MOD), values) == a % b


def test_floats_divide_exactly() -> None:
    assert evaluate(over(BinaryOp.DIV, DType.F64), {"a": 1.0, "b": 4.0}) == 0.25
    assert evaluate(Cast(Const(2.9, DType.F32), DType.I32), {}) == 2
    assert isinstance(evaluate(Cast(index(3), DType.F32), {}), float)


def test_only_what_is_needed_is_evaluated() -> None:
    by_zero = Binary(BinaryOp.FLOORDIV, index(1), var("n"), DType.INDEX)
    fails = Binary(BinaryOp.GT, by_zero, index(0), DType.BOOL)
    some = Binary(BinaryOp.GT, var("n"), index(0), DType.BOOL)
    assert evaluate(Binary(BinaryOp.AND, some, fails, DType.BOOL), {"n": 0}) is False
    none = Unary(UnaryOp.NOT, some, DType.BOOL)
    assert evaluate(Binary(BinaryOp.OR, none, fails, DType.BOOL), {"n": 0}) is True
    assert evaluate(Select(some, by_zero, index(7), DType.INDEX), {"n": 0}) == 7


@pytest.mark.parametrize(
    ("e", "code", "word"),
    [
        (var("n"), "unknown-scalar", "n"),
        (Binary(BinaryOp.MOD, index(1), index(0), DType.INDEX), "bad-size", "zero"),
        (Load("x", (index(0),), DType.F32), "bad-size", "x[0]"),
        (over(BinaryOp.SHL), "bad-size", "<<"),
    ],
)
def test_what_has_no_value_is_said(e: Expr, code: str, word: str) -> None:
    with pytest.raises(EvolveError) as caught:
        evaluate(e, {"a": 1, "b": 2})
    assert caught.value.code == code and word in str(caught.value)
