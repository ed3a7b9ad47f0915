"""Which statements of a source compute the same, and what may be left out for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import islpy as isl
import numpy as np
import pytest

from evolve.frontend.lift import lift
from evolve.ir.expr import BinaryOp, Const, Expr, Load, index, sub, var
from evolve.ir.kernel import Contents, Kernel, Scalar
from evolve.ir.poly import IslObject, sizes_of
from evolve.ir.stmt import Alloc, Block, For, Leaf, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, DType, LoopKind, Monoid, Space
from evolve.ir.visit import leaves, map_block_exprs, map_expr, rewrite
from evolve.legality.congruence import Congruence
from evolve.legality.flow import Flow
from evolve.legality.model import Model
from evolve.legality.prove import prove
from evolve.legality.verdict import Status, Verdict
from tests.interpreter import run
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
    """And S5 stores the zero that S1 stores."""
    assert classes(KERNELS["scores"]()) == {("S6", "S1"), ("S7", "S2"), ("S5", "S1")}


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


# ---- equal expressions of sums that are not equal


def of_sums(s: tuple[Stmt, ...], t: tuple[Stmt, ...], read: str = "t") -> Kernel:
    """y = a b for a = 2 s and b = 2 t, with what is done to s and to t."""

    def doubled(into: str, of: str) -> tuple[Stmt, ...]:
        value = op(BinaryOp.MUL, ld(of), Const(2.0, F32))
        return register(into), Store(into, (), value, origin(f"S.{into}", "row"))

    product = op(BinaryOp.MUL, ld("a"), ld("b"))
    last = Store("y", (ROW,), product, origin("S.y", "row"))
    return kernel(register("s"), *s, register("t"), *t, *doubled("a", "s"), *doubled("b", read), last)


def start(into: str, value: float) -> Stmt:
    return Store(into, (), Const(value, F32), origin(f"S.{into}", "row"))


def gathered(into: str, number: int, monoid: Monoid = SUM) -> Stmt:
    """All of a row, once; of a maximum the doubles."""
    c = f"c.{into}{number}"
    value: Expr = ld("x", ROW, var(c))
    if monoid == MAX:
        value = op(BinaryOp.MUL, value, Const(2.0, F32))
    return loop(c, COLS, Reduce(into, (), monoid, value, origin(f"S.{c}", "row", c)))


def one_for_the_other(k: Kernel, left_out: str = "bt", a: str = "a", b: str = "b") -> Verdict:
    """Whether `a` may be read in place of `b`, with what is stored into some buffers left out."""
    found = (leaf for leaf, _ in leaves(k.body) if leaf.buffer in left_out)
    dropped = {leaf.origin.stmt for leaf in found if leaf.origin is not None}
    return prove(k, without(k, dropped, reads(b, a)))


def test_twice_the_same_sum_is_the_same() -> None:
    alike = of_sums((start("s", 0.0), gathered("s", 1)), (start("t", 0.0), gathered("t", 1)))
    assert ("S.b", "S.a") in classes(alike)
    assert one_for_the_other(alike).proved


def test_a_sum_that_starts_elsewhere_is_another() -> None:
    other = of_sums((start("s", 0.0), gathered("s", 1)), (start("t", 1.0), gathered("t", 1)))
    assert one_for_the_other(other).status is Status.REFUTED


@pytest.mark.parametrize("times", [(1, 2), (2, 1)])
def test_a_sum_of_each_element_twice_is_another(times: tuple[int, int]) -> None:
    s, t = ((start(x, 0.0), *(gathered(x, i) for i in range(n))) for x, n in zip("st", times, strict=True))
    assert one_for_the_other(of_sums(s, t)).status is Status.REFUTED


def test_but_one_that_is_read_twice_is_one() -> None:
    twice_read = of_sums((start("s", 0.0), gathered("s", 1), gathered("s", 2)), (start("t", 0.0),), "s")
    assert one_for_the_other(twice_read, "b").proved


def test_what_is_added_before_a_maximum_is_taken_is_not_added_after() -> None:
    s = (start("s", 0.0), gathered("s", 1), gathered("s", 2, MAX))
    t = (start("t", 0.0), gathered("t", 1, MAX), gathered("t", 2))
    mixed = of_sums(s, t)
    assert ("S.b", "S.a") not in classes(mixed)
    assert not one_for_the_other(mixed).proved


# ---- where one of the two happens more often


def halves() -> Kernel:
    """y = the sum of w[0] to w[3] with w = 2 s, where v = 2 s for all eight s is there already."""
    eight, four = Const(8, DType.INDEX), Const(4, DType.INDEX)

    def doubled(c: str) -> Expr:
        return op(BinaryOp.MUL, ld("s", var(c)), Const(2.0, F32))

    return kernel(
        Alloc(buf("s", eight, space=Space.REGISTER)),
        Alloc(buf("v", eight, space=Space.REGISTER)),
        loop("c", eight, Store("s", (var("c"),), ld("x", ROW, var("c")), origin("S0", "row", "c"))),
        loop("c_2", eight, Store("v", (var("c_2"),), doubled("c_2"), origin("S1", "row", "c_2"))),
        register("sum"),
        Store("sum", (), Const(0.0, F32), origin("S2", "row")),
        loop(
            "c_3",
            four,
            register("w"),
            Store("w", (), doubled("c_3"), origin("S3", "row", "c_3")),
            Reduce("sum", (), SUM, ld("w"), origin("S4", "row", "c_3")),
        ),
        Store("y", (ROW,), ld("sum"), origin("S5", "row")),
    )


def test_what_is_computed_for_more_may_stand_for_it() -> None:
    def of_v(e: Expr) -> Expr:
        return ld("v", var("c_3")) if isinstance(e, Load) and e.buffer == "w" else e

    def of_another(e: Expr) -> Expr:
        return ld("v", Const(3, DType.INDEX)) if isinstance(e, Load) and e.buffer == "w" else e

    k = halves()
    right, wrong = (without(k, {"S3"}, f) for f in (of_v, of_another))
    x = np.arange(24.0).reshape(3, 8)
    want, *got = (run(f, {"x": x}, {"rows": 3, "cols": 8})["y"].tolist() for f in (k, right, wrong))
    assert got[0] == want != got[1]
    assert prove(k, right).proved
    assert prove(k, wrong).status is Status.REFUTED


BY_LENGTH = """
__global__ void sums(const int *p, const int *q, const float *x, float *y, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float s = 0.0f, t = 0.0f;
    for (int k = 0; k < p[r]; k++) s += x[r * 64 + k];
    for (int k = 0; k < q[r]; k++) t += x[r * 64 + k];
    y[r] = s - 2.0f * t;
}
"""


def test_sums_over_lengths_from_two_arrays_are_not_the_same() -> None:
    k = lift("sums.cu", text=BY_LENGTH).kernel
    k = replace(k, contents=tuple(Contents(of, index(0), index(65)) for of in "pq"))
    assert prove(k, k).proved
    assert one_for_the_other(k, "t", "s", "t").status is Status.REFUTED


GATHERED = """
__global__ void sums(const int *p, const float *x, float *y, int n, int m) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float s = 0.0f, t = 0.0f;
    for (int k = 0; k < 8; k++) s += x[p[r * 8 + k]];
    for (int k = 0; k < 8; k++) t += x[p[r * 8 + k]];
    y[r] = s - 2.0f * t;
}
"""


def test_what_is_read_where_memory_says_is_the_same_if_nobody_writes_it() -> None:
    k = lift("sums.cu", text=GATHERED).kernel
    assert one_for_the_other(k, "t", "s", "t").proved
    assert not one_for_the_other(k, "s", "s", "t").proved
