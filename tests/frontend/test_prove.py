"""Polynomials and the prover of inequalities: everything proved is true, by enumeration."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolve.frontend.polynomial import ONE, Poly, constant, expression, polynomial, variable
from evolve.frontend.prove import Known, facts_of, negate, nonnegative, simplify
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Binary, BinaryOp, Expr, compare, floordiv, index, mod, var
from evolve.ir.types import DType
from evolve.workload.sizes import parse_size

NAMES = ("i", "j", "n", "m")


def _known() -> Known:
    """i in 0..n-1, j in 0..m-1, n and m at least 1."""
    base = Known(lowest=(("n", 1), ("m", 1)))
    return base.inside("i", variable("n")).inside("j", variable("m"))


def _points() -> list[dict[str, int]]:
    return [
        {"i": i, "j": j, "n": n, "m": m}
        for n, m in itertools.product(range(1, 5), repeat=2)
        for i in range(n)
        for j in range(m)
    ]


POINTS = _points()


def expressions() -> st.SearchStrategy[Expr]:
    leaf = st.one_of(st.sampled_from(NAMES).map(var), st.integers(-3, 3).map(index))
    ops = st.sampled_from([BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX])

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        plain = st.builds(lambda o, a, b: Binary(o, a, b, DType.INDEX), ops, inner, inner)
        divided = st.builds(
            lambda o, a, k: Binary(o, a, index(k), DType.INDEX),
            st.sampled_from([BinaryOp.FLOORDIV, BinaryOp.MOD]), inner, st.integers(1, 4),
        )  # fmt: skip
        by_size = st.builds(
            lambda o, a, n: Binary(o, a, var(n), DType.INDEX),
            st.sampled_from([BinaryOp.FLOORDIV, BinaryOp.MOD]), inner, st.sampled_from(["n", "m"]),
        )  # fmt: skip
        return st.one_of(plain, divided, by_size)

    return st.recursive(leaf, grow, max_leaves=6)


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_a_polynomial_has_the_value_of_its_expression(e: Expr) -> None:
    again = expression(polynomial(e))
    for p in POINTS[::7]:
        assert evaluate(again, p) == evaluate(e, p)


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_what_is_proved_holds_everywhere(e: Expr) -> None:
    if nonnegative(polynomial(e), _known()):
        assert all(evaluate(e, p) >= 0 for p in POINTS)


@settings(max_examples=200, deadline=None)
@given(expressions())
def test_simplification_keeps_the_value(e: Expr) -> None:
    simple = expression(simplify(polynomial(e), _known()))
    assert all(evaluate(simple, p) == evaluate(e, p) for p in POINTS)


@settings(max_examples=200, deadline=None)
@given(expressions(), expressions(), st.sampled_from([o for o in BinaryOp if o.is_comparison]))
def test_facts_and_negation(a: Expr, b: Expr, op: BinaryOp) -> None:
    cond = compare(op, a, b)
    for p in POINTS[::5]:
        holds = bool(evaluate(cond, p))
        assert bool(evaluate(negate(cond), p)) != holds
        if holds:
            assert all(evaluate(expression(f), p) >= 0 for f in facts_of(cond))


@pytest.mark.parametrize(
    ("text", "proved"),
    [
        ("n - 1 - i", True),
        ("n - i", True),
        ("m * n - 1 - i * m - j", True),
        ("i * m + j", True),
        ("m * n - 2 - i * m - j", False),
        ("i - 1", False),
        ("n - 2", False),
        ("m - 1 - (i * m + j) % m", True),
        ("(i * m + j) // m", True),
        ("n - 1 - min(i + 1, n - 1)", True),
        ("max(i - 1, 0)", True),
        ("i - max(i - 1, 0)", True),
        ("i // 2 * 2 - i + 1", True),
        ("i // 2 * 2 - i", False),
    ],
)
def test_known_inequalities(text: str, proved: bool) -> None:
    assert nonnegative(polynomial(parse_size(text)), _known()) is proved


def test_facts_are_used() -> None:
    inside = _known().given(*facts_of(compare(BinaryOp.GE, var("i"), 1)))
    assert nonnegative(polynomial(parse_size("i - 1")), inside)
    assert nonnegative(polynomial(parse_size("i * m + j - m")), inside)


@pytest.mark.parametrize(
    ("p", "d", "q", "r"),
    [
        ("i * n + j", "n", "i", "j"),
        ("i * (n + 2) + j", "n + 2", "i", "j"),
        ("i * 64 + j", "64", "i", "j"),
        ("i * 64 + 130", "64", "i + 2", "2"),
        ("i * n * m + j * m + 3", "n * m", "i", "j * m + 3"),
    ],
)
def test_division(p: str, d: str, q: str, r: str) -> None:
    got = polynomial(parse_size(p)).divide(polynomial(parse_size(d)))
    assert got == (polynomial(parse_size(q)), polynomial(parse_size(r)))


def test_digits_of_a_split_index_come_back() -> None:
    flat = Poly(variable("i").terms) * variable("m") + variable("j")
    e = expression(flat)
    assert simplify(polynomial(floordiv(e, var("m"))), _known()) == variable("i")
    assert simplify(polynomial(mod(e, var("m"))), _known()) == variable("j")
    shifted = simplify(polynomial(floordiv(expression(flat + variable("m")), var("m"))), _known())
    assert shifted == variable("i") + ONE
    assert simplify(constant(0), _known()) == constant(0)


def test_whole_blocks_are_no_fewer_than_what_they_cover() -> None:
    """Whatever its sign: `blocks` rounds up."""
    known = Known(lowest=(("n", 1), ("m", 1)))
    for e in (variable("n") - variable("m"), variable("n"), -variable("n")):
        blocks = Binary(BinaryOp.FLOORDIV, expression(e + constant(7)), index(8), DType.INDEX)
        threads = polynomial(blocks) * constant(8)
        assert nonnegative(threads - e, known)
        assert not nonnegative(threads - e - ONE, known)
        assert not nonnegative(e - threads, known)
    fewer = Binary(BinaryOp.FLOORDIV, expression(variable("n") + constant(6)), index(8), DType.INDEX)
    assert not nonnegative(polynomial(fewer) * constant(8) - variable("n"), known)
