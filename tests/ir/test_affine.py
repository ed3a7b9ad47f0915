"""Simplification must never change a value: checked against direct evaluation on random expressions."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from evolve.ir.affine import Ranges, bounds, linear, simplify
from evolve.ir.expr import (
    Binary,
    BinaryOp,
    Const,
    Expr,
    Var,
    add,
    ceildiv,
    compare,
    floordiv,
    mod,
    mul,
    sub,
    var,
)
from evolve.ir.printer import print_expr

EXTENTS = {"a": 4, "b": 16, "c": 5}
RANGES = Ranges({n: (0, e - 1) for n, e in EXTENTS.items()}, {"n": 4}, {"i": var("n")})


def evaluate(e: Expr, env: dict[str, int]) -> int:
    match e:
        case Const():
            return int(e.value)
        case Var():
            return env[e.name]
        case Binary():
            x, y = evaluate(e.lhs, env), evaluate(e.rhs, env)
            table = {
                BinaryOp.ADD: lambda: x + y,
                BinaryOp.SUB: lambda: x - y,
                BinaryOp.MUL: lambda: x * y,
                BinaryOp.FLOORDIV: lambda: x // y,
                BinaryOp.MOD: lambda: x % y,
                BinaryOp.MIN: lambda: min(x, y),
                BinaryOp.MAX: lambda: max(x, y),
                BinaryOp.LT: lambda: int(x < y),
                BinaryOp.LE: lambda: int(x <= y),
                BinaryOp.GT: lambda: int(x > y),
                BinaryOp.GE: lambda: int(x >= y),
                BinaryOp.EQ: lambda: int(x == y),
                BinaryOp.NE: lambda: int(x != y),
            }
            return table[e.op]()
    raise AssertionError(e)


def expressions() -> st.SearchStrategy[Expr]:
    leaf = st.one_of(
        st.integers(-9, 9).map(lambda v: add(v, 0)),
        st.sampled_from([var(n) for n in ("a", "b", "c", "i", "n")]),
    )

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        divisor = st.sampled_from([1, 2, 3, 4, 8, 16])
        minmax = st.sampled_from([BinaryOp.MIN, BinaryOp.MAX])
        return st.one_of(
            st.tuples(inner, inner).map(lambda t: add(*t)),
            st.tuples(inner, inner).map(lambda t: sub(*t)),
            st.tuples(inner, st.integers(-4, 16)).map(lambda t: mul(*t)),
            st.tuples(inner, divisor).map(lambda t: floordiv(*t)),
            st.tuples(inner, divisor).map(lambda t: mod(*t)),
            st.tuples(minmax, inner, inner).map(lambda t: Binary(t[0], t[1], t[2], t[1].dtype)),
        )

    return st.recursive(leaf, grow, max_leaves=8)


def environments() -> st.SearchStrategy[dict[str, int]]:
    def with_loop(n4: int, i: int, a: int, b: int, c: int) -> dict[str, int]:
        return {"n": 4 * n4, "i": i % (4 * n4), "a": a, "b": b, "c": c}

    return st.builds(
        with_loop,
        st.integers(1, 6),
        st.integers(0, 99),
        st.integers(0, 3),
        st.integers(0, 15),
        st.integers(0, 4),
    )


@settings(max_examples=600, deadline=None)
@given(expressions(), environments())
def test_simplify_keeps_the_value(e: Expr, env: dict[str, int]) -> None:
    assert evaluate(simplify(e, RANGES), env) == evaluate(e, env)


@settings(max_examples=400, deadline=None)
@given(expressions(), environments())
def test_bounds_contain_the_value(e: Expr, env: dict[str, int]) -> None:
    low, high = bounds(linear(e, RANGES), RANGES)
    value = evaluate(e, env)
    assert low is None or low <= value
    assert high is None or value <= high


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from([o for o in BinaryOp if o.is_comparison]), expressions(), expressions(), environments()
)
def test_decided_comparisons_are_right(op: BinaryOp, a: Expr, b: Expr, env: dict[str, int]) -> None:
    e = compare(op, a, b)
    assert evaluate(simplify(e, RANGES), env) == evaluate(e, env)


def test_digits_of_a_split_index() -> None:
    k, t, v = var("c"), var("b"), var("a")
    c = add(add(mul(k, 64), mul(t, 4)), v)
    assert simplify(floordiv(c, 64), RANGES) == k
    assert simplify(mod(floordiv(c, 4), 16), RANGES) == t
    assert simplify(mod(c, 4), RANGES) == v
    assert simplify(add(mul(floordiv(c, 4), 4), mod(c, 4)), RANGES) == simplify(c, RANGES)


def test_guard_of_a_dividing_split_vanishes() -> None:
    ranges = Ranges({"v": (0, 3), "n": (1, None)}, {"n": 4}, {"o": floordiv(var("n"), 4)})
    guard = compare(BinaryOp.LT, add(mul(var("o"), 4), var("v")), var("n"))
    assert print_expr(simplify(guard, ranges)) == "true"
    assert print_expr(simplify(guard, Ranges({"v": (0, 3)}, {}, {"o": floordiv(var("n"), 4)}))) != "true"


def test_a_ceiling_of_ceilings_of_a_size_is_one_division() -> None:
    extent: Expr = var("n")
    for _ in range(40):
        extent = simplify(ceildiv(extent, 2), Ranges({"n": (1, None)}, {}))
    assert print_expr(extent) == f"(n + {2**40 - 1}) // {2**40}"


def test_quotients_of_a_multiple_are_compared_in_its_units() -> None:
    ranges = Ranges({"n": (1, None)}, {"n": 16384}, {"o": floordiv(var("n"), 4096)})
    whole = compare(BinaryOp.LT, add(mul(var("o"), 4), 3), floordiv(var("n"), 1024))
    assert print_expr(simplify(whole, ranges)) == "true"
    assert print_expr(simplify(whole, Ranges({"n": (1, None)}, {"n": 1024}, ranges.extents))) != "true"
