"""Scans with one thing wrong: order, coverage, multiplicity or form. Part of `forged`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evolve.ir.expr import Const, Expr, Load, index, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Block, For, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, LoopKind
from evolve.ir.visit import rewrite, substitute_block
from tests.illegal.forging import F32, change, forged, good, with_loop, with_values

SCAN = "c.o.i.all"
THREADS, LANES = 64, 8
"""Of the scans in the good programs of `cumsum`."""


def _with_turn(f: Callable[[Store, Reduce], tuple[Stmt, ...]]) -> Kernel:
    """The good program with other statements in its scan loop."""

    def one(s: For) -> For:
        first, second = s.body.stmts
        assert isinstance(first, Store) and isinstance(second, Reduce)
        return replace(s, body=Block(f(first, second)))

    return with_loop(good("cumsum"), SCAN, one)


@forged("cumsum", "E-REDUCTION", "wrong", cols=256)
def scan_that_counts_the_own_partial() -> Kernel:
    """Inclusive where exclusive is meant: each thread goes on from a total with its own elements in it."""
    more = Reduce("acc_before", (var("own"),), SUM, Load("acc_part", (var("own"),), F32))
    own = For("own", index(THREADS), LoopKind.THREAD_X, Block((more,)))
    return with_loop(good("cumsum"), SCAN, lambda s: (s, own))


@forged("cumsum", "E-COMBINE", "unrendered", cols=256)
def scan_that_adds_before_it_keeps() -> Kernel:
    return _with_turn(lambda first, second: (second, first))


@forged("cumsum", "E-COMBINE", "unrendered", cols=256)
def scan_that_keeps_the_partial() -> Kernel:
    """What is kept for each thread is its partial, not the total before it."""
    return _with_turn(lambda first, second: (replace(first, value=second.value), second))


@forged("cumsum", "E-OWNER", "unrendered", cols=256)
def scan_of_half_the_threads() -> Kernel:
    return with_loop(good("cumsum"), SCAN, lambda s: replace(s, extent=index(THREADS // 2)))


@forged("cumsum", "E-REDUCTION", "wrong", cols=256)
def scan_with_another_monoid() -> Kernel:
    return _with_turn(lambda first, second: (first, replace(second, monoid=MAX)))


@forged("cumsum", "E-REDUCTION", "wrong", cols=256)
def partials_with_an_element_missing() -> Kernel:
    return with_loop(good("cumsum"), "c.i.part", lambda s: replace(s, extent=index(1)))


@forged("cumsum", "E-REDUCTION", "wrong", cols=256)
def partials_scanned_twice() -> Kernel:
    def again(s: For) -> tuple[Stmt, ...]:
        return s, replace(s, var="again", body=substitute_block(s.body, {s.var: var("again")}))

    return with_loop(good("cumsum"), SCAN, again)


@forged("cumsum", "E-REDUCTION", "wrong", cols=70)
def partials_in_reverse() -> Kernel:
    """Thread t adds up the elements of thread 7 - t: all are there, in another order."""

    def one(s: For) -> For:
        other = substitute_block(s.body, {s.var: sub(index(LANES - 1), var(s.var))})
        own = rewrite(other, lambda x: replace(x, indices=(var(s.var),)) if isinstance(x, Reduce) else None)
        return replace(s, body=own)

    return with_loop(good("cumsum", 1), "c.o.i.part", one)


@forged("cumsum", "E-REDUCTION", "wrong", cols=256)
def partials_that_start_at_one() -> Kernel:
    def one(s: Stmt) -> Stmt | None:
        starts = isinstance(s, Store) and s.buffer == "acc_part"
        return replace(s, value=Const(1.0, F32)) if isinstance(s, Store) and starts else None

    return change(good("cumsum"), one)


@forged("cumsum", "E-REDUCTION", "wrong", cols=256)
def chunks_that_forget_what_came_before() -> Kernel:
    forget = Store("acc", (), Const(-0.0, F32))
    return with_loop(good("cumsum"), SCAN, lambda s: (forget, s))


@forged("cumsum", "E-OWNER", "unrendered", cols=256)
def total_of_another_thread() -> Kernel:
    """Read by a thread that does not hold it."""

    def mirrored(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == "acc_before":
            return replace(e, indices=(sub(index(THREADS - 1), e.indices[0]),))
        return e

    return with_values(good("cumsum"), "y_run", mirrored)


@forged("row_sum", "E-COMBINE", "wrong", rows=5, cols=256)
def scan_that_keeps_the_total_in_itself() -> Kernel:
    """In order, one copies what it is; threads that scan together add what came before a second time."""

    def one(s: Stmt) -> Stmt | None:
        if not isinstance(s, For) or not s.kind.is_combine:
            return None
        (leaf,) = s.body.stmts
        assert isinstance(leaf, Reduce)
        itself = Store(leaf.buffer, leaf.indices, Load(leaf.buffer, leaf.indices, F32))
        return replace(s, kind=LoopKind.SCAN_BLOCK, body=Block((itself, leaf)))

    return change(good("row_sum"), one)
