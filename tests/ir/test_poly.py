"""isl expressions agree with evaluating them; limits are limits; what is not affine is said to be so."""

from __future__ import annotations

import random
from collections.abc import Callable

import islpy as isl
import pytest

from evolve.ir.expr import (
    Binary,
    BinaryOp,
    Cast,
    Expr,
    Load,
    add,
    compare,
    conjunction,
    floordiv,
    index,
    mod,
    mul,
    sub,
    var,
)
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.poly import (
    Frame,
    IslLimitError,
    NonAffineError,
    Sizes,
    context,
    domain,
    fixed_scalars,
    limited,
    sizes_of,
)
from evolve.ir.stmt import Block
from evolve.ir.types import DType
from evolve.ir.visit import leaves
from tests import kernels_ir

OPS: dict[BinaryOp, Callable[[int, int], int]] = {
    BinaryOp.ADD: lambda a, b: a + b,
    BinaryOp.SUB: lambda a, b: a - b,
    BinaryOp.MUL: lambda a, b: a * b,
    BinaryOp.FLOORDIV: lambda a, b: a // b,
    BinaryOp.MOD: lambda a, b: a % b,
    BinaryOp.MIN: min,
    BinaryOp.MAX: max,
}


def plain(names: tuple[str, ...] = ("n",)) -> Sizes:
    return Sizes(names, {}, None)


def random_index(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice((var("i"), var("j"), var("n"), index(rng.randint(-5, 5))))
    op = rng.choice(tuple(OPS))
    a = random_index(rng, depth - 1)
    if op in (BinaryOp.MUL, BinaryOp.FLOORDIV, BinaryOp.MOD):
        return Binary(op, a, index(rng.randint(1, 5)), DType.INDEX)
    return Binary(op, a, random_index(rng, depth - 1), DType.INDEX)


def value(e: Expr, at: dict[str, int]) -> int:
    if isinstance(e, Binary):
        return OPS[e.op](value(e.lhs, at), value(e.rhs, at))
    return at[e.name] if hasattr(e, "name") else int(e.value)  # type: ignore[union-attr]


def test_expressions_agree_with_evaluation() -> None:
    rng = random.Random(3)
    frame = Frame.of("S", ("i", "j"), plain())
    for _ in range(150):
        e = random_index(rng, 3)
        at = {k: rng.randint(-9, 9) for k in ("i", "j", "n")}
        here = frame.universe()
        for k, v in at.items():
            here = here.intersect(frame.env[k].eq_set(frame.constant(v)))
        expected = frame.affine(e).eq_set(frame.constant(value(e, at)))
        assert here.is_subset(expected), e


def test_conditions() -> None:
    frame = Frame.of("S", ("i", "j"), plain())
    both = frame.condition(
        conjunction((compare(BinaryOp.LT, var("i"), var("n")), compare(BinaryOp.NE, var("j"), 2)))
    )
    assert both.is_equal(isl.Set.read_from_str(context(), "[n] -> { S[i, j] : i < n and j != 2 }"))


@pytest.mark.parametrize(
    "e",
    [
        mul(var("i"), var("n")),
        floordiv(var("i"), var("n")),
        mod(var("i"), var("j")),
        Cast(Load("at", (var("i"),), DType.I32), DType.INDEX),
        var("elsewhere"),
    ],
    ids=str,
)
def test_not_affine(e: Expr) -> None:
    with pytest.raises(NonAffineError):
        Frame.of("S", ("i", "j"), plain()).affine(e)


def test_domains_of_a_guarded_nest() -> None:
    k = kernels_ir.stencil()
    sizes = sizes_of(k, ())
    ((_, site),) = leaves(k.body)
    frame = Frame.of("S", ("i", "j"), sizes)
    got = domain(frame, k, site.path, site.in_else, sizes)
    text = "[rows, cols] -> { S[i, j] : 0 <= i < rows - 2 and 0 <= j < cols - 2 }"
    assert got.is_equal(isl.Set.read_from_str(context(), text))


def test_sizes_are_positive_and_fixed_ones_become_constants() -> None:
    n, m = var("n"), var("m")
    k = Kernel(
        "k",
        ("n", "m", "f"),
        (),
        (Scalar("n", DType.I32, True), Scalar("m", DType.I32, True), Scalar("f", DType.F32, False)),
        Block(()),
    )
    facts = (
        compare(BinaryOp.EQ, n, 8),
        compare(BinaryOp.EQ, mod(m, 4), 0),
        compare(BinaryOp.LE, mul(m, m), 100),
    )
    s = sizes_of(k, facts)
    assert fixed_scalars(facts) == {"n": 8} == s.fixed
    assert s.names == ("m",)
    assert s.known.is_equal(isl.Set.read_from_str(context(), "[m] -> { : m >= 1 and m mod 4 = 0 }"))
    assert len(s.opaque) == 1
    frame = Frame.of("", (), s)
    assert frame.affine(sub(add(n, 1), 1)).is_equal(frame.constant(8))
    assert sizes_of(k, (compare(BinaryOp.EQ, n, 0),)).known.is_empty()


def heavy() -> object:
    a = isl.Map.read_from_str(
        context(), "[n] -> { [i] -> [floor(i/7) + floor(i/11), i mod 13 + i mod 17] : 0 <= i < n }"
    )
    return a.apply_range(a.reverse()).apply_range(a).is_injective()


def test_a_limit_is_reset_on_both_sides() -> None:
    with pytest.raises(IslLimitError), limited(200):
        heavy()
    with limited():
        assert isl.Set.read_from_str(context(), "{ [i] : 0 <= i < 3 }").is_bounded()
    assert context().get_max_operations() == 0
    for _ in range(3):
        with limited():
            pass
        with pytest.raises(IslLimitError), limited(200):
            heavy()


def test_limits_nest() -> None:
    with limited(5000):
        with pytest.raises(IslLimitError), limited(100):
            heavy()
        assert context().get_max_operations() == 5000
        assert isl.Set.read_from_str(context(), "{ [i] : 0 <= i < 3 }").is_bounded()
