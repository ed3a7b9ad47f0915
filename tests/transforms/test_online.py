"""online."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Load, compare, floordiv, index, mod, var
from evolve.ir.stmt import Block, If, Reduce, Stmt, Store
from evolve.ir.types import DType
from evolve.ir.visit import leaves, map_block_exprs, map_expr, rewrite
from evolve.legality.prove import prove
from evolve.legality.verdict import Status
from evolve.transforms.apply import apply_program
from evolve.transforms.moves import legal_moves
from evolve.transforms.names import NameTable
from tests.interpreter import run
from tests.transforms.fixtures import KERNELS, applied, assert_same
from tests.transforms.test_proved import verdict

CHUNKS = "split([c, c_2], 4)\nonline(c.o, c_2.o)"
BLOCK = (
    "specialize(cols % 64 == 0)\nbind(row, grid.x)\nsplit([c, c_2], 2)\nsplit([c.o, c_2.o], 32)\n"
    "block_reduce([c.o.i, c_2.o.i])\nonline([c.o.o, c.o.i], [c_2.o.o, c_2.o.i])"
)
LANES = (
    "specialize(cols % 8 == 0 and rows % 4 == 0)\nsplit(row, 4)\nbind(row.o, grid.x)\n"
    "bind(row.i, thread.y)\n"
    "split([c, c_2], 8)\nwarp_reduce([c.i, c_2.i])\nonline([c.o, c.i], [c_2.o, c_2.i])"
)
KERNELS_OF_SUMS = ("softmax", "pooling")
SCORES = {
    "one by one": "online(c, c_2)",
    "chunks": "split([c, c_2], 4)\nonline(c.o, c_2.o)",
    "one computation": "online(c, c_2)\nreuse(s, instead_of=s_2)",
    "rows of threads": (
        "specialize(rows % 4 == 0 and cols % 2 == 0)\nsplit(row, 4)\nbind(row.o, grid.x)\n"
        "split([c, c_2], 2)\nonline(c.o, c_2.o)\ndistribute(c.i)\ndistribute(c_2.i)\n"
        "reuse(s, instead_of=s_2)\ndistribute(row.i)\nreorder([c.o, row.i.3])\n"
        "stage(w, at=c.o, scope=shared)\n"
        "bind([row.i.0, row.i.1, row.i.2, row.i.3, row.i.4, row.i.5, row.i.6], thread.x)"
    ),
    "tiles": (
        "specialize(rows % 4 == 0 and cols % 8 == 0)\nsplit(row, 4)\nbind(row.o, grid.x)\n"
        "split(row.i, 2)\nsplit([c, c_2], 8)\nsplit([c.i, c_2.i], 2)\nsplit([c.i.o, c_2.i.o], 2)\n"
        "split([e, e_2, e_3], 2)\ndistribute([c.i.o.o, c.i.o.i, c.i.i])\n"
        "distribute([c_2.i.o.o, c_2.i.o.i, c_2.i.i])\n"
        "reorder([c_2.i.o.i.3, c_2.i.o.o.3, c_2.i.i.3])\nwarp_reduce(c_2.i.o.i.3)\n"
        "online(c.o, c_2.o)\nreuse(s, instead_of=s_2)\ndistribute([row.i.o, row.i.i])\n"
        "reorder([c.o, row.i.o.4, row.i.i.4])\ndistribute([row.i.o.4, row.i.i.4])\n"
        "reorder([c.i.o.i.2, c.i.o.o.2, c.i.i.2])\nwarp_reduce(c.i.o.i.2)\n"
        "reorder([c_2.i.o.o.4, row.i.o.4.8, e_2.i, c_2.i.o.i.4, c_2.i.i.4, row.i.i.4.8, e_2.o])\n"
        "P = stage(p, at=c_2.i.o.o.4, scope=shared)\nsplit([P.0, P.1], 2)\n"
        "bind([P.0.o, row.i.o.0, row.i.o.1, row.i.o.2, row.i.o.3, row.i.o.5, row.i.o.6, row.i.o.7, "
        "row.i.o.8], thread.y)\n"
        "bind([row.i.o.4.0, row.i.o.4.1, row.i.o.4.2, row.i.o.4.3, row.i.o.4.4, row.i.o.4.5, "
        "row.i.o.4.6], thread.y)\nbind([row.i.o.4.7, row.i.o.4.8], thread.y)\n"
        "bind([P.1.o, c.i.o.i.0, c.i.o.i.1, c_2.i.o.i.2, e.i, e_2.i, e_2.i.scale, e_2.i.scale_2, "
        "e_3.i], thread.x)"
    ),
}
"""Exponents that are computed, exponentials in a variable, sums in the elements of an array."""
PROGRAMS = {"one by one": "online(c, c_2)", "chunks": CHUNKS, "block": BLOCK, "lanes": LANES}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("of", KERNELS_OF_SUMS)
def test_the_same_and_proved(of: str, name: str) -> None:
    kernel = applied(of, PROGRAMS[name]).kernel
    for sizes in ((3, 1), (2, 64), (4, 130), (1, 7)):
        assert_same(KERNELS[of](), kernel, *sizes)
    assert verdict(of, PROGRAMS[name]).status is Status.PROVED


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("of", KERNELS_OF_SUMS)
def test_infinities_and_nan_give_what_they_give_in_the_source(of: str, name: str) -> None:
    """Rows that begin with, hold, or are nothing but -inf, inf, NaN; weights that are so now and then."""
    source, kernel = KERNELS[of](), applied(of, PROGRAMS[name]).kernel
    rng = np.random.default_rng(8)
    x = rng.normal(size=(24, 64))
    for row in range(20):
        odd = rng.choice([-math.inf, math.inf, math.nan], p=[0.8, 0.1, 0.1], size=64)
        x[row] = np.where(rng.random(64) < rng.choice([0.02, 0.5, 0.95]), odd, x[row])
    x[20], x[21, :40], x[22, 40:], x[23, 3:] = -math.inf, -math.inf, -math.inf, math.inf
    scalars = {"rows": 24, "cols": 64}
    given = {"x": x}
    if of == "pooling":
        given["v"] = np.where(rng.random((24, 64)) < 0.005, math.inf, rng.normal(size=(24, 64)))
    want, got = (run(k, given, scalars)["y"].reshape(24, -1) for k in (source, kernel))
    np.testing.assert_allclose(got, want, rtol=1e-9)
    assert np.isnan(want).any(axis=1).sum() >= 4 and np.isfinite(want).all(axis=1).sum() >= 4


@pytest.mark.parametrize("name", SCORES)
def test_computed_exponents(name: str) -> None:
    kernel = applied("scores", SCORES[name]).kernel
    for sizes in ((4, 2), (8, 6), (4, 12)):
        assert_same(KERNELS["scores"](), kernel, *sizes)
    assert verdict("scores", SCORES[name]).status is Status.PROVED


@pytest.mark.parametrize("name", SCORES)
def test_infinite_scores_give_what_they_give_in_the_source(name: str) -> None:
    """Rows whose scores begin with, hold, or are nothing but -inf, inf, NaN."""
    source, kernel = KERNELS["scores"](), applied("scores", SCORES[name]).kernel
    rng = np.random.default_rng(9)
    x, w, v = (rng.uniform(0.5, 1.5, size=(n, 4)) for n in (16, 24, 24))
    odd = rng.choice([-math.inf, math.inf, math.nan], p=[0.9, 0.08, 0.02], size=24)
    w[:, 3] = np.where(rng.random(24) < 0.7, odd, w[:, 3])
    w[:5, 3] = -math.inf
    x[::2, 3], x[1, 0] = 0.25, -math.inf
    w[5:, 3] = np.where(np.isneginf(w[5:, 3]), -math.inf, np.where(np.isnan(w[5:, 3]), 1.0, w[5:, 3]))
    given, scalars = {"x": x, "w": w, "v": v}, {"rows": 16, "cols": 24}
    for columns in (w, np.where(np.isposinf(w), 0.5, w)):
        given["w"] = columns
        want, got = (run(k, given, scalars)["y"].reshape(16, -1) for k in (source, kernel))
        np.testing.assert_allclose(got, want, rtol=1e-9)
    assert np.isnan(want).any(axis=1).any() and np.isfinite(want).all(axis=1).any()


def test_a_maximum_of_scores_that_are_computed_otherwise_is_refused() -> None:
    """The maximum is of 2 s, the exponents are 3 s: above it where s > 0."""
    source = KERNELS["scores"]()

    def tripled(s: Stmt) -> Stmt | None:
        if not isinstance(s, Store) or s.buffer != "p":
            return None
        three = Const(3.0, DType.F32)
        return replace(s, value=map_expr(s.value, lambda e: three if e == Const(2.0, DType.F32) else e))

    wrong = replace(source, body=rewrite(source.body, tripled))
    assert wrong != source
    joined = apply_program(wrong, parse("online(c, c_2)")).kernel
    found = prove(wrong, joined)
    assert found.status is Status.REFUTED
    assert "own exponents" in found.diagnostics[0].message


def test_a_sum_of_some_of_the_columns_that_the_maximum_is_of_is_refused() -> None:
    """Where one of the others is inf, the source has terms of 0, and a running sum is NaN."""
    source = KERNELS["softmax"]()

    def some(s: Stmt) -> Stmt | None:
        if not isinstance(s, Reduce) or s.buffer != "s":
            return None
        return If(compare(BinaryOp.EQ, mod(floordiv(var("c_2"), 8), 2), 0), Block((s,)))

    wrong = replace(source, body=rewrite(source.body, some))
    assert prove(wrong, wrong).proved
    for program in ("online(c, c_2)", LANES):
        joined = apply_program(wrong, parse(program)).kernel
        found = prove(wrong, joined)
        assert found.status is Status.REFUTED
        assert "other elements" in found.diagnostics[0].message


def test_exponentials_multiplied_with_one_another_are_refused() -> None:
    """Their product grows by the square of the factor."""
    source = KERNELS["scores"]()

    def weighted(s: Stmt) -> Stmt | None:
        if not isinstance(s, Reduce) or s.buffer != "a":
            return None
        (power,) = [x.value for x, _ in leaves(source.body) if x.buffer == "p"]
        assert isinstance(s.value, Binary)
        return replace(s, value=replace(s.value, rhs=power))

    wrong = replace(source, body=rewrite(source.body, weighted))
    joined = apply_program(wrong, parse("online(c, c_2)")).kernel
    found = prove(wrong, joined)
    assert found.status is Status.REFUTED
    assert any("relative to a maximum of its time" in d.message for d in found.diagnostics)


def test_a_maximum_of_other_columns_scores_is_refused() -> None:
    """The second sweep's scores are those of w[0] for each column: equal expressions, other values."""
    source = KERNELS["scores"]()

    def of_first(s: Stmt) -> Stmt | None:
        if not isinstance(s, Reduce) or s.buffer != "s_2":
            return None

        def first(e: Expr) -> Expr:
            of_w = isinstance(e, Load) and e.buffer == "w"
            return replace(e, indices=(index(0), e.indices[1])) if isinstance(e, Load) and of_w else e

        return replace(s, value=map_expr(s.value, first))

    wrong = replace(source, body=rewrite(source.body, of_first))
    joined = apply_program(wrong, parse("online(c, c_2)")).kernel
    assert prove(wrong, joined).status is Status.REFUTED
    assert "own exponents" in prove(wrong, joined).diagnostics[0].message


def test_threads_that_may_have_nothing_to_add_are_refused() -> None:
    found = verdict("softmax", BLOCK.split("\n", 1)[1])
    assert found.status is Status.REFUTED
    assert found.diagnostics[0].code == "E-ONLINE"
    assert "nothing was added" in found.diagnostics[0].message


def test_a_maximum_of_something_else_is_refused() -> None:
    """exp(2 x - max x): nothing bounds the terms, so a sum that is right may come of infinite ones."""
    found = verdict("tempered", "online(c, c_2)")
    assert found.status is Status.REFUTED
    assert "own exponents" in found.diagnostics[0].message


def test_a_sum_with_the_weight_of_another_column_is_refused() -> None:
    joined = applied("pooling", "online(c, c_2)").kernel

    def shifted(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == "v":
            return replace(e, indices=(e.indices[0], index(0)))
        return e

    wrong = replace(joined, body=map_block_exprs(joined.body, lambda e: map_expr(e, shifted)))
    found = prove(KERNELS["pooling"](), wrong)
    assert {d.code for d in found.diagnostics} == {"E-FLOW"}
    assert found.status is Status.REFUTED


def test_a_nest_that_does_more_is_refused() -> None:
    with pytest.raises(RefusedError) as e:
        applied("softmax", "jam(c_2, c_3)\nonline(c, c_2)")
    assert e.value.diagnostic.code == "E-ONLINE-FORM"


def test_it_is_offered_with_the_loops_that_threads_share_out() -> None:
    at = applied("softmax", BLOCK.rsplit("\n", 1)[0])
    assert "online([c.o.o, c.o.i], [c_2.o.o, c_2.o.i])" in legal_moves(at.kernel, at.names)
    assert "online(c, c_2)" in legal_moves(KERNELS["softmax"](), NameTable())
