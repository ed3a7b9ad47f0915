"""Conditions inside the checks that nothing else holds in place: without each of them one of these fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.ir.expr import (
    Binary,
    BinaryOp,
    Cast,
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
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Block, For, If, Origin, Reduce, Stmt, Store
from evolve.ir.swizzle import Swizzle
from evolve.ir.types import MAX, SUM, DType, LoopKind, Monoid, Space
from evolve.ir.visit import map_expr, rewrite, walk
from evolve.legality.prove import prove
from evolve.legality.verdict import Status
from evolve.transforms.apply import apply_program
from tests.illegal.forging import good
from tests.illegal.lifted import source
from tests.kernels_ir import buf, checked, ld, op, softmax, vecadd


def with_idle_copy(where: Expr) -> Kernel:
    """c = a + b, and a copy of the element of `a` at `where` that nobody looks at."""
    k = vecadd()

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, For):
            copy = (Alloc(buf("t", space=Space.REGISTER)), Store("t", (), ld("a", where)))
            return replace(s, kind=LoopKind.SERIAL, body=Block((*copy, *s.body.stmts)))
        return None

    return finish(replace(k, body=rewrite(k.body, one)))


def test_an_idle_copy_is_no_fault() -> None:
    assert prove(vecadd(), with_idle_copy(var("i"))).proved


def test_what_is_copied_lies_within_the_array_on_both_sides() -> None:
    for where in (sub(var("i"), 1), add(var("i"), 1), index(-1), var("n")):
        verdict = prove(vecadd(), with_idle_copy(where))
        assert verdict.status is Status.REFUTED
        assert verdict.diagnostics[0].code == "E-BOUNDS"


def test_a_subscript_that_cannot_be_bounded_is_said_to_be_so() -> None:
    verdict = prove(vecadd(), with_idle_copy(mod(mul(var("i"), var("i")), 64)))
    assert verdict.status is Status.UNKNOWN
    assert "E-BOUNDS" in {d.code for d in verdict.diagnostics}


def with_row_read_at(where: Expr) -> Kernel:
    """The sparse product by threads, its rows ending where the row pointer at `where` says."""
    k = source("spmv").kernel
    target = finish(
        apply_program(k, parse("split(row, 4)\nbind(row.o, grid.x)\nbind(row.i, thread.x)")).kernel
    )
    row = add(mul(var("row.o"), 4), var("row.i"))

    def change(e: Expr) -> Expr:
        one_on = isinstance(e, Load) and e.buffer == "rowptr" and e.indices != (row,)
        return replace(e, indices=(where,)) if one_on and isinstance(e, Load) else e

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, For) and s.extent.dtype is DType.INDEX:
            return replace(s, extent=map_expr(s.extent, change))
        return None

    return replace(target, body=rewrite(target.body, one))


def test_where_a_row_ends_is_read_within_the_array() -> None:
    row = add(mul(var("row.o"), 4), var("row.i"))
    kernel = source("spmv").kernel
    assert prove(kernel, with_row_read_at(add(row, 1))).proved
    for where in (add(row, 2), sub(row, 1), index(-1)):
        codes = {d.code for d in prove(kernel, with_row_read_at(where)).diagnostics}
        assert "E-BOUNDS" in codes, where
    unknown = prove(kernel, with_row_read_at(mod(mul(row, row), 4)))
    assert not unknown.proved
    assert "E-BOUNDS" in {d.code for d in unknown.diagnostics}


def serial(*before: Stmt) -> Kernel:
    """c = a + b in order, with statements before the store."""
    k = vecadd()

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, For):
            return replace(s, kind=LoopKind.SERIAL, body=Block((*before, *s.body.stmts)))
        return None

    return replace(k, body=rewrite(k.body, one))


def codes_of(target: Kernel, start: Kernel | None = None) -> set[str]:
    verdict = prove(start or vecadd(), target)
    assert not verdict.proved
    return {d.code for d in verdict.diagnostics}


def test_one_statement_is_not_made_twice_by_a_loop() -> None:
    k = serial()
    twice = replace(k, body=Block((For("again", index(2), LoopKind.SERIAL, k.body),)))
    assert codes_of(twice) == {"E-DUPLICATE"}


def test_what_has_no_origin_only_copies() -> None:
    t = buf("t", space=Space.REGISTER)
    value = op(BinaryOp.ADD, ld("a", var("i")), ld("b", var("i")))
    assert codes_of(serial(Alloc(t), Store("t", (), value))) == {"E-EXPR"}


def test_a_copy_does_not_convert() -> None:
    wide = replace(buf("t", space=Space.REGISTER), dtype=DType.F64)
    assert codes_of(serial(Alloc(wide), Store("t", (), ld("a", var("i"))))) == {"E-EXPR"}
    other = replace(ld("a", var("i")), dtype=DType.F64)
    assert "E-EXPR" in codes_of(serial(Alloc(wide), Store("t", (), other)))


def test_an_axis_has_no_more_threads_than_the_hardware_gives_it() -> None:
    inner = For("z", index(65), LoopKind.THREAD_Z, Block((Store("t", (var("z"),), ld("a", var("i"))),)))
    t = buf("t", index(65), space=Space.SHARED)
    assert codes_of(serial(Alloc(t), inner)) == {"E-THREADS"}


def test_shared_memory_has_a_constant_size() -> None:
    t = buf("t", var("n"), space=Space.SHARED)
    assert "E-SHARED-SIZE" in codes_of(serial(Alloc(t), Store("t", (index(0),), ld("a", var("i")))))


def test_a_swizzle_has_a_constant_number_of_columns() -> None:
    t = replace(buf("t", index(4), var("n"), space=Space.SHARED), swizzle=Swizzle(1, 2))
    first = Store("t", (index(0), index(0)), ld("a", var("i")))
    assert codes_of(serial(Alloc(t), first)) >= {"E-SHARED-SIZE", "E-LAYOUT"}


def test_shared_memory_is_declared_outside_of_thread_loops() -> None:
    t = buf("t", index(1), space=Space.SHARED)
    inside = Block((Alloc(t), Store("t", (index(0),), ld("a", var("i")))))
    assert "E-SHARED-SCOPE" in codes_of(serial(For("x", index(1), LoopKind.THREAD_X, inside)))


def test_assumptions_are_kept() -> None:
    fact = compare(BinaryOp.EQ, mod(var("n"), 4), 0)
    assert codes_of(serial(), replace(vecadd(), assumptions=(fact,))) == {"E-ASSUME"}


def test_an_origin_names_a_statement_of_the_source() -> None:
    def other(s: Stmt) -> Stmt | None:
        return replace(s, origin=Origin("S9", (var("i"),))) if isinstance(s, Store) else None

    assert codes_of(replace(serial(), body=rewrite(serial().body, other))) == {"E-COVERAGE"}


def test_the_source_numbers_its_own_statements() -> None:
    def without(s: Stmt) -> Stmt | None:
        return replace(s, origin=None) if isinstance(s, Store) else None

    def shifted(s: Stmt) -> Stmt | None:
        return replace(s, origin=Origin("S0", (add(var("i"), 1),))) if isinstance(s, Store) else None

    for change in (without, shifted):
        start = replace(vecadd(), body=rewrite(vecadd().body, change))
        assert codes_of(serial(), start) == {"E-SOURCE"}


def summed(f: Callable[[Stmt], Stmt | tuple[Stmt, ...] | None]) -> set[str]:
    """The codes for the sums of rows, in order, with `f` applied to each statement."""
    start = source("row_sum").kernel
    target = finish(start)
    changed = replace(target, body=rewrite(target.body, f))
    assert changed != target
    return codes_of(changed, start)


def test_a_reduction_is_no_store() -> None:
    def one(s: Stmt) -> Stmt | None:
        return Store(s.buffer, s.indices, s.value, s.origin) if isinstance(s, Reduce) else None

    assert summed(one) == {"E-EXPR"}


def test_an_accumulator_keeps_its_type() -> None:
    def one(s: Stmt) -> Stmt | None:
        return Alloc(replace(s.buffer, dtype=DType.F64)) if isinstance(s, Alloc) else None

    assert "E-EXPR" in summed(one)


def test_what_is_added_without_an_origin_is_a_partial() -> None:
    def one(s: Stmt) -> tuple[Stmt, ...] | None:
        more = replace(s, value=Const(1.0, DType.F32), origin=None) if isinstance(s, Reduce) else s
        return (s, more) if isinstance(s, Reduce) else None

    assert summed(one) == {"E-REDUCTION"}


def test_a_chain_of_copies_without_end_is_not_followed() -> None:
    names = [f"t{n}" for n in range(12)]

    def one(s: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(s, Store) or s.buffer != "out" or not isinstance(s.value, Load):
            return None
        out: list[Stmt] = []
        for name, before in pairwise((s.value.buffer, *names)):
            out += [Alloc(buf(before, space=Space.REGISTER)), Store(before, (), ld(name))]
        return (*out, replace(s, value=ld(names[-1])))

    assert summed(one) == {"E-FLOW"}


def test_partials_are_folded_as_they_were_gathered() -> None:
    start = softmax()
    first = next(x.stmt for x in walk(start.body) if isinstance(x.stmt, Reduce) and x.stmt.monoid == MAX)
    part = buf("part", space=Space.REGISTER)

    def one(s: Stmt) -> tuple[Stmt, ...] | None:
        if not isinstance(s, For) or first not in s.body.stmts:
            return None
        inside = replace(first, buffer="part", indices=())
        body = Block(tuple(inside if x == first else x for x in s.body.stmts))
        fold = replace(first, monoid=SUM, value=ld("part"), origin=None)
        return (Alloc(part), Store("part", (), Const(-0.0, DType.F32)), replace(s, body=body), fold)

    target = finish(start)
    verdict = prove(start, replace(target, body=rewrite(target.body, one)))
    assert {d.code for d in verdict.diagnostics} == {"E-REDUCTION"}
    assert "what another monoid gathered" in verdict.diagnostics[0].message


def combined(f: Callable[[For], Stmt]) -> set[str]:
    """The codes for the sums of rows by blocks, with `f` applied to the loop that combines."""

    def one(s: Stmt) -> Stmt | None:
        return f(s) if isinstance(s, For) and s.kind.is_combine else None

    target = good("row_sum", 0)
    return codes_of(replace(target, body=rewrite(target.body, one)), source("row_sum").kernel)


def test_a_combination_is_one_reduction_outside_of_thread_loops() -> None:
    def twice(s: For) -> Stmt:
        return replace(s, body=Block((*s.body.stmts, *s.body.stmts)))

    def inside(s: For) -> Stmt:
        return For("lanes", s.extent, LoopKind.THREAD_X, Block((s,)))

    def wide(s: For) -> Stmt:
        return replace(s, extent=mul(s.extent, 2))

    for change in (twice, inside, wide):
        assert "E-COMBINE" in combined(change)


def test_a_grid_is_not_read_from_memory() -> None:
    start = source("spmv").kernel

    def one(s: Stmt) -> Stmt | None:
        return replace(s, kind=LoopKind.GRID_X) if isinstance(s, For) and s.var == "k" else None

    target = finish(start)
    assert codes_of(replace(target, body=rewrite(target.body, one)), start) & {"E-GRID", "E-DATA-LOOP"}


def stored(start: Expr, target: Expr) -> set[str]:
    """The codes for c[i] = target where the source has c[i] = start; none when that is proved."""

    def kernel(value: Expr) -> Kernel:
        def one(s: Stmt) -> Stmt | None:
            return replace(s, value=value) if isinstance(s, Store) else None

        return replace(vecadd(), body=rewrite(vecadd().body, one))

    assert prove(kernel(start), finish(kernel(start))).proved
    verdict = prove(kernel(start), finish(kernel(target)))
    assert verdict.proved == (not verdict.diagnostics)
    return {d.code for d in verdict.diagnostics}


def test_numbers_made_of_indices_are_compared() -> None:
    i = var("i")

    def number(e: Expr) -> Expr:
        return Cast(e, DType.F32)

    assert stored(number(mul(i, 2)), number(add(i, i))) == set()
    assert stored(number(i), number(add(i, 1))) == {"E-EXPR"}
    assert stored(number(mul(i, i)), number(mul(i, add(i, 1)))) == {"E-EXPR"}
    assert stored(number(i), Cast(i, DType.F64)) == {"E-EXPR"}
    n = var("n")
    assert stored(number(mod(i, n)), number(mod(i, n))) == set()
    assert stored(number(floordiv(i, n)), number(mod(i, n))) == {"E-EXPR"}


def test_a_choice_is_dropped_only_where_it_is_settled() -> None:
    a, b, i = ld("a", var("i")), ld("b", var("i")), var("i")
    always, sometimes = compare(BinaryOp.GE, i, 0), compare(BinaryOp.LT, i, 4)
    data = Binary(BinaryOp.LT, a, b, DType.BOOL)
    assert stored(Select(always, a, b, DType.F32), a) == set()
    assert stored(Select(always, a, b, DType.F32), b)
    for cond in (sometimes, data):
        assert stored(Select(cond, a, b, DType.F32), a) == {"E-EXPR"}
        assert stored(a, Select(cond, a, b, DType.F32)) == {"E-EXPR"}


def counted_twice(of: Monoid) -> Kernel:
    """Softmax in order, each element taken twice into its row's maximum, or sum."""
    start = softmax()

    def one(s: Stmt) -> tuple[Stmt, ...] | None:
        return (s, s) if isinstance(s, Reduce) and s.monoid == of else None

    return finish(replace(start, body=rewrite(start.body, one)))


def test_an_element_may_count_twice_in_a_maximum_and_not_in_a_sum() -> None:
    assert prove(softmax(), counted_twice(MAX)).proved
    assert codes_of(counted_twice(SUM), softmax()) == {"E-REDUCTION"}


def test_what_never_happens_is_not_asked_for_its_value() -> None:
    start = source("row_sum").kernel

    def more(times: int) -> Kernel:
        """The sum of a row stored before anything is added to it, so many times."""

        def one(s: Stmt) -> tuple[Stmt, ...] | None:
            if not isinstance(s, For) or not any(isinstance(x, Reduce) for x in s.body.stmts):
                return None
            early = next(
                x.stmt for x in walk(start.body) if isinstance(x.stmt, Store) and x.stmt.buffer == "out"
            )
            return (For("early", index(times), LoopKind.SERIAL, Block((early,))), s)

        return finish(replace(start, body=rewrite(start.body, one)))

    assert prove(start, more(0)).proved
    assert not prove(start, more(1)).proved


def stores_of_rows(*sweeps: Stmt) -> Kernel:
    """y and z are written by sweeps over n elements of a and b, one after the other."""
    n = var("n")
    buffers = (buf("a", n), buf("b", n), buf("y", n))
    return checked(Kernel("rows", ("a", "b", "y", "n"), buffers, vecadd().scalars, Block(sweeps)))


def sweep(name: str, to: Expr, of: str, at: Expr, statement: str) -> For:
    """y[to] = of[at] for each i below n; `at` is also the instance of the source that it claims to be."""
    store = Store("y", (to,), ld(of, at), Origin(statement, (at,)))
    return For(name, var("n"), LoopKind.SERIAL, Block((store,)))


def test_the_last_of_several_stores_into_a_cell_stays() -> None:
    i = var("i")
    start = stores_of_rows(sweep("i", index(0), "a", i, "S0"))
    assert prove(start, finish(start)).proved
    turned = stores_of_rows(sweep("i", index(0), "a", sub(sub(var("n"), 1), i), "S0"))
    assert "E-FLOW" in codes_of(finish(turned), start)


def test_the_later_of_two_sweeps_over_the_same_cells_stays() -> None:
    first, second = sweep("i", var("i"), "a", var("i"), "S0"), sweep("j", var("j"), "b", var("j"), "S1")
    start = stores_of_rows(first, second)
    assert prove(start, finish(start)).proved
    assert "E-FLOW" in codes_of(finish(stores_of_rows(second, first)), start)


def test_all_updates_of_a_cell_by_several_threads_are_atomic() -> None:
    start = source("total").kernel
    text = "split(i, 2)\npeel(i.i, first=1)\nbind(i.o, grid.x)"
    target = finish(apply_program(start, parse(text)).kernel)
    assert prove(start, target).proved
    updates = [x.stmt for x in walk(target.body) if isinstance(x.stmt, Reduce) and x.stmt.atomic]
    assert len(updates) == 2
    for plain in updates:

        def one(s: Stmt, plain: Reduce = plain) -> Stmt | None:  # type: ignore[assignment]
            return replace(plain, atomic=False) if s is plain else None

        assert "E-RACE" in codes_of(replace(target, body=rewrite(target.body, one)), start)


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
def test_an_update_by_one_block_is_atomic_beside_those_of_others(first: bool) -> None:
    """The plain one is made once and meets only updates that are indivisible: some of them are lost."""
    start = source("total").kernel
    target = finish(apply_program(start, parse("split(i, 2)\nbind(i.o, grid.x)")).kernel)
    at = add(mul(var("i.o"), 2), var("i.i"))

    def split(plain: bool) -> Kernel:
        def one(s: Stmt) -> Stmt | None:
            if not isinstance(s, Reduce):
                return None
            of_one, of_others = Block((replace(s, atomic=not plain),)), Block((s,))
            if first:
                return If(compare(BinaryOp.LE, at, 0), of_one, of_others)
            return If(compare(BinaryOp.GE, at, 1), of_others, of_one)

        return replace(target, body=rewrite(target.body, one))

    assert prove(start, split(plain=False)).proved
    assert codes_of(split(plain=True), start) == {"E-RACE"}


def test_what_nobody_writes_may_be_read_through_the_path_for_that() -> None:
    start = vecadd()
    hinted = apply_program(start, parse("cache_hint(a, read_only)")).kernel
    assert prove(start, finish(hinted)).proved


def test_what_is_only_asked_for_is_not_read() -> None:
    t, u = buf("t", space=Space.REGISTER), buf("u", space=Space.REGISTER)
    ask = Store("t", (), ld("a", var("i")), prefetch=True)
    assert prove(vecadd(), finish(serial(Alloc(t), ask))).proved
    assert "E-PREFETCH" in codes_of(serial(Alloc(t), ask, Alloc(u), Store("u", (), ld("t"))))


def test_parameters_are_those_of_the_source() -> None:
    start, target = vecadd(), finish(vecadd())
    first, *rest = target.buffers
    others = (
        (replace(first, dtype=DType.F64), *rest),
        (replace(first, extents=(add(var("n"), 1),)), *rest),
        (replace(first, padding=(1,)), *rest),
        (*target.buffers, buf("more", var("n"))),
        tuple(reversed(target.buffers)),
    )
    for buffers in others:
        assert not prove(start, replace(target, buffers=buffers)).proved
    (size,) = target.scalars
    assert not prove(start, replace(target, scalars=(replace(size, dtype=DType.I64),))).proved
    gather = source("gather").kernel
    (known,) = gather.contents
    fewer = replace(known, high=sub(known.high, 1))
    assert not prove(gather, replace(finish(gather), contents=(fewer,))).proved


def test_conditions_are_compared_where_they_are_asked() -> None:
    i, n, a, b = var("i"), var("n"), ld("a", var("i")), ld("b", var("i"))

    def choice(cond: Expr) -> Expr:
        return Select(cond, a, b, DType.F32)

    below, at_most = compare(BinaryOp.LT, i, n), compare(BinaryOp.LE, i, n)
    positive = compare(BinaryOp.GE, i, 1)
    assert stored(choice(positive), choice(compare(BinaryOp.LT, index(0), i))) == set()
    assert stored(choice(below), choice(at_most)) == set()
    assert stored(choice(at_most), choice(below)) == set()
    assert stored(choice(positive), choice(compare(BinaryOp.GE, i, 2))) == {"E-EXPR"}


def test_what_is_read_at_places_that_cannot_be_said_is_not_written() -> None:
    squares = ld("a", mod(mul(var("i"), var("i")), 64))

    def one(s: Stmt) -> Stmt | None:
        return replace(s, value=squares) if isinstance(s, Store) else None

    start = replace(vecadd(), body=rewrite(vecadd().body, one))
    assert prove(start, finish(start)).proved
    writes = Store("a", (index(0),), ld("a", index(1)))
    target = replace(
        serial(writes), body=rewrite(serial(writes).body, lambda s: one(s) if s != writes else None)
    )
    assert "E-EXPR" in codes_of(target, start)
