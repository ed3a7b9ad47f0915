"""Conditions of the prover that nothing else holds in place: asynchronous copies, placing, running sums.

Each test fails when one condition is left out; see `benchmarks.prover.mutants`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evolve.compiler.compile import finish
from evolve.ir.expr import (
    Binary,
    BinaryOp,
    Const,
    Expr,
    Load,
    Select,
    add,
    compare,
    floordiv,
    index,
    mod,
    mul,
    sub,
    var,
)
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.stmt import Alloc, Barrier, Block, Boundary, Commit, For, If, Stmt, Store, Wait
from evolve.ir.types import DType, LoopKind, Space
from evolve.ir.visit import walk
from evolve.legality.barriers import place
from evolve.legality.prove import prove
from tests.illegal.forging import change, good, scheduled, with_loop
from tests.illegal.lifted import source
from tests.kernels_ir import F32, buf, ld, loop, origin

COPIED = """
split(i, 32)
bind(i.o, grid.x)
xs = stage(x, at=i.o, scope=shared)
bind([xs.0, i.i], thread.x)
make_async(xs)
"""


def copied() -> Kernel:
    """saxpy, each block's part of x copied asynchronously."""
    return scheduled("saxpy", COPIED)


def asynchronous(k: Kernel, f: Callable[[Store], Stmt | tuple[Stmt, ...]]) -> Kernel:
    return change(k, lambda s: f(s) if isinstance(s, Store) and s.asynchronous else None)


def refusal(target: Kernel, start: str = "saxpy") -> set[str]:
    verdict = prove(source(start).kernel, target)
    assert not verdict.proved
    return {d.code for d in verdict.diagnostics}


def around(k: Kernel, what: type, f: Callable[[Stmt], Stmt]) -> Kernel:
    """`f` on each statement of a type."""
    return change(k, lambda s: f(s) if isinstance(s, what) else None)


def test_copies_that_are_waited_for_are_proved() -> None:
    assert prove(source("saxpy").kernel, copied()).proved
    assert prove(source("matmul").kernel, good("matmul", 3)).proved


def test_only_copies_are_asynchronous() -> None:
    def constant(s: Store) -> Stmt:
        return replace(s, value=Const(0.0, F32))

    def of_the_source(s: Store) -> Stmt:
        own = next(x for x in statements(copied()) if isinstance(x, Store) and x.buffer == "y")
        return replace(s, origin=own.origin)

    for f in (constant, of_the_source):
        assert refusal(asynchronous(copied(), f)) == {"E-ASYNC"}


def statements(k: Kernel) -> list[Stmt]:
    return inside(k.body)


def test_asynchronous_copies_go_into_shared_memory() -> None:
    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, Alloc):
            return Alloc(replace(s.buffer, space=Space.REGISTER))
        return None

    assert refusal(change(copied(), one)) == {"E-ASYNC"}


def test_asynchronous_copies_come_from_arrays_that_nobody_writes() -> None:
    def of_y(s: Store) -> Stmt:
        assert isinstance(s.value, Load)
        return replace(s, value=replace(s.value, buffer="y"))

    def twice(s: Store) -> tuple[Stmt, ...]:
        return (s, replace(s, buffer="again", value=Load(s.buffer, s.indices, F32)))

    again = Alloc(buf("again", index(32), space=Space.SHARED))
    k = asynchronous(copied(), twice)
    k = with_loop(k, "i.o", lambda s: replace(s, body=Block((again, *s.body.stmts))))
    assert refusal(k) == {"E-ASYNC"}
    assert "E-ASYNC" in refusal(asynchronous(copied(), of_y))


def test_asynchronous_copies_are_of_one_launch() -> None:
    k = copied()
    assert refusal(replace(k, body=Block((*k.body.stmts, Boundary(), *k.body.stmts)))) == {"E-ASYNC"}


def test_all_threads_commit_and_wait_alike() -> None:
    some = compare(BinaryOp.LT, var("i.o"), 1)
    data = compare(BinaryOp.LT, Load("x", (index(0),), F32), Const(1.0, F32))

    def under(cond: Expr) -> Callable[[Stmt], Stmt]:
        return lambda s: If(cond, Block((s,)))

    def in_threads(s: Stmt) -> Stmt:
        return For("t", index(16), LoopKind.THREAD_X, Block((s,)))

    def in_a_combination(s: Stmt) -> Stmt:
        return For("t", index(32), LoopKind.COMBINE_WARP, Block((s,)))

    for what in (Commit, Wait):
        for f in (under(some), under(data), in_threads, in_a_combination):
            assert "E-ASYNC" in refusal(around(copied(), what, f)), (what, f)


def test_conditions_on_sizes_and_on_loops_part_nobody() -> None:
    for_all = compare(BinaryOp.GE, var("n"), 1)
    k = with_loop(copied(), "i.o", lambda s: replace(s, body=Block((If(for_all, s.body),))))
    assert prove(source("saxpy").kernel, k).proved

    def in_order(s: For) -> Stmt:
        later = compare(BinaryOp.GE, var("k.o"), 0)
        stmts = [If(later, Block((x,))) if isinstance(x, Commit) else x for x in s.body.stmts]
        return replace(s, body=Block(tuple(stmts)))

    assert prove(source("matmul").kernel, with_loop(good("matmul", 3), "k.o", in_order)).proved


def test_what_the_source_itself_reads_outside_of_its_own_array_is_not_inherited() -> None:
    x, at = ld("x", var("i")), (index(2),)
    body = (
        Alloc(buf("t", index(2), space=Space.REGISTER)),
        Store("t", at, x, origin("S0", "i")),
        Store("y", (var("i"),), ld("t", *at), origin("S1", "i")),
    )
    k = of_x(loop("i", var("n"), *body, kind=LoopKind.PARALLEL))
    verdict = prove(k, finish(k))
    assert {d.code for d in verdict.diagnostics} == {"E-BOUNDS"}


def test_what_the_source_reads_outside_of_an_array_is_inherited() -> None:
    i = var("i")
    before, somewhere = ld("x", sub(i, 1)), ld("x", mod(mul(i, i), 64))
    value = Binary(BinaryOp.ADD, before, somewhere, F32)
    k = of_x(loop("i", var("n"), Store("y", (i,), value, origin("S0", "i")), kind=LoopKind.PARALLEL))
    assert prove(k, finish(k)).proved


def test_what_no_choice_asks_for_needs_no_place_in_the_source() -> None:
    """Element -1 is read for i = 1, as in the source. For i = 0 nobody reads, so -2 need not be there."""
    i = var("i")
    value = Select(compare(BinaryOp.GT, i, 0), ld("x", sub(i, 2)), Const(0.0, F32), F32)
    k = of_x(loop("i", var("n"), Store("y", (i,), value, origin("S0", "i")), kind=LoopKind.PARALLEL))
    assert prove(k, finish(k)).proved


def test_what_no_choice_asks_for_needs_no_place_at_all() -> None:
    """Of a local array of four, beside n elements."""
    i, k = var("i"), var("k")
    four = Select(compare(BinaryOp.LT, i, 4), ld("t", i), Const(0.0, F32), F32)
    fill = loop("k", index(4), Store("t", (k,), ld("x", i), origin("S0", "i", "k")))
    body = (Alloc(buf("t", index(4), space=Space.REGISTER)), fill, Store("y", (i,), four, origin("S1", "i")))
    start = of_x(loop("i", var("n"), *body, kind=LoopKind.PARALLEL))
    assert prove(start, finish(start)).proved


def test_iterations_of_a_loop_in_order_may_touch_the_same_cells() -> None:
    """Diagonals: y[r + c] is of several (r, c), in one r of one c alone."""
    r, c, n = var("r"), var("c"), var("n")
    one = Store("y", (add(r, c),), ld("x", c), origin("S0", "r", "c"))
    half = loop("c", floordiv(n, 2), one, kind=LoopKind.PARALLEL)
    k = of_x(loop("r", floordiv(n, 2), half))
    assert prove(k, finish(k)).proved
    turned = of_x(loop("r", floordiv(n, 2), replace(half, kind=LoopKind.SERIAL), kind=LoopKind.PARALLEL))
    assert refusal_of(turned) == {"E-SOURCE-RACE"}


def refusal_of(k: Kernel) -> set[str]:
    """Why a kernel is not proved to compute what it computes."""
    verdict = prove(k, finish(k))
    assert not verdict.proved
    return {d.code for d in verdict.diagnostics}


def of_x(*body: Stmt) -> Kernel:
    """A kernel of two arrays of n elements."""
    sizes = (Scalar("n", DType.I32, True),)
    return Kernel("of_x", ("x", "y", "n"), (buf("x", var("n")), buf("y", var("n"))), sizes, Block(body))


def test_a_race_that_no_barrier_can_order_keeps_nobody_from_ordering_others() -> None:
    """Every thread writes one cell of `spoilt`; the tile beside it has its barrier all the same."""
    start = good("transpose")
    one = Store("spoilt", (index(0),), ld("x", index(0), index(0)))
    shared = Alloc(buf("spoilt", index(1), space=Space.SHARED))
    spoil = (shared, For("all", index(8), LoopKind.THREAD_X, Block((one,))))
    outer = next(s for s in statements(start) if isinstance(s, For) and s.kind is LoopKind.GRID_X)

    def spoilt(k: Kernel) -> Kernel:
        return with_loop(k, outer.var, lambda s: replace(s, body=Block((*spoil, *s.body.stmts))))

    assert Barrier() in statements(start)
    assert place(spoilt(start)) == spoilt(start)


def inside(body: Block) -> list[Stmt]:
    return [s.stmt for s in walk(body)]
