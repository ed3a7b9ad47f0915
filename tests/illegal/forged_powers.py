"""Running sums whose exponentials are kept in a variable, with one thing wrong. Part of `forged`."""

from __future__ import annotations

from dataclasses import replace

from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Load, Select, index, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Block, Buffer, For, Reduce, Stmt, Store
from evolve.ir.types import SUM, LoopKind, Space
from evolve.ir.visit import map_block_exprs, map_expr, substitute_block
from tests.illegal.forging import F32, change, forged, good, loop, with_loop, with_values

SWEEP = "c.i.o"
"""The loop of the sweep in the first template of `scores`, a chunk of two columns an iteration. It holds
top_old, its start, s, two loops that compute it, that of the maximum, the factors of sum and mean, p, and
the loops that set p, add it to the sum, and add to the mean."""
PARTS = ("old", "keeps", "s", "zero", "dot", "top", "sum*", "mean*", "p", "power", "sum+", "mean+")


def kernel() -> Kernel:
    return good("scores")


def in_order(*parts: str) -> Kernel:
    """The sweep's statements in this order."""

    def one(s: For) -> For:
        named = dict(zip(PARTS, s.body.stmts, strict=True))
        return replace(s, body=Block(tuple(named[p] for p in parts)))

    return with_loop(kernel(), SWEEP, one)


def without(*parts: str) -> Kernel:
    return in_order(*(p for p in PARTS if p not in parts))


@forged("scores", "E-ONLINE", "wrong", rows=8, cols=24)
def mean_that_keeps_its_scale() -> Kernel:
    return without("mean*")


@forged("scores", "E-ONLINE", "wrong", rows=8, cols=24)
def sum_under_powers_that_keeps_its_scale() -> Kernel:
    return without("sum*")


@forged("scores", "E-ONLINE", "wrong", rows=8, cols=24)
def mean_rescaled_after_it_is_added_to() -> Kernel:
    return in_order(*(p for p in PARTS if p != "mean*"), "mean*")


@forged("scores", "E-ONLINE", "wrong", rows=8, cols=24)
def powers_of_the_maximum_before() -> Kernel:
    """Bounded by no maximum yet, and relative to another one than the sums."""
    order = ("old", "keeps", "s", "zero", "dot", "p", "power", "top", "sum*", "mean*", "sum+", "mean+")
    return in_order(*order)


@forged("scores", "E-ONLINE", "wrong", rows=8, cols=24)
def half_of_the_mean_rescaled() -> Kernel:
    return with_loop(kernel(), "e_2.scale", lambda s: replace(s, extent=index(2)))


@forged("scores", "E-ONLINE", not_shown="the inputs drawn have no infinities", rows=8, cols=24)
def mean_that_is_never_ended() -> Kernel:
    return with_loop(kernel(), "e_2.scale_2", lambda s: ())


def _other_score(e: Expr) -> Expr:
    """The score of the chunk's first column."""
    return replace(e, indices=(index(0),)) if isinstance(e, Load) and e.buffer == "s" else e


@forged("scores", "E-FLOW", "wrong", rows=8, cols=24)
def powers_of_another_columns_score() -> Kernel:
    return with_values(kernel(), "p", _other_score)


@forged("scores", "E-ONLINE", "wrong", rows=8, cols=24)
def mean_of_another_columns_powers() -> Kernel:
    def first(e: Expr) -> Expr:
        return replace(e, indices=(index(0),)) if isinstance(e, Load) and e.buffer == "p" else e

    return with_values(kernel(), "mean", first)


@forged("scores", "E-ONLINE", "wrong", rows=8, cols=24)
def power_added_to_a_sum_of_its_own() -> Kernel:
    """The sum is gathered in a buffer that is never rescaled, and its total is what the source divides by."""
    aside = Buffer("aside", F32, (index(8),), Space.REGISTER)
    start = Store("aside", (var("first"),), Const(-0.0, F32))
    begins = (Alloc(aside), For("first", index(8), LoopKind.THREAD_X, Block((start,))))

    at = (var("last"),)
    total = Reduce("sum", at, SUM, Load("aside", at, F32))
    ends = For("last", index(8), LoopKind.THREAD_X, Block((total,)))

    def into_aside(s: Stmt) -> Stmt | None:
        adds = isinstance(s, Reduce) and s.buffer == "sum" and s.origin is not None
        return replace(s, buffer="aside") if isinstance(s, Reduce) and adds else None

    k = with_loop(change(kernel(), into_aside), "c.o", lambda s: (*begins, s))
    return with_loop(k, "r.i.4", lambda s: (ends, s))


@forged("scores", "E-ONLINE", not_shown="the inputs drawn have no infinities", rows=8, cols=24)
def power_that_is_no_number_before_the_first_finite_score() -> Kernel:
    def unsafe(e: Expr) -> Expr:
        return e.orelse if isinstance(e, Select) else e

    def one(s: Stmt) -> Stmt | None:
        sets = isinstance(s, Store) and s.buffer == "p"
        return replace(s, value=map_expr(s.value, unsafe)) if isinstance(s, Store) and sets else None

    return change(kernel(), one)


@forged("scores", "E-EXPR", "wrong", rows=8, cols=24)
def power_squared() -> Kernel:
    """Multiplied by itself before it is added: its scale is no longer that of the sums."""
    at = (var("again"),)
    own = Load("p", at, F32)
    squared = Store("p", at, Binary(BinaryOp.MUL, own, own, F32))
    again = For("again", index(2), LoopKind.SERIAL, Block((squared,)))
    return with_loop(kernel(), "c_2.i.i.2", lambda s: (s, again))


TILES = 3
"""The template of `scores` in which lanes have parts of a row's sum, and rows of threads combine them."""


def _other_row(e: Expr) -> Expr:
    """The part of a row that another row of threads has."""
    if not isinstance(e, Load) or e.buffer != "sum_part":
        return e
    row, lane = e.indices
    return replace(e, indices=(sub(3, row), lane))


@forged("scores", "E-OWNER", "unrendered", rows=8, cols=24)
def parts_of_another_row_combined() -> Kernel:
    return with_loop(
        good("scores", TILES),
        "r.i.o.7",
        lambda s: replace(s, body=map_block_exprs(s.body, lambda e: map_expr(e, _other_row))),
    )


@forged("scores", "E-REDUCTION", "wrong", rows=8, cols=24)
def parts_that_are_combined_before_they_are_rescaled_once_more() -> Kernel:
    """The combination stands in the sweep: of each chunk it adds all chunks so far."""
    k = good("scores", TILES)
    total = loop(k, "r.i.o.7")
    again = substitute_block(Block((replace(total, var="again"),)), {total.var: var("again")})
    k = with_loop(k, "r.i.o.7", lambda s: ())
    return with_loop(k, "c.o", lambda s: replace(s, body=Block((*s.body.stmts, *again.stmts))))
