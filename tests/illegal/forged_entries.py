"""Entries of a sparse matrix shared out evenly with one thing wrong. Part of `forged`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evolve.ir.expr import Binary, BinaryOp, Expr, Find, Load, add, index, sub
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Boundary, For, Origin, Reduce, Stmt, Store
from evolve.ir.visit import map_expr
from tests.illegal.forging import F32, change, forged, good, with_loop

FOUR, TOGETHER = 4, 5
"""The good programs of `spmv` with entries shared out."""


def _contribution(f: Callable[[Reduce], Stmt | tuple[Stmt, ...]], number: int = FOUR) -> Kernel:
    def one(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        return f(s) if isinstance(s, Reduce) and s.atomic else None

    return change(good("spmv", number), one)


def _in_row(f: Callable[[Find], Expr], s: Reduce) -> Reduce:
    return replace(
        s, indices=tuple(map_expr(i, lambda e: f(e) if isinstance(e, Find) else e) for i in s.indices)
    )


@forged("spmv", "E-BOUNDS", "out-of-bounds", rows=6)
def entries_in_the_row_before() -> Kernel:
    return _contribution(lambda s: _in_row(lambda f: sub(f, 1), s))


@forged("spmv", "E-REDUCTION", "wrong", rows=6)
def entries_in_the_first_row_or_the_one_before() -> Kernel:
    """Kept inside the array by a maximum, where the row before would leave it."""

    def before(f: Find) -> Expr:
        return Binary(BinaryOp.MAX, sub(f, 1), index(0), f.dtype)

    return _contribution(lambda s: _in_row(before, s))


@forged("spmv", "E-RACE", "race", rows=6)
def entries_added_without_atomics() -> Kernel:
    return _contribution(lambda s: replace(s, atomic=False))


@forged("spmv", "E-RACE", "race", rows=6)
def entries_of_lanes_added_without_atomics() -> Kernel:
    return _contribution(lambda s: replace(s, atomic=False, aggregated=False), TOGETHER)


@forged("spmv", "E-REDUCTION", "wrong", rows=6)
def entries_added_twice() -> Kernel:
    return _contribution(lambda s: (s, s), TOGETHER)


@forged("spmv", "E-COVERAGE", "wrong", rows=6)
def entries_of_the_last_turn_left_out() -> Kernel:
    return with_loop(good("spmv", FOUR), "k.o.o.o", lambda s: replace(s, extent=sub(s.extent, 1)))


@forged("spmv", "E-BOUNDS", "wrong", rows=6)
def entries_claimed_to_be_the_next_ones() -> Kernel:
    """The product after, and the origin says that it is that one's turn."""

    def later(s: Reduce) -> Reduce:
        assert s.origin is not None
        row, k = s.origin.instance
        value = map_expr(
            s.value,
            lambda e: (
                replace(e, indices=(add(e.indices[0], 1),)) if isinstance(e, Load) and e.buffer != "x" else e
            ),
        )
        return replace(s, value=value, origin=Origin(s.origin.stmt, (row, add(k, 1))))

    return _contribution(later)


@forged("spmv", "E-RACE", "unrendered", rows=40)
def sums_begun_while_entries_are_added() -> Kernel:
    """The first launch ends with the second."""
    seen: list[Stmt] = []

    def first(s: Stmt) -> tuple[Stmt, ...] | None:
        if isinstance(s, Boundary) and not seen:
            seen.append(s)
            return ()
        return None

    return change(good("spmv", FOUR), first)


@forged("spmv", "E-UNINIT", "uninitialised", rows=6)
def sums_never_begun() -> Kernel:
    return with_loop(good("spmv", FOUR), "row.init.o", lambda s: ())


@forged("spmv", "E-REDUCTION", "wrong", rows=6)
def results_stored_before_entries_are_added() -> Kernel:
    """The last launch comes second."""
    k = good("spmv", FOUR)
    loops = [s for s in k.body.stmts if isinstance(s, For)]
    order = {id(loops[1]): loops[2], id(loops[2]): loops[1]}
    stmts = tuple(order.get(id(s), s) for s in k.body.stmts)
    return replace(k, body=replace(k.body, stmts=stmts))


@forged("spmv", "E-BOUNDS", "out-of-bounds", rows=6)
def sums_without_a_place_for_the_last() -> Kernel:
    """Scratch memory has the name of the source's register, and is no array that the source was given."""

    def short(s: Stmt) -> Stmt | None:
        if not isinstance(s, Alloc) or s.buffer.name != "sum":
            return None
        return Alloc(replace(s.buffer, extents=(sub(s.buffer.extents[0], 1),)))

    return change(good("spmv", TOGETHER), short)


@forged("spmv", "E-BOUNDS", "race", rows=6)
def rows_stored_plainly_at_their_boundaries() -> Kernel:
    """What a thread has is stored, as if it had all of the row."""

    def stored(s: Reduce) -> Store:
        total = Binary(BinaryOp.ADD, Load(s.buffer, s.indices, F32), s.value, F32)
        return Store(s.buffer, s.indices, total, s.origin)

    return _contribution(stored)
