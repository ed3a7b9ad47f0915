"""Domains of loops whose extents depend on other loops: counted as an enumeration counts them."""

from __future__ import annotations

import pytest

from evolve.features.domain import domain_of
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, add, floordiv, index, mul, sub, var
from evolve.ir.stmt import Block, For, Store
from evolve.ir.types import DType, LoopKind
from evolve.ir.visit import Site, walk

N, M = var("n"), var("m")
ROW = var("i")


def least(a: Expr | int, b: Expr | int) -> Expr:
    return _extreme(BinaryOp.MIN, a, b)


def most(a: Expr | int, b: Expr | int) -> Expr:
    return _extreme(BinaryOp.MAX, a, b)


def _extreme(op: BinaryOp, a: Expr | int, b: Expr | int) -> Expr:
    x, y = (index(e) if isinstance(e, int) else e for e in (a, b))
    return Binary(op, x, y, DType.INDEX)


EXTENTS = {
    "triangle": ROW,
    "band": sub(least(N, add(add(ROW, M), 1)), most(0, sub(ROW, M))),
    "from one side": sub(N, most(3, ROW)),
    "every third": floordiv(add(sub(N, ROW), 2), 3),
    "every second of a window": floordiv(add(least(add(ROW, 5), N), 1), 2),
    "rounded and more": add(floordiv(ROW, 4), 2),
    "twice the smaller": mul(least(ROW, M), 2),
}


def _site(extent: Expr) -> Site:
    store = Store("y", (), Const(1.0, DType.F32))
    inner = For("j", extent, LoopKind.SERIAL, Block((store,)))
    body = Block((For("i", N, LoopKind.PARALLEL, Block((inner,))),))
    return next(s for s in walk(body) if s.stmt is store)


@pytest.mark.parametrize("name", list(EXTENTS))
@pytest.mark.parametrize(("n", "m"), [(1, 1), (9, 2), (40, 7), (7, 40)])
def test_points_are_counted(name: str, n: int, m: int) -> None:
    sizes = {"n": n, "m": m}
    domain = domain_of(_site(EXTENTS[name]), sizes)
    trips = [int(evaluate(EXTENTS[name], {**sizes, "i": i})) for i in range(n)]
    assert domain.counted
    assert domain.points == sum(max(0, t) for t in trips)
    assert domain.trips("j") >= max(0, *trips, 0)


def test_a_size_as_divisor_is_a_number_here() -> None:
    domain = domain_of(_site(floordiv(mul(ROW, 2), M)), {"n": 8, "m": 3})
    assert domain.points == sum(2 * i // 3 for i in range(8))


@pytest.mark.parametrize("extent", [most(ROW, M), mul(least(ROW, 3), -1), mul(floordiv(ROW, 2), 3)])
def test_other_extents_are_errors_not_guesses(extent: Expr) -> None:
    with pytest.raises(ValueError, match="extent"):
        domain_of(_site(extent), {"n": 8, "m": 3})
