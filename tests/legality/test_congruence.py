"""Which statements of a source compute the same, and what may be left out for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import islpy as isl
import pytest

from evolve.ir.expr import BinaryOp, Const, Expr, Load, sub, var
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.poly import IslObject, sizes_of
from evolve.ir.stmt import Alloc, Block, For, Leaf, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, DType, LoopKind, Monoid, Space
from evolve.ir.visit import map_block_exprs, map_expr, rewrite
from evolve.legality.congruence import Congruence
from evolve.legality.flow import Flow
from evolve.legality.model import Model
from evolve.legality.prove import prove
from evolve.legality.verdict import Status
from tests.kernels_ir import F32, buf, checked, ld, loop, op, origin
from tests.transforms.fixtures import KERNELS

ROWS, COLS, ROW = var("rows"), var("cols"), var("row")
LAST = sub(COLS, 1)
SIZES = (Scalar("rows", DType.I32, True), Scalar("cols", DType.I32, True))


def kernel(*body: Stmt) -> Kernel:
    """One thread for each row of x and y."""
    nest = loop("row", ROWS, *body, kind=LoopKind.PARALLEL)
    return checked(
        Kernel("k", ("x", "y", "rows", "cols"), (buf("x", ROWS, COLS), buf("y", ROWS)), SIZES, Block((nest,)))
    )


def register(name: str) -> Alloc:
    return Alloc(buf(name, space=Space.REGISTER))


def twice(monoid: Monoid = SUM) -> Kernel:
    """y = x[0] + … + x[cols - 1], and all of it again."""
    return kernel(
        register("s"),
        Store("s", (), Const(0.0, F32), origin("S0", "row")),
        loop("c", COLS, Reduce("s", (), monoid, ld("x", ROW, var("c")), origin("S1", "row", "c"))),
        loop("c_2", COLS, Reduce("s", (), monoid, ld("x", ROW, var("c_2")), origin("S2", "row", "c_2"))),
        Store("y", (ROW,), ld("s"), origin("S3", "row")),
    )


def changed_between() -> Kernel:
    """y = 2 t + 2 (t + x[1]) for t = x[0]: the same expression of what is not the same any more."""

    def doubled(into: str, name: str) -> tuple[Stmt, ...]:
        value = op(BinaryOp.MUL, ld("t"), Const(2.0, F32))
        return register(into), Store(into, (), value, origin(name, "row"))

    return kernel(
        register("t"),
        Store("t", (), ld("x", ROW, Const(0, DType.INDEX)), origin("S0", "row")),
        *doubled("a", "S1"),
        Reduce("t", (), SUM, ld("x", ROW, Const(1, DType.INDEX)), origin("S2", "row")),
        *doubled("b", "S3"),
        Store("y", (ROW,), op(BinaryOp.ADD, ld("a"), ld("b")), origin("S4", "row")),
    )


def repeated() -> Kernel:
    """y = a b for a = b = the sum of the row, computed twice."""

    def total(into: str, c: str, first: int) -> tuple[Stmt, ...]:
        add = Reduce(into, (), SUM, ld("x", ROW, var(c)), origin(f"S{first + 1}", "row", c))
        start = Store(into, (), Const(0.0, F32), origin(f"S{first}", "row"))
        return register(into), start, loop(c, COLS, add)

    return kernel(
        *total("a", "c", 0),
        *total("b", "c_2", 2),
        Store("y", (ROW,), op(BinaryOp.MUL, ld("a"), ld("b")), origin("S4", "row")),
    )


def classes(k: Kernel) -> set[tuple[str, str]]:
    """Pairs of a statement and the first one that computes the same, by their origins."""
    model = Model(k, sizes_of(k, k.assumptions), source=True, prefix="#S")
    found = Congruence(model, Flow(model, 1_000_000))
    names = {s.name: s.leaf.origin.stmt for s in model.statements if s.leaf.origin is not None}
    out: set[tuple[str, str]] = set()

    def one(m: IslObject) -> None:
        ends = (m.get_tuple_name(isl.dim_type.in_), m.get_tuple_name(isl.dim_type.out))
        out.add((names[ends[0]], names[ends[1]]))

    found.to_first.foreach_map(one)
    return {(a, b) for a, b in out if a != b}


def test_scores_that_are_computed_twice_are_congruent() -> None:
    assert classes(KERNELS["scores"]()) == {("S6", "S1"), ("S7", "S2")}


def test_the_same_expression_of_another_value_is_not() -> None:
    assert classes(changed_between()) == set()


def test_the_same_sum_is_though_it_is_in_another_variable() -> None:
    assert classes(repeated()) == {("S2", "S0"), ("S3", "S1")}


def without(k: Kernel, dropped: set[str], f: Callable[[Expr], Expr] = lambda e: e) -> Kernel:
    """Statements with these origins left out, and what is read changed."""

    def one(s: Stmt) -> tuple[Stmt, ...] | None:
        if isinstance(s, Leaf) and s.origin is not None and s.origin.stmt in dropped:
            return ()
        return () if isinstance(s, For) and not s.body.stmts else None

    return replace(k, body=rewrite(map_block_exprs(k.body, lambda e: map_expr(e, f)), one))


def reads(old: str, new: str) -> Callable[[Expr], Expr]:
    return lambda e: replace(e, buffer=new) if isinstance(e, Load) and e.buffer == old else e


def test_what_is_computed_twice_may_be_computed_once() -> None:
    k = repeated()
    assert prove(k, without(k, {"S2", "S3"}, reads("b", "a"))).proved
    assert prove(k, without(k, {"S0", "S1"}, reads("a", "b"))).proved


@pytest.mark.parametrize("dropped", [{"S2"}, {"S3"}])
def test_but_not_a_part_of_it(dropped: set[str]) -> None:
    k = repeated()
    assert prove(k, without(k, dropped)).status is Status.REFUTED


@pytest.mark.parametrize("monoid", [SUM, MAX])
@pytest.mark.parametrize("dropped", ["S1", "S2"])
def test_one_contribution_does_not_count_for_two(monoid: Monoid, dropped: str) -> None:
    """Of a sum that would be half of it."""
    k = twice(monoid)
    verdict = prove(k, without(k, {dropped}))
    assert verdict.status is Status.REFUTED
    assert verdict.diagnostics[0].code == "E-REDUCTION"


def test_nor_one_of_them_twice_for_both() -> None:
    """Right as it happens: the first's contributions twice. It is not claimed as what the source does."""
    k = twice()

    def first(s: Stmt) -> Stmt | None:
        second = isinstance(s, Reduce) and s.origin is not None and s.origin.stmt == "S2"
        return replace(s, origin=origin("S1", "row", "c_2")) if isinstance(s, Reduce) and second else None

    assert prove(k, replace(k, body=rewrite(k.body, first))).status is Status.REFUTED


def test_a_stale_value_is_refused() -> None:
    k = changed_between()
    verdict = prove(k, without(k, {"S3"}, reads("b", "a")))
    assert verdict.status is Status.REFUTED
    assert {d.code for d in verdict.diagnostics} == {"E-EXPR"}


def stored(*columns: int) -> Kernel:
    """y of a row is its element in the first of these columns, then in the next, and so on."""
    stores = (
        Store("y", (ROW,), ld("x", ROW, Const(c, DType.INDEX)), origin(f"S{n}", "row"))
        for n, c in enumerate(columns)
    )
    return kernel(*stores)


def test_what_is_stored_again_may_be_stored_once() -> None:
    for dropped in ("S0", "S1"):
        assert prove(stored(3, 3), without(stored(3, 3), {dropped})).proved
    assert prove(stored(3, 4, 3), without(stored(3, 4, 3), {"S0"})).proved


@pytest.mark.parametrize("dropped", [{"S2"}, {"S0", "S2"}, {"S1"}])
def test_but_not_what_stays(dropped: set[str]) -> None:
    """Of three stores the first and the last store the same; the one between is like none."""
    k = stored(3, 4, 3)
    assert prove(k, without(k, dropped)).status is Status.REFUTED


def test_nor_what_another_array_holds_as_well() -> None:
    first = Store("y", (ROW,), ld("x", ROW, LAST), origin("S0", "row"))
    nest = loop(
        "row", ROWS, first, replace(first, buffer="z", origin=origin("S1", "row")), kind=LoopKind.PARALLEL
    )
    arrays = (buf("x", ROWS, COLS), buf("y", ROWS), buf("z", ROWS))
    both = checked(Kernel("both", ("x", "y", "z", "rows", "cols"), arrays, SIZES, Block((nest,))))
    assert prove(both, both).proved
    for dropped in ("S0", "S1"):
        verdict = prove(both, without(both, {dropped}))
        assert verdict.status is Status.REFUTED
