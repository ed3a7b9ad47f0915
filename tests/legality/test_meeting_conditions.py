"""Conditions of barriers, combine loops and scans that nothing else holds in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.ir.expr import Cast, Const, Expr, Load, add, index, var
from evolve.ir.kernel import Kernel
from evolve.ir.poly import sizes_of
from evolve.ir.stmt import Alloc, Barrier, Block, For, If, Origin, Reduce, Stmt, Store
from evolve.ir.types import DType, LoopKind, Space
from evolve.ir.visit import Site, rewrite, walk
from evolve.legality.model import Model
from evolve.legality.prove import prove
from evolve.legality.uniform import why_not_uniform
from evolve.transforms.apply import apply_program
from evolve.transforms.edit import less
from tests.illegal.forcing import forgiving
from tests.illegal.forging import good
from tests.illegal.lifted import source
from tests.kernels_ir import buf, ld, loop

Edit = Callable[[Stmt], Stmt | tuple[Stmt, ...] | None]


def messages(name: str, target: Kernel, code: str) -> list[str]:
    """What is said under a code of a kernel that is not proved."""
    verdict = prove(source(name).kernel, target)
    assert not verdict.proved
    return [d.message for d in verdict.diagnostics if d.code == code]


def edited(k: Kernel, f: Edit) -> Kernel:
    new = replace(k, body=rewrite(k.body, f))
    assert new != k
    return new


# ---- barriers

PARTS = "bind(row, grid.x)\nsplit(k, 32)\nreorder([k.i, k.o])\nwarp_reduce(k.i)"


def with_barrier(around: Callable[[Barrier], Stmt]) -> Kernel:
    """The product with a barrier before each row is stored."""
    start = source("spmv").kernel
    target = finish(apply_program(start, parse(PARTS)).kernel)

    def one(s: Stmt) -> tuple[Stmt, ...] | None:
        return (around(Barrier()), s) if isinstance(s, Store) and s.buffer == "y" else None

    return edited(target, one)


def read(at: Expr) -> Expr:
    return Cast(Load("rowptr", (at,), DType.I32), DType.INDEX)


def test_a_barrier_that_all_reach_is_no_fault() -> None:
    assert prove(source("spmv").kernel, with_barrier(lambda b: b)).proved


@pytest.mark.parametrize("kind", ["loop", "condition"])
def test_a_barrier_waits_for_nothing_that_memory_says(kind: str) -> None:
    def around(b: Barrier) -> Stmt:
        if kind == "loop":
            return For("often", read(var("row")), LoopKind.SERIAL, Block((b,)))
        return If(less(read(var("row")), index(5)), Block((b,)))

    assert not prove(source("spmv").kernel, with_barrier(around)).proved


@pytest.mark.parametrize("kind", ["loop", "condition"])
def test_a_barrier_waits_for_nothing_that_a_thread_decides(kind: str) -> None:
    def around(b: Barrier) -> Stmt:
        t = var("lane")
        some = For("often", add(t, 1), LoopKind.SERIAL, Block((b,)))
        inside = some if kind == "loop" else If(less(t, index(5)), Block((b,)))
        return For("lane", index(32), LoopKind.THREAD_X, Block((inside,)))

    assert any("depends on lane" in m for m in messages("spmv", with_barrier(around), "E-BARRIER"))


def test_what_memory_holds_is_the_same_for_all_who_read_the_same_element_that_nobody_writes() -> None:
    k = good("row_sum", 0)
    model = Model(k, sizes_of(k, k.assumptions))
    (meeting,) = (x for x in walk(k.body) if isinstance(x.stmt, For) and x.stmt.kind.is_combine)

    def parts(read: Expr, *around: For) -> str | None:
        cond = less(read, Const(1.0, DType.F32))
        path = (*meeting.path, *around, If(cond, Block(())))
        return why_not_uniform(model, Site(meeting.stmt, path, (*meeting.in_else, False)), LoopKind.THREAD_X)

    lanes = For("lane", index(64), LoopKind.THREAD_X, Block(()))
    assert parts(ld("in", var("r"), index(0))) is None
    for what, read in (
        ("lane", ld("in", var("r"), var("lane"))),
        ("out", ld("out", var("r"))),
        ("sum", ld("sum")),
    ):
        assert str(parts(read, lanes)).endswith(f"depends on {what}")


# ---- combinations


def test_lanes_that_are_combined_are_a_power_of_two() -> None:
    start = source("row_sum").kernel
    text = "specialize(cols == 72)\nbind(r, grid.x)\nsplit(c, 24)\nwarp_reduce(c.i)"
    with forgiving({"E-REDUCE-WIDTH"}):
        target = finish(apply_program(start, parse(text)).kernel)
    assert any("a power of two" in m for m in messages("row_sum", target, "E-COMBINE"))


def test_what_combines_claims_nothing_of_the_source() -> None:
    def claimed(s: Stmt) -> Stmt | None:
        if not isinstance(s, For) or not s.kind.is_combine:
            return None
        (leaf,) = s.body.stmts
        assert isinstance(leaf, Reduce)
        return replace(s, body=Block((replace(leaf, origin=Origin("S1", (var("r"), index(0)))),)))

    assert messages("row_sum", edited(good("row_sum", 0), claimed), "E-COMBINE")


def test_what_is_combined_is_no_part_of_what_it_is_combined_into() -> None:
    def into_itself(s: Stmt) -> Stmt | None:
        if not isinstance(s, For) or not s.kind.is_combine:
            return None
        (leaf,) = s.body.stmts
        assert isinstance(leaf, Reduce) and isinstance(leaf.value, Load)
        return replace(
            s, body=Block((replace(leaf, value=Load(leaf.buffer, leaf.indices, leaf.value.dtype)),))
        )

    assert messages("row_sum", edited(good("row_sum", 0), into_itself), "E-COMBINE")


def combining(value: Callable[[For, Reduce], Expr], *before: Stmt) -> list[str]:
    """What is said of the sums of rows by blocks that combine something else, with statements before."""

    def one(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if not isinstance(s, For) or not s.kind.is_combine:
            return None
        (leaf,) = s.body.stmts
        assert isinstance(leaf, Reduce)
        return (*before, replace(s, body=Block((replace(leaf, value=value(s, leaf)),))))

    return messages("row_sum", edited(good("row_sum", 0), one), "E-COMBINE")


def test_what_is_combined_is_held_by_the_threads_that_are_counted() -> None:
    own = buf("own", index(64), space=Space.REGISTER)
    fill = loop("fill", index(64), Store("own", (var("fill"),), Const(-0.0, DType.F32)))
    partial = "must combine a register partial, one element a thread"
    assert any(partial in m for m in combining(lambda s, leaf: Const(1.0, DType.F32)))
    assert any(partial in m for m in combining(lambda s, leaf: ld("own", var(s.var)), Alloc(own), fill))


def test_all_that_is_combined_goes_into_one_element() -> None:
    """Turn by turn each would go into one of its own; threads that combine together have one total."""
    totals = buf("totals", index(64), space=Space.REGISTER)
    fill = loop("fill", index(64), Store("totals", (var("fill"),), Const(-0.0, DType.F32)))

    def one(s: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(s, For) or not s.kind.is_combine:
            return None
        (leaf,) = s.body.stmts
        assert isinstance(leaf, Reduce)
        each = replace(leaf, buffer="totals", indices=(var(s.var),))
        return (Alloc(totals), fill, replace(s, body=Block((each,))))

    assert messages("row_sum", edited(good("row_sum", 0), one), "E-COMBINE")


def test_what_is_combined_lies_in_registers() -> None:
    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, Alloc) and s.buffer.name.endswith("_part"):
            return replace(s, buffer=replace(s.buffer, space=Space.SHARED))
        return None

    assert messages("row_sum", edited(good("row_sum", 0), one), "E-COMBINE")


def test_nothing_stands_beside_what_is_combined() -> None:
    def together(s: For) -> Stmt:
        (leaf,) = s.body.stmts
        return replace(s, body=Block((Block((leaf,)), leaf)))

    def one(s: Stmt) -> Stmt | None:
        return together(s) if isinstance(s, For) and s.kind.is_combine else None

    said = messages("row_sum", edited(good("row_sum", 0), one), "E-COMBINE")
    assert any("exactly one reduction" in m for m in said)


# ---- scans

SCANNED = 1
"""The template of the cumulative sum that scans along a warp."""


def scanned(f: Callable[[Store, Reduce], tuple[Stmt, ...]]) -> list[str]:
    """What is said with the two statements of the scan changed."""

    def one(s: Stmt) -> Stmt | None:
        if not isinstance(s, For) or not s.kind.is_scan:
            return None
        first, second = s.body.stmts
        assert isinstance(first, Store) and isinstance(second, Reduce)
        return replace(s, body=Block(f(first, second)))

    return messages("cumsum", edited(good("cumsum", SCANNED), one), "E-COMBINE")


def test_a_scan_keeps_the_total_before_it_adds() -> None:
    total = "must first keep the total as it is"
    claim = Origin("S1", (var("r"), index(0)))
    assert any(total in m for m in scanned(lambda a, b: (replace(a, origin=claim), b)))
    assert any(total in m for m in scanned(lambda a, b: (a, replace(b, atomic=True))))
    assert any(total in m for m in scanned(lambda a, b: (replace(a, value=b.value), b)))
    assert any(total in m for m in scanned(lambda a, b: (replace(a, buffer=partial_of(b)), b)))
    assert any("must hold" in m for m in scanned(lambda a, b: (b, b)))
    assert scanned(lambda a, b: (b, a))
    assert scanned(lambda a, b: (a,))


def partial_of(s: Reduce) -> str:
    assert isinstance(s.value, Load)
    return s.value.buffer


def test_what_was_there_before_each_thread_is_kept_in_registers() -> None:
    """In shared memory each thread would write for itself what the model has thread 0 write."""

    def one(s: Stmt) -> Stmt | None:
        kept = isinstance(s, Alloc) and s.buffer.name == "acc_before"
        return (
            replace(s, buffer=replace(s.buffer, space=Space.SHARED))
            if kept and isinstance(s, Alloc)
            else None
        )

    assert messages("cumsum", edited(good("cumsum", SCANNED), one), "E-COMBINE")
