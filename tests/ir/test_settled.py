"""Facts about parameters: what they decide is what every value that satisfies them decides."""

from __future__ import annotations

import math
import random
from itertools import product

import numpy as np
import pytest

from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Select, Unary, UnaryOp, Var, compare, var
from evolve.ir.settled import compared, data_facts, settled, under
from evolve.ir.stmt import If
from evolve.ir.types import DType
from evolve.ir.visit import walk
from tests.interpreter import run
from tests.transforms.fixtures import KERNELS

COMPARISONS = [op for op in BinaryOp if op.is_comparison]
VALUES: dict[DType, list[int | float]] = {
    DType.I32: list(range(-3, 4)),
    DType.F32: [-math.inf, -1.5, -1.0, -0.0, 0.0, 0.5, 1.0, 1.5, 2.0, math.inf, math.nan],
    DType.BOOL: [False, True],
}


def comparison(op: BinaryOp, value: int | float, dtype: DType) -> Binary:
    return Binary(op, Var("p", dtype), Const(value, dtype), DType.BOOL)


@pytest.mark.parametrize("dtype", [DType.I32, DType.F32])
def test_a_comparison_is_decided_when_all_values_agree_and_only_then(dtype: DType) -> None:
    numbers = [v for v in VALUES[dtype] if math.isfinite(v)]
    for known, a, asked, b in product(COMPARISONS, numbers, COMPARISONS, numbers):
        fact, question = comparison(known, a, dtype), comparison(asked, b, dtype)
        got = settled(question, data_facts((fact,)))
        holding = [v for v in VALUES[dtype] if evaluate(fact, {"p": v})]
        answers = {bool(evaluate(question, {"p": v})) for v in holding}
        if isinstance(got, Const):
            assert answers <= {got.value}, (known, a, asked, b)
        elif dtype is DType.I32 and len(answers) == 1 and known is not BinaryOp.NE:
            # Within the few values there are; an open end of the range may answer otherwise.
            ends = (BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE)
            assert known in ends, (known, a, asked, b)


def drawn(rng: random.Random, depth: int) -> Expr:
    """A condition over p, q (i32), f (f32) and b (bool)."""
    kind = rng.randrange(6 if depth else 2)
    if kind == 0:
        return Var("b", DType.BOOL)
    if kind == 1:
        name, dtype = rng.choice([("p", DType.I32), ("q", DType.I32), ("f", DType.F32)])
        sides = [Var(name, dtype), Const(rng.choice(VALUES[dtype][3:7]), dtype)]
        rng.shuffle(sides)
        return Binary(rng.choice(COMPARISONS), sides[0], sides[1], DType.BOOL)
    if kind == 2:
        return Unary(UnaryOp.NOT, drawn(rng, depth - 1), DType.BOOL)
    if kind == 3:
        inner = Cast(drawn(rng, depth - 1), DType.I32)
        return Binary(BinaryOp.NE, inner, Const(rng.choice([0, 1]), DType.I32), DType.BOOL)
    if kind == 4:
        parts = [drawn(rng, depth - 1) for _ in range(3)]
        return Select(parts[0], parts[1], parts[2], DType.BOOL)
    op = rng.choice([BinaryOp.AND, BinaryOp.OR])
    return Binary(op, drawn(rng, depth - 1), drawn(rng, depth - 1), DType.BOOL)


def test_random_conditions_keep_their_value_where_the_facts_hold() -> None:
    rng = random.Random(5)
    simpler = 0
    for _ in range(400):
        facts = tuple(drawn(rng, 0) for _ in range(rng.randint(1, 3)))
        facts = tuple(f if isinstance(f, Binary) else comparison(BinaryOp.EQ, 1, DType.I32) for f in facts)
        cond = drawn(rng, 3)
        got = settled(cond, data_facts(facts))
        simpler += got != cond
        domain = (VALUES[DType.I32], VALUES[DType.I32], VALUES[DType.F32], VALUES[DType.BOOL])
        for values in rng.sample(list(product(*domain)), 60):
            at = dict(zip("pqfb", values, strict=True))
            if all(evaluate(f, at) for f in facts):
                assert bool(evaluate(got, at)) == bool(evaluate(cond, at)), (facts, cond, at)
    assert simpler > 100


def test_sizes_and_zeros_of_floats_stay() -> None:
    n = compare(BinaryOp.EQ, var("n"), 8)
    assert not data_facts((n,))
    zero = comparison(BinaryOp.EQ, 0.0, DType.F32)
    facts = data_facts((zero,))
    assert settled(zero, facts) == Const(True, DType.BOOL)
    assert settled(Var("p", DType.F32), facts) == Var("p", DType.F32)
    one = data_facts((comparison(BinaryOp.EQ, 1.0, DType.F32),))
    assert settled(Var("p", DType.F32), one) == Const(1.0, DType.F32)


def test_numbers_are_compared_as_their_type_holds_them() -> None:
    """0.1 is no float, and is compared with as the float next to it."""
    above = comparison(BinaryOp.GE, 0.1, DType.F32)
    held = comparison(BinaryOp.EQ, float(np.float32(0.1)), DType.F32)
    assert settled(above, data_facts((held,))) == Const(True, DType.BOOL)


def test_a_kernel_under_facts_computes_the_same_and_lacks_what_they_decide() -> None:
    kernel = KERNELS["activation"]()
    assert {name for name, _, _ in compared(kernel)} == {"bias", "mode", "alpha"}
    x, b = np.arange(5.0), np.ones(5)
    for mode, bias, alpha in product((1, 2), (0, 1), (0.5, 3.0)):
        at = {"mode": mode, "bias": bias}
        facts = [
            Binary(BinaryOp.EQ, Var(k, DType.I32), Const(v, DType.I32), DType.BOOL) for k, v in at.items()
        ]
        got = under(kernel, facts)
        assert not any(isinstance(s.stmt, If) for s in walk(got.body))
        arrays, scalars = {"x": x, "b": b}, {"n": 5, "alpha": alpha, **at}
        want = run(kernel, arrays, scalars)["y"]
        assert np.array_equal(run(got, arrays, scalars)["y"], want)
    assert under(kernel, ()) is kernel
