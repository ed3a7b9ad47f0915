"""When a variant runs: what its launch and its index arithmetic need is part of its guard."""

from __future__ import annotations

from dataclasses import replace

from evolve.codegen.module import render
from evolve.codegen.rendered import concretise
from evolve.ir.expr import (
    BinaryOp,
    Const,
    add,
    ceildiv,
    compare,
    index,
    mul,
    var,
)
from evolve.ir.scope import conjuncts
from evolve.ir.stmt import Store
from tests.codegen.modules import bare_module, kernel_of
from tests.codegen.scheduled_ir import (
    F32,
    GRID_X,
    GRID_Y,
    THREAD_X,
    at,
    fact_equal,
    guarded,
    loop,
)
from tests.kernels_ir import buf, ld


def test_sizes_below_one_run_the_original_and_an_empty_grid_is_not_launched() -> None:
    i = add(at(("b", 32), ("t", 1)), 1)
    s = guarded(
        compare(BinaryOp.LT, at(("b", 32), ("t", 1)), add(var("n"), -2)), Store("y", (i,), ld("x", i))
    )
    nest = loop("b", ceildiv(add(var("n"), -2), 32), GRID_X, loop("t", 32, THREAD_X, s))
    rendered = render(bare_module(kernel_of("x y n", (buf("x", var("n")), buf("y", var("n"))), nest)))
    assert concretise(rendered, {"n": 0})[0] == -1
    assert concretise(rendered, {"n": 1}) == (0, ())
    assert concretise(rendered, {"n": 2}) == (0, ())
    chosen, launches = concretise(rendered, {"n": 3})
    assert chosen == 0 and launches[0].grid == (1, 1, 1)


def test_grid_limits_and_32_bit_indices() -> None:
    s = Store("y", (var("r"), var("t")), ld("x", var("r"), var("t")))
    nest = loop("r", var("n"), GRID_Y, loop("t", 32, THREAD_X, s))
    rendered = render(
        bare_module(kernel_of("x y n", (buf("x", var("n"), index(32)), buf("y", var("n"), index(32))), nest))
    )
    assert concretise(rendered, {"n": 65535})[0] == 0
    assert concretise(rendered, {"n": 65536})[0] == -1
    nest = loop("r", var("n"), GRID_X, loop("t", 32, THREAD_X, s))
    rendered = render(
        bare_module(kernel_of("x y n", (buf("x", var("n"), index(32)), buf("y", var("n"), index(32))), nest))
    )
    assert concretise(rendered, {"n": 2**26})[0] == 0
    assert concretise(rendered, {"n": 2**26 + 1})[0] == -1


def test_assumptions_are_part_of_the_guard() -> None:
    k = kernel_of(
        "x n",
        (buf("x", var("n")),),
        loop("t", 32, THREAD_X, Store("x", (var("t"),), Const(0.0, F32))),
        fact_equal("n", 32),
    )
    rendered = render(bare_module(k))
    assert [concretise(rendered, {"n": n})[0] for n in (31, 32, 33)] == [-1, 0, -1]


def test_only_the_tightest_upper_bound_is_asked() -> None:
    loose = compare(BinaryOp.LE, mul(var("n"), 4), 1000)
    tight = compare(BinaryOp.LE, mul(var("n"), 4), 600)
    other = compare(BinaryOp.LE, var("n"), 600)
    s = Store("y", (var("r"),), ld("x", var("r")))
    kernel = kernel_of("x y n", (buf("x", var("n")), buf("y", var("n"))), loop("r", var("n"), GRID_X, s))
    guards = [
        render(bare_module(replace(kernel, assumptions=facts))).variants[0].guard
        for facts in ((loose, tight, other), (tight, loose, other))
    ]
    for guard in guards:
        terms = conjuncts((guard,))
        assert tight in terms and other in terms and loose not in terms
