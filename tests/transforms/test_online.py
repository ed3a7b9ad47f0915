"""online."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.expr import Expr, Load, index
from evolve.ir.visit import map_block_exprs, map_expr
from evolve.legality.prove import prove
from evolve.legality.verdict import Status
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
