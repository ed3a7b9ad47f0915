"""One program a code, with what is said about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evolve.ir.expr import (
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Var,
    add,
    compare,
    index,
    mod,
    mul,
    sub,
    var,
)
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.layout import Layout, LayoutError
from evolve.ir.stmt import Alloc, Block, Buffer, For, Reduce, Stmt, Store
from evolve.ir.types import MAX, DType, LoopKind, Space
from evolve.ir.visit import map_expr, rewrite
from evolve.legality import cells
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits, Status
from tests import kernels_ir as lifted
from tests.codegen import scheduled_ir as scheduled
from tests.codegen.scheduled_ir import fact_equal, loop
from tests.kernels_ir import F32, buf, checked, ld, op, origin
from tests.legality.edits import (
    at_loop,
    at_reduce,
    at_store,
    codes,
    edit,
    extent,
    kind,
    refused,
)


def test_block_too_large() -> None:
    v = refused(lifted.vecadd(), scheduled.vecadd(2048), "E-THREADS")
    assert "2048" in v.diagnostics[0].message and v.diagnostics[0].repair


def test_launch_bounds_exceeded() -> None:
    k = replace(scheduled.vecadd(256), max_threads=128)
    refused(lifted.vecadd(), k, "E-THREADS")


def test_more_registers_than_an_sm_has() -> None:
    assert prove(lifted.vecadd(), replace(scheduled.vecadd(256), registers=255)).proved
    refused(lifted.vecadd(), replace(scheduled.vecadd(512), registers=136), "E-REGISTERS")


def test_thread_loop_of_unknown_extent() -> None:
    target = edit(scheduled.vecadd(), at_loop("i.i.o", extent(var("n"))))
    refused(lifted.vecadd(), target, "E-THREADS")


def test_shared_memory_exceeded() -> None:
    target = scheduled.transpose_float4()
    v = refused(lifted.transpose(), target, "E-SHARED-SIZE", Limits(shared_bytes=16 * 1024))
    assert str(64 * 65 * 4) in v.diagnostics[0].message


def test_registers_take_no_shared_memory() -> None:
    """Eight warps exchange what they have combined; the row lies in registers."""
    assert prove(lifted.softmax(), scheduled.softmax_block(), Limits(shared_bytes=64)).proved


def test_grid_extent_depends_on_a_block() -> None:
    target = edit(scheduled.transpose_tiled(), at_loop("j.o", extent(add(var("i.o"), 1))))
    refused(lifted.transpose(), target, "E-GRID")


def test_constant_grid_too_large() -> None:
    k = scheduled.transpose_tiled()
    refused(lifted.transpose(), edit(k, at_loop("i.o", extent(index(70000)))), "E-GRID")


def test_statement_outside_the_grid() -> None:
    k = scheduled.saxpy_bound()
    outside = Store("y", (index(0),), ld("x", index(0)))
    refused(lifted.saxpy_in_place(), replace(k, body=Block((outside, *k.body.stmts))), "E-GRID")


def test_axis_bound_twice() -> None:
    k = scheduled.transpose_tiled()
    refused(lifted.transpose(), edit(k, at_loop("t.0.o", kind(LoopKind.THREAD_X))), "E-BIND")


def test_block_writes_the_cells_of_another() -> None:
    """Bound to the grid, a sequential reduction into memory meets itself in every block."""
    rows, cols, r, c = var("rows"), var("cols"), var("r"), var("c")
    body = (
        Store("y", (c,), Const(0.0, F32), origin("S0", "c")),
        loop("r", rows, LoopKind.SERIAL, Reduce("y", (c,), MAX, ld("x", r, c), origin("S1", "c", "r"))),
    )
    k = checked(
        Kernel(
            "column",
            ("x", "y", "rows", "cols"),
            (buf("x", rows, cols), buf("y", cols)),
            tuple(Scalar(s, DType.I32, True) for s in ("rows", "cols")),
            Block((loop("c", cols, LoopKind.PARALLEL, *body),)),
        )
    )
    assert prove(k, edit(k, at_loop("c", kind(LoopKind.GRID_X)))).proved
    both = edit(edit(k, at_loop("c", kind(LoopKind.GRID_X))), at_loop("r", kind(LoopKind.THREAD_X)))
    v = prove(k, replace(both, assumptions=(fact_equal("rows", 64),)))
    assert "E-RACE" in codes(v)


def test_column_misses_the_owner() -> None:
    """The row is read back shifted by one thread."""

    def shifted(s: Store) -> Store:
        return replace(s, value=map_expr(s.value, _shift_xr))

    refused(lifted.softmax(), edit(scheduled.softmax_block(), at_store("y", shifted)), "E-OWNER")


def test_slots_must_spell_the_subscript(monkeypatch: pytest.MonkeyPatch) -> None:
    """What code generation addresses is not taken on trust."""
    wrong = replace(scheduled.softmax_block(), max_threads=512)
    assert prove(lifted.softmax(), wrong).proved
    right_slot = cells.slot_of

    def one_off(*args: Any) -> tuple[Expr, ...]:
        slots = right_slot(*args)
        return (*slots[:-1], mod(add(slots[-1], 1), 4)) if slots else slots

    monkeypatch.setattr(cells, "slot_of", one_off)
    other = replace(wrong, max_threads=1024)
    refused(lifted.softmax(), other, "E-OWNER")


@pytest.mark.parametrize("aside", [-4, 4])
def test_slots_are_those_that_a_thread_has(aside: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The element of the next thread is spelled just as well by a slot that nobody has, behind the last or
    before the first."""
    right_slot = cells.slot_of

    def beyond(layout: Layout, indices: tuple[Expr, ...], *at: Any) -> tuple[Expr, ...]:
        try:
            return right_slot(layout, indices, *at)
        except LayoutError:
            *rest, last = right_slot(layout, (indices[0], sub(indices[1], aside)), *at)
            return (*rest, add(last, aside))

    def shifted(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == "xr":
            return replace(e, indices=(e.indices[0], add(e.indices[1], aside)))
        return e

    monkeypatch.setattr(cells, "slot_of", beyond)
    target = edit(
        scheduled.softmax_block(), at_store("y", lambda s: replace(s, value=map_expr(s.value, shifted)))
    )
    refused(lifted.softmax(), target, "E-OWNER")


def _shift_xr(e: Expr) -> Expr:
    if isinstance(e, Load) and e.buffer == "xr":
        return replace(e, indices=(e.indices[0], mod(add(e.indices[1], 4), 8192)))
    return e


def test_refusals_say_what_would_help() -> None:
    short = edit(scheduled.transpose_tiled(), at_loop("t.1", extent(index(16))))
    for k in (scheduled.transpose_tiled(barriers=False), short):
        assert all(d.repair for d in prove(lifted.transpose(), k).diagnostics)


def test_partial_without_identity() -> None:
    target = edit(scheduled.softmax_block(), at_store("m_part", lambda s: replace(s, value=Const(0.0, F32))))
    v = refused(lifted.softmax(), target, "E-REDUCTION")
    assert "identity of max" in v.diagnostics[0].message


def test_positive_zero_is_not_the_identity_of_a_sum() -> None:
    """0.0 + -0.0 is 0.0: a row of negative zeros would change sign."""
    target = edit(scheduled.softmax_block(), at_store("s_part", lambda s: replace(s, value=Const(0.0, F32))))
    refused(lifted.softmax(), target, "E-REDUCTION")


def test_combined_twice() -> None:
    def twice(s: For) -> tuple[Stmt, ...]:
        step = s.body.stmts[0]
        assert isinstance(step, Reduce)
        step = replace(step, value=Load("m_part", (var("again"),), F32))
        return (s, replace(s, var="again", body=Block((step,))))

    refused(lifted.softmax(), edit(scheduled.softmax_block(), at_loop("c.o.i.all", twice)), "E-REDUCTION")


def test_partials_of_some_threads_forgotten() -> None:
    target = edit(scheduled.softmax_block(), at_loop("c.o.i.all", extent(index(128))))
    refused(lifted.softmax(), target, "E-COMBINE")


def test_one_contribution_missing() -> None:
    k = edit(scheduled.softmax_block(), at_loop("c_2.o.o", extent(index(7))))
    refused(lifted.softmax(), k, "E-COVERAGE")


def test_partial_read_directly() -> None:
    def direct(s: Store) -> Store:
        part = Load("s_part", (var("c_3.o.i"),), F32)
        return replace(s, value=map_expr(s.value, lambda e: part if e == ld("s") else e))

    refused(lifted.softmax(), edit(scheduled.softmax_block(), at_store("y", direct)), "E-REDUCTION")


def test_combine_of_another_monoid() -> None:
    def sum_it(s: Reduce) -> Reduce:
        return replace(s, monoid=MAX) if s.origin is None else s

    v = prove(lifted.softmax(), edit(scheduled.softmax_block(), at_reduce("s", sum_it)))
    assert codes(v) == {"E-REDUCTION"}


def test_warp_reduce_over_a_block() -> None:
    target = edit(scheduled.softmax_block(), at_loop("c.o.i.all", kind(LoopKind.COMBINE_WARP)))
    refused(lifted.softmax(), target, "E-COMBINE")


def test_block_reduce_under_a_condition_on_threads() -> None:
    """With several rows a block, the threads of a row past the end leave the others waiting."""
    target = edit(scheduled.softmax_warp(), at_loop("c.o.i.all", kind(LoopKind.COMBINE_BLOCK)))
    refused(lifted.softmax(), target, "E-BARRIER")


def test_uninitialised_tile() -> None:
    """Columns past the first 16 of the tile are never copied."""
    target = edit(scheduled.transpose_tiled(), at_loop("t.1", extent(index(16))))
    v = refused(lifted.transpose(), target, "E-UNINIT")
    assert v.diagnostics[0].witness


def test_read_beyond_the_tile() -> None:
    def shifted(s: Store) -> Store:
        return replace(s, indices=(s.indices[0], add(s.indices[1], 1)))

    refused(lifted.transpose(), edit(scheduled.transpose_tiled(), at_store("t", shifted)), "E-BOUNDS")


def test_copy_that_converts() -> None:
    k = scheduled.transpose_tiled()

    def as_integers(s: Stmt) -> Stmt | None:
        return Alloc(replace(s.buffer, dtype=DType.I32)) if isinstance(s, Alloc) else None

    # Such a kernel is malformed already; the prover does not rely on that.
    refused(lifted.transpose(), replace(k, body=rewrite(k.body, as_integers)), "E-EXPR")


def test_duplicated_effect() -> None:
    refused(lifted.vecadd(), edit(scheduled.vecadd(), at_store("c", lambda s: (s, s))), "E-DUPLICATE")


def test_unknown_origin() -> None:
    from evolve.ir.stmt import Origin

    target = edit(scheduled.vecadd(), at_store("c", lambda s: replace(s, origin=Origin("S9", (var("i.o"),)))))
    refused(lifted.vecadd(), target, "E-COVERAGE")


def test_two_loads_of_one_array_exchanged() -> None:
    """x[i-1] - x[i+1] against x[i+1] - x[i-1]: sources match per read, not per statement."""
    n, i = var("n"), add(var("i"), 1)
    before, after = ld("x", add(i, -1)), ld("x", add(i, 1))

    def kernel(a: Load, b: Load, k: LoopKind) -> Kernel:
        s = Store("y", (i,), op(BinaryOp.SUB, a, b), origin("S0", "i"))
        return checked(
            Kernel(
                "difference",
                ("x", "y", "n"),
                (buf("x", n), buf("y", n)),
                (Scalar("n", DType.I32, True),),
                Block((loop("i", sub(n, 2), k, s),)),
            )
        )

    source = kernel(before, after, LoopKind.PARALLEL)
    assert prove(source, kernel(before, after, LoopKind.GRID_X)).proved
    refused(source, kernel(after, before, LoopKind.GRID_X), "E-FLOW")


def test_contradictory_assumptions_prove_nothing() -> None:
    k = replace(scheduled.saxpy_bound(), assumptions=(fact_equal("n", 0),))
    refused(lifted.saxpy_in_place(), k, "E-ASSUME")


def test_other_parameters() -> None:
    k = scheduled.saxpy_bound()
    v = prove(lifted.saxpy_in_place(), replace(k, buffers=(buf("x", add(var("n"), 1)), buf("y", var("n")))))
    assert v.status is Status.UNKNOWN and codes(v) == {"E-SIGNATURE"}


def test_products_of_variables_are_unknown() -> None:
    n, i = var("n"), var("i")
    flat = mul(i, n)
    s = Store("y", (flat,), ld("x", i), origin("S0", "i"))
    k = checked(
        Kernel(
            "strided",
            ("x", "y", "n"),
            (buf("x", n), buf("y", mul(n, n))),
            (Scalar("n", DType.I32, True),),
            Block((loop("i", n, LoopKind.PARALLEL, s),)),
        )
    )
    v = prove(k, edit(k, at_loop("i", kind(LoopKind.GRID_X))))
    assert v.status is Status.UNKNOWN and codes(v) == {"E-NONAFFINE"}


def gather(index_of: Expr, k: LoopKind = LoopKind.PARALLEL) -> Kernel:
    n, i = var("n"), var("i")
    where = Cast(Load("at", (index_of,), DType.I32), DType.INDEX)
    s = Store("y", (i,), Load("x", (where,), F32), origin("S0", "i"))
    return checked(
        Kernel(
            "gather",
            ("at", "x", "y", "n"),
            (Buffer("at", DType.I32, (n,), Space.GLOBAL), buf("x", n), buf("y", n)),
            (Scalar("n", DType.I32, True),),
            Block((loop("i", n, k, s),)),
        )
    )


def test_gathers_from_read_only_arrays_are_compared_by_subscript() -> None:
    source = gather(var("i"))
    assert prove(source, gather(var("i"), LoopKind.GRID_X)).proved
    v = prove(source, gather(sub(sub(var("n"), 1), var("i")), LoopKind.GRID_X))
    assert v.status is Status.REFUTED


def test_guarded_reads() -> None:
    """A value chosen by an affine condition; the target may drop a condition that its domain decides."""
    n, i = var("n"), var("i")
    cond = compare(BinaryOp.GE, i, 1)
    value = Select(cond, ld("x", add(i, -1)), Const(0.0, F32), F32)

    def kernel(*body: Stmt) -> Kernel:
        return checked(
            Kernel(
                "shift",
                ("x", "y", "n"),
                (buf("x", n), buf("y", n)),
                (Scalar("n", DType.I32, True),),
                Block(body),
            )
        )

    source = kernel(loop("i", n, LoopKind.PARALLEL, Store("y", (i,), value, origin("S0", "i"))))
    first = Store("y", (index(0),), Const(0.0, F32), replace(origin("S0"), instance=(index(0),)))
    j = add(var("j"), 1)
    rest = Store("y", (j,), ld("x", var("j")), replace(origin("S0"), instance=(j,)))
    peeled = kernel(first, loop("j", sub(n, 1), LoopKind.SERIAL, rest))
    assert prove(source, peeled).proved
    wrong = replace(rest, value=ld("x", j))
    refused(source, kernel(first, loop("j", sub(n, 1), LoopKind.SERIAL, wrong)), "E-FLOW")


def test_data_scalars_are_not_exchanged() -> None:
    def beta(s: Store) -> Store:
        alpha = Var("alpha", F32)
        return replace(s, value=map_expr(s.value, lambda e: Const(2.0, F32) if e == alpha else e))

    refused(lifted.saxpy_in_place(), edit(scheduled.saxpy_bound(), at_store("y", beta)), "E-EXPR")


def test_a_question_too_large_is_unknown_and_the_next_is_answered() -> None:
    source, target = lifted.matmul(), scheduled.matmul_tiled()
    v = prove(source, target, Limits(operations=2000))
    assert v.status is Status.UNKNOWN and codes(v) == {"E-LIMIT"}
    assert prove(source, target).proved
    assert prove(source, target, Limits(operations=2000)).status is Status.UNKNOWN


@pytest.mark.parametrize("operations", [1, 10, 100, 1000, 10000])
def test_no_limit_makes_a_wrong_program_right(operations: int) -> None:
    wrong = scheduled.transpose_tiled(barriers=False)
    assert not prove(lifted.transpose(), wrong, Limits(operations=operations)).proved


def test_binary_is_compared_as_a_tree() -> None:
    """a + b and b + a round alike, but exchanging operands was not declared."""

    def commuted(s: Store) -> Store:
        v = s.value
        assert isinstance(v, Binary)
        return replace(s, value=replace(v, lhs=v.rhs, rhs=v.lhs))

    assert not prove(lifted.vecadd(), edit(scheduled.vecadd(), at_store("c", commuted))).proved
