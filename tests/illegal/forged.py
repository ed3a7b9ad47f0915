"""Kernels that no program makes: a good parallel kernel with one thing wrong, for the prover alone.

Each says with which code the prover must refuse it and what its execution shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evolve.ir.expr import TRUE, Binary, BinaryOp, Const, Expr, Load, add, index, mod, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Barrier, Block, Commit, For, If, Origin, Reduce, Stmt, Store, Wait
from evolve.ir.types import MAX, MIN, Cache, DType, LoopKind
from evolve.ir.visit import map_block_exprs, map_expr, rewrite, substitute_block
from tests.illegal import (
    forged_entries,
    forged_landings,
    forged_layouts,
    forged_online,
    forged_powers,
    forged_prefetch,
    forged_reports,
    forged_scans,
)
from tests.illegal.forging import (
    FORGED,
    Forged,
    change,
    forged,
    good,
    leaves_of,
    loop,
    scheduled,
    the,
    with_loop,
    with_values,
    without_barrier,
)
from tests.illegal.templates import TEMPLATES

__all__ = [
    "FORGED",
    "Forged",
    "forged_entries",
    "forged_landings",
    "forged_layouts",
    "forged_online",
    "forged_powers",
    "forged_prefetch",
    "forged_reports",
    "forged_scans",
]

F32 = DType.F32

# ---- barriers


@forged("transpose", "E-RACE", "race")
def tile_without_a_barrier() -> Kernel:
    return change(good("transpose"), lambda s: () if isinstance(s, Barrier) else None)


@forged("matmul", "E-RACE", "race", M=16, N=16, K=12)
def tile_read_before_it_is_filled() -> Kernel:
    return without_barrier(good("matmul", 1), 0)


@forged("matmul", "E-RACE", "race", M=16, N=16, K=12)
def tile_filled_again_while_it_is_read() -> Kernel:
    """The write-after-read that TileLang #2668 forgot."""
    return without_barrier(good("matmul", 1), 1)


@forged("sweep", "E-RACE", "race", cols=9, grids=3)
def rows_without_a_barrier() -> Kernel:
    return without_barrier(good("sweep"), 0)


@forged("transpose", "E-BARRIER", "divergent-barrier")
def barrier_of_half_the_threads() -> Kernel:
    """pocl #1167, TileLang #2612: a barrier that some threads do not reach."""
    half = For("half", index(4), LoopKind.THREAD_X, Block((Barrier(),)))
    return change(good("transpose"), lambda s: half if isinstance(s, Barrier) else None)


@forged("matmul", "E-RACE", "race", M=16, N=16, K=12)
def barriers_after_the_loop() -> Kernel:
    k = change(good("matmul", 1), lambda s: () if isinstance(s, Barrier) else None)
    return with_loop(k, "k.o", lambda s: (s, Barrier()))


# ---- shifted loops: what guards cut off vectors

SHIFTED = 2
"""The shifted template of the stencil."""


def _lane_guard(f: Callable[[Expr], Expr]) -> Kernel:
    """Each comparison in the guard of the stencil's vector loop changed."""

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, For) and s.var == "j.i":
            (guard,) = s.body.stmts
            assert isinstance(guard, If)
            return replace(s, body=Block((replace(guard, cond=map_expr(guard.cond, f)),)))
        return None

    return change(good("stencil", SHIFTED), one)


@forged("stencil", "E-COVERAGE", "wrong", rows=6, cols=8)
def first_lane_not_masked() -> Kernel:
    return _lane_guard(lambda e: TRUE if isinstance(e, Binary) and e.op is BinaryOp.GE else e)


@forged("stencil", "E-COVERAGE", "wrong", rows=6, cols=8)
def first_vector_left_out() -> Kernel:
    def later(e: Expr) -> Expr:
        return replace(e, rhs=index(4)) if isinstance(e, Binary) and e.op is BinaryOp.GE else e

    return _lane_guard(later)


@forged("stencil", "E-COVERAGE", "wrong", rows=6, cols=8)
def last_lane_not_masked() -> Kernel:
    return _lane_guard(lambda e: TRUE if isinstance(e, Binary) and e.op is BinaryOp.LT else e)


@forged("stencil", "E-FLOW", "wrong", rows=6, cols=8)
def window_read_a_lane_aside() -> Kernel:
    def aside(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == "t":
            return replace(e, indices=(e.indices[0], sub(e.indices[1], 1)))
        return e

    return with_values(good("stencil", SHIFTED), "y", aside)


@forged("saxpy", "E-CACHE", not_shown="the host has no cache of its own for read-only data")
def read_only_path_to_what_is_written() -> Kernel:
    k = good("saxpy")
    hinted = tuple(replace(b, cache=Cache.READ_ONLY) if b.name == "y" else b for b in k.buffers)
    return replace(k, buffers=hinted)


# ---- pipelines: two versions of a tile, filled one iteration ahead

PIPELINED = 2
"""The pipelined template of matmul."""


@forged("matmul", "E-RACE", "race", M=16, N=16, K=12)
def one_version_less() -> Kernel:
    def one(x: Expr) -> Expr:
        whole = isinstance(x, Binary) and x.op is BinaryOp.MOD
        return index(0) if whole else x

    k = good("matmul", PIPELINED)
    return replace(k, body=map_block_exprs(k.body, lambda e: map_expr(e, one)))


@forged("matmul", "E-RACE", "race", M=16, N=16, K=12)
def pipeline_without_its_barrier() -> Kernel:
    return without_barrier(good("matmul", PIPELINED), 1)


@forged("matmul", "E-RACE", "race", M=16, N=16, K=12)
def prologue_without_its_barrier() -> Kernel:
    return without_barrier(good("matmul", PIPELINED), 0)


@forged("matmul", "E-UNINIT", "uninitialised", M=16, N=16, K=12)
def pipeline_without_its_prologue() -> Kernel:
    return with_loop(good("matmul", PIPELINED), "a.0.0", lambda s: ())


@forged("matmul", "E-BOUNDS", "out-of-bounds", M=16, N=16, K=12)
def loads_of_an_iteration_too_many() -> Kernel:
    return _with_guards(sub)


@forged("matmul", "E-UNINIT", "uninitialised", M=16, N=16, K=8)
def pipeline_that_ends_early() -> Kernel:
    return _with_guards(add)


def _with_guards(change_by: Callable[[Expr, int], Expr]) -> Kernel:
    """The guards around loads and writes ask for an iteration less or more."""

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, If) and isinstance(s.cond, Binary) and s.cond.lhs == add(var("k.o"), 1):
            return replace(s, cond=replace(s.cond, lhs=change_by(s.cond.lhs, 1)))
        return None

    return change(good("matmul", PIPELINED), one)


@forged("matmul", "E-FLOW", "wrong", M=16, N=16, K=12)
def loads_of_this_iteration() -> Kernel:
    """What is loaded is what the iteration has, not what the next one needs."""
    now = {"k.o": sub(var("k.o"), 1)}
    return with_loop(good("matmul", PIPELINED), "a.0.1", lambda s: _substituted(s, now))


@forged("matmul", "E-RACE", "race", M=16, N=16, K=12)
def written_into_the_version_in_use() -> Kernel:
    now = {"k.o": sub(var("k.o"), 1)}
    return with_loop(good("matmul", PIPELINED), "a.0.2", lambda s: _substituted(s, now))


# ---- asynchronous copies, two iterations ahead

ASYNCHRONOUS = 3
"""The template of matmul that has them."""


def _with_wait(number: int, new: tuple[Stmt, ...]) -> Kernel:
    """Wait `number` in text order replaced."""
    seen = [-1]

    def one(s: Stmt) -> tuple[Stmt, ...] | None:
        if isinstance(s, Wait):
            seen[0] += 1
            return new if seen[0] == number else None
        return None

    return change(good("matmul", ASYNCHRONOUS), one)


@forged("matmul", "E-ASYNC", "race", M=16, N=16, K=12)
def copies_never_waited_for() -> Kernel:
    return change(good("matmul", ASYNCHRONOUS), lambda s: () if isinstance(s, Wait) else None)


@forged("matmul", "E-ASYNC", "race", M=16, N=16, K=16)
def copies_of_the_loop_not_waited_for() -> Kernel:
    return _with_wait(1, ())


@forged("matmul", "E-RACE", "race", M=16, N=16, K=12)
def first_copies_waited_for_too_late() -> Kernel:
    return _with_wait(0, ())


@forged("matmul", "E-RACE", "race", M=16, N=16, K=16)
def wait_that_leaves_a_group_too_many() -> Kernel:
    return _with_wait(1, (Wait(2),))


@forged("matmul", "E-ASYNC", "race", M=16, N=16, K=16)
def groups_never_closed() -> Kernel:
    return change(good("matmul", ASYNCHRONOUS), lambda s: () if isinstance(s, Commit) else None)


@forged("matmul", "E-RACE", "race", M=16, N=16, K=16)
def barrier_before_the_wait() -> Kernel:
    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, For) and s.var == "k.o":
            *most, wait, barrier = s.body.stmts
            assert (wait, barrier) == (Wait(1), Barrier())
            return replace(s, body=Block((*most, barrier, wait)))
        return None

    return change(good("matmul", ASYNCHRONOUS), one)


@forged("matmul", "E-RACE", "race", M=16, N=16, K=20)
def as_many_versions_as_iterations_ahead() -> Kernel:
    def two(e: Expr) -> Expr:
        whole = isinstance(e, Binary) and e.op is BinaryOp.MOD and e.rhs == index(3)
        return replace(e, rhs=index(2)) if isinstance(e, Binary) and whole else e

    k = good("matmul", ASYNCHRONOUS)
    return replace(k, body=map_block_exprs(k.body, lambda e: map_expr(e, two)))


@forged("saxpy", "E-RACE", "race")
def read_of_what_the_thread_itself_copies() -> Kernel:
    """Each thread reads what it copied, so that no barrier is needed; but it has to wait."""
    text = "split(i, 32)\nbind(i.o, grid.x)\nxs = stage(x, at=i.o, scope=shared)\n"
    k = scheduled("saxpy", text + "bind([xs.0, i.i], thread.x)\nmake_async(xs)")
    k = change(k, lambda s: () if isinstance(s, Wait) else None)
    return with_loop(k, "i.i", lambda s: (s, Wait(0)))


def _substituted(s: For, by: dict[str, Expr]) -> For:
    return replace(s, body=substitute_block(s.body, by))


# ---- windows, guards, bounds


@forged("stencil", "E-BOUNDS", "race")
def window_one_column_short() -> Kernel:
    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, Alloc) and s.buffer.name == "t":
            return Alloc(replace(s.buffer, extents=(index(10), index(9))))
        return None

    return change(good("stencil"), one)


@forged("stencil", "E-UNINIT", "uninitialised")
def copy_one_column_short() -> Kernel:
    """Exo #318 is of this kind: cells used that the copy did not fill."""
    return with_loop(good("stencil"), "t.1", lambda s: replace(s, extent=index(9)))


@forged("stencil", "E-BOUNDS", "out-of-bounds")
def copy_past_the_edge() -> Kernel:
    """The halo's guard dropped: what is read outside is never used, but it is read."""
    return with_loop(good("stencil"), "t.1", _without_guards)


def _without_guards(s: For) -> For:
    return replace(s, body=rewrite(s.body, lambda x: x.body.stmts if isinstance(x, If) else None))


@forged("saxpy", "E-BOUNDS", "out-of-bounds")
def tail_without_its_guard() -> Kernel:
    return with_loop(
        scheduled("saxpy", "split(i, 32)\nbind(i.o, grid.x)\nbind(i.i, thread.x)"), "i.i", _without_guards
    )


@forged("gelu", "E-BOUNDS", "out-of-bounds")
def guard_one_too_wide() -> Kernel:
    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, If):
            assert isinstance(s.cond, Binary)
            return replace(s, cond=replace(s.cond, rhs=add(s.cond.rhs, 1)))
        return None

    return change(scheduled("gelu", "split(idx, 32)\nbind(idx.o, grid.x)\nbind(idx.i, thread.x)"), one)


@forged("gelu", "E-COVERAGE", "wrong")
def guard_one_too_narrow() -> Kernel:
    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, If):
            assert isinstance(s.cond, Binary)
            return replace(s, cond=replace(s.cond, rhs=sub(s.cond.rhs, 1)))
        return None

    return change(scheduled("gelu", "split(idx, 32)\nbind(idx.o, grid.x)\nbind(idx.i, thread.x)"), one)


# ---- coverage


@forged("transpose", "E-COVERAGE", "wrong", rows=16, cols=16)
def last_column_of_blocks_missing() -> Kernel:
    return with_loop(good("transpose", 1), "j.o", lambda s: replace(s, extent=sub(s.extent, 1)))


@forged("saxpy", "E-RACE", "race")
def tiles_that_overlap() -> Kernel:
    """Halide #5430: two writers of one cell in parallel."""
    k = scheduled("saxpy", "specialize(n == 128)\nsplit(i, 32)\nbind(i.o, grid.x)\nbind(i.i, thread.x)")
    # i.o * 31 + i.i: tiles of 32 that begin 31 apart.
    return with_loop(
        k,
        "i.i",
        lambda s: replace(s, body=substitute_block(s.body, {"i.i": sub(var("i.i"), var("i.o"))})),
    )


@forged("saxpy", "E-DUPLICATE", "wrong")
def update_made_twice() -> Kernel:
    k = scheduled("saxpy", "split(i, 32)\nbind(i.o, grid.x)\nbind(i.i, thread.x)")
    return change(k, lambda s: (s, s) if isinstance(s, Store) else None)


@forged("vecadd", "E-FLOW", not_shown="the sums are right: it only claims to perform other instances", n=128)
def origin_reversed() -> Kernel:
    k = scheduled("vecadd", "specialize(n == 128)\nsplit(i, 32)\nbind(i.o, grid.x)\nbind(i.i, thread.x)")

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, Store):
            assert s.origin is not None
            return replace(s, origin=Origin("S0", (sub(index(127), s.origin.instance[0]),)))
        return None

    return change(k, one)


# ---- expressions and value flow


@forged("vecadd", "E-EXPR", "wrong", n=148)
def product_for_a_sum() -> Kernel:
    def one(e: Expr) -> Expr:
        return replace(e, op=BinaryOp.MUL) if isinstance(e, Binary) and e.dtype is F32 else e

    return with_values(good("vecadd"), "c", one)


@forged("stencil", "E-EXPR", "wrong")
def another_weight() -> Kernel:
    return with_values(
        good("stencil"), "y", lambda e: Const(0.25, F32) if isinstance(e, Const) and e.dtype is F32 else e
    )


@forged("transpose", "E-UNINIT", "wrong")
def tile_read_untransposed() -> Kernel:
    def one(e: Expr) -> Expr:
        return replace(e, indices=e.indices[::-1]) if isinstance(e, Load) and e.buffer == "t" else e

    return with_values(good("transpose"), "y", one)


@forged("matmul", "E-FLOW", "wrong", M=16, N=16, K=12)
def copy_of_the_next_tile() -> Kernel:
    """The tile of step k + 1, or the first one again at the end: a pipeline off by one."""

    def one(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == "A":
            column = e.indices[1]
            return replace(e, indices=(e.indices[0], mod(add(column, 4), 12)))
        return e

    k = scheduled("matmul", TEMPLATES["matmul"][1].replace("K % 4 == 0", "K == 12"))
    return with_values(k, "a", one)


@forged("softmax", "E-REDUCTION", "wrong", cols=128)
def maximum_of_one_thread() -> Kernel:
    """A partial read by a statement that is no combine."""

    def one(e: Expr) -> Expr:
        return Load("m_part", (var("c_3.o"),), F32) if isinstance(e, Load) and e.buffer == "m" else e

    return with_values(good("softmax"), "y", one)


# ---- reductions


def _start(k: Kernel, buffer: str, value: float) -> Kernel:
    def one(s: Stmt) -> Stmt | None:
        return replace(s, value=Const(value, F32)) if isinstance(s, Store) and s.buffer == buffer else None

    return change(k, one)


@forged("softmax", "E-REDUCTION", "wrong", cols=128)
def maximum_starts_at_the_identity_of_min() -> Kernel:
    return _start(good("softmax"), "m_part", float("inf"))


@forged("softmax", "E-REDUCTION", "wrong", cols=128)
def sum_starts_at_the_identity_of_prod() -> Kernel:
    return _start(good("softmax"), "s_part", 1.0)


@forged("row_sum", "E-REDUCTION", "wrong", cols=64)
def element_added_twice() -> Kernel:
    return change(
        good("row_sum"), lambda s: (s, s) if isinstance(s, Reduce) and s.buffer == "total_part" else None
    )


@forged("row_sum", "E-REDUCTION", "wrong", cols=64)
def partials_combined_twice() -> Kernel:
    def again(s: For) -> tuple[Stmt, ...]:
        body = substitute_block(s.body, {s.var: var("again")})
        return s, replace(s, var="again", body=body)

    return with_loop(good("row_sum"), "c.all", again)


@forged("row_sum", "E-REDUCTION", "wrong", cols=64)
def partials_never_combined() -> Kernel:
    return with_loop(good("row_sum"), "c.all", lambda s: ())


@forged("row_sum", "E-REDUCTION", "wrong", cols=64)
def partials_combined_by_maximum() -> Kernel:
    def one(s: Stmt) -> Stmt | None:
        return replace(s, monoid=MAX) if isinstance(s, Reduce) and s.buffer == "total" else None

    return change(good("row_sum"), one)


@forged("column_sum", "E-EXPR", "wrong", rows=32)
def minimum_for_a_sum() -> Kernel:
    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, Reduce):
            return replace(s, monoid=MIN)
        if isinstance(s, Store) and s.buffer == "acc_part":
            return replace(s, value=Const(float("inf"), F32))
        return None

    return change(good("column_sum"), one)


@forged("row_sum", "E-REDUCTION", "wrong", cols=64, rows=8)
def partials_of_the_row_before() -> Kernel:
    """The partials start once, not for each row: what they held is added again."""
    k = scheduled(
        "row_sum", "specialize(cols == 64 and rows % 2 == 0)\nsplit(r, 2)\nbind(r.o, grid.x)\nblock_reduce(c)"
    )
    row = loop(k, "r.i")
    first = [
        s
        for s in row.body.stmts
        if (isinstance(s, Alloc) and s.buffer.name == "total_part")
        or (isinstance(s, For) and s.var == "c.init")
    ]
    assert len(first) == 2
    rest = Block(tuple(s for s in row.body.stmts if not any(s is f for f in first)))
    return with_loop(k, "r.i", lambda s: (*first, replace(s, body=rest)))


@forged("row_sum", "E-COMBINE", "wrong", cols=64)
def half_of_the_partials() -> Kernel:
    return with_loop(good("row_sum"), "c.all", lambda s: replace(s, extent=index(32)))


@forged("layernorm", "E-REDUCTION", "wrong", cols=128)
def mean_before_the_sum() -> Kernel:
    """The mean taken from the sum before its partials are combined (loopy #533)."""
    k = good("layernorm")
    mean = the(k, leaves_of("mean"))
    declared = the(k, lambda s: isinstance(s, Alloc) and s.buffer.name == "mean")
    k = change(k, lambda s: () if s is mean or s is declared else None)
    return with_loop(k, "c.o.all", lambda s: (declared, mean, s))


@forged("running_sum", "E-RACE", "race", cols=17)
def sums_over_threads() -> Kernel:
    """All threads add into one cell of the output."""
    k = scheduled("running_sum", "specialize(cols == 17)\nbind(r, grid.x)\nbind(c_2, thread.x)")

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and s.buffer == "z":
            return replace(s, indices=(s.indices[0], index(0)))
        return None

    return change(k, one)


# ---- more of what other compilers got wrong


@forged("running_sum", "E-FLOW", "wrong", cols=16)
def second_sweep_fused() -> Kernel:
    """The second sweep reads one element ahead of what the first has written."""
    k = scheduled("running_sum", "bind(r, grid.x)")
    second = loop(k, "c_2")
    guarded = If(
        Binary(BinaryOp.LT, var("c"), second.extent, DType.BOOL),
        substitute_block(second.body, {"c_2": var("c")}),
    )
    k = with_loop(k, "c_2", lambda s: ())
    return with_loop(k, "c", lambda s: replace(s, body=Block((*s.body.stmts, guarded))))


@forged("stencil", "E-BOUNDS", "race")
def idle_threads_write_the_tile() -> Kernel:
    """The copy made by more threads than the tile has columns."""
    return with_loop(good("stencil"), "t.1", lambda s: replace(s, extent=index(12)))


@forged("row_sum", "E-REDUCTION", "wrong", cols=40)
def reduction_inside_the_copy() -> Kernel:
    """A reduction fused under a loop that is not its own, and so repeated."""
    k = scheduled("row_sum", "specialize(cols == 40)\nbind(r, grid.x)\ns = stage(in, at=r, scope=shared)")
    total = loop(k, "c")
    again = replace(total, var="c.again", body=substitute_block(total.body, {"c": var("c.again")}))
    repeat = For("repeat", index(2), LoopKind.SERIAL, Block((again,)))
    return with_loop(k, "c", lambda s: repeat)


@forged("matmul", "E-FLOW", "wrong", M=16, N=16, K=12)
def tile_of_another_block() -> Kernel:
    """The copy of A takes its rows from the block column's index."""

    def one(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == "A":
            return replace(e, indices=(map_expr(e.indices[0], _renamed("i.o", "j.o")), e.indices[1]))
        return e

    k = scheduled(
        "matmul", TEMPLATES["matmul"][1].replace("K % 4 == 0", "K % 4 == 0 and M == 16 and N == 16")
    )
    return with_values(k, "a", one)


def _renamed(old: str, new: str) -> Callable[[Expr], Expr]:
    return lambda e: var(new) if e == var(old) else e
