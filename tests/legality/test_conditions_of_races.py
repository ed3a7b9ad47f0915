"""Conditions of the checks for races that nothing else holds in place.

Each test fails when one condition is left out; see `benchmarks.prover.mutants`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.ir.expr import Const, Expr, add, index, sub, var
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.stmt import Alloc, Block, Commit, Reduce, Stmt, Store, Wait
from evolve.ir.types import MAX, SUM, DType, LoopKind, Monoid, Space
from evolve.legality.prove import prove
from tests.kernels_ir import F32, buf, checked, ld, loop, origin
from tests.legality.edits import codes

V, FIRST = var("v"), index(0)


def of(*body: Stmt) -> Kernel:
    """A kernel that reads n elements of x and z and writes those of y and s."""
    names = ("x", "z", "y", "s")
    arrays = tuple(buf(name, var("n")) for name in names)
    return checked(Kernel("of", (*names, "n"), arrays, (Scalar("n", DType.I32, True),), Block(body)))


def of_eight(*body: Stmt) -> Kernel:
    """The same, with n = 8."""
    k = of(*body)
    return replace(k, buffers=tuple(replace(b, extents=(index(8),)) for b in k.buffers))


def added(into: str, at: Expr, monoid: Monoid, value: Expr, statement: str = "S0") -> Reduce:
    return Reduce(into, (at,), monoid, value, origin(statement, "v"))


DEPENDENT = {
    "each lane adds what the one before has added up": (added("y", add(V, 1), SUM, ld("y", V)),),
    "each lane adds what another one adds up": (
        added("s", V, SUM, ld("x", V)),
        added("y", V, SUM, ld("s", sub(index(3), V)), "S1"),
    ),
    "lanes add to what they take the greatest of": (
        added("s", FIRST, SUM, ld("x", V)),
        added("s", FIRST, MAX, ld("z", V), "S1"),
    ),
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_lanes_only_add_up_together(name: str) -> None:
    in_order, at_once = (
        of_eight(loop("v", index(4), *DEPENDENT[name], kind=kind))
        for kind in (LoopKind.SERIAL, LoopKind.VECTOR)
    )
    assert "E-VECTOR" in codes(prove(in_order, at_once))
    assert "E-VECTOR" not in codes(prove(in_order, in_order))


def test_nothing_is_read_where_a_copy_of_an_iteration_before_is_under_way() -> None:
    """All copies are of one element, so only the time of the read is wrong."""
    i, tile = var("i"), (FIRST,)
    own = Store("y", (i,), ld("x", FIRST), origin("S0", "i"))
    use = replace(own, value=ld("tile", *tile))
    copy = (Store("tile", tile, ld("x", FIRST), asynchronous=True), Commit())
    before = (Alloc(buf("tile", index(1), space=Space.SHARED)), Store("tile", tile, ld("x", FIRST)))

    def copied(*body: Stmt) -> Kernel:
        return of(*before, loop("i", var("n"), *body), Wait(0))

    source = of(loop("i", var("n"), own))
    assert prove(source, copied(Wait(0), use, *copy)).proved
    assert codes(prove(source, copied(use, Wait(0), *copy))) == {"E-RACE"}


def test_threads_of_the_source_may_read_the_same_of_what_it_has_written_before() -> None:
    i = var("i")
    first = Store("s", (FIRST,), Const(2.0, F32), origin("S0"))
    each = Store("y", (i,), ld("s", FIRST), origin("S1", "i"))
    source = of(first, loop("i", var("n"), each, kind=LoopKind.PARALLEL))
    assert prove(source, of(first, loop("i", var("n"), each))).proved
