"""Running sums of exponentials with one thing wrong: scale, order or start. Part of `forged`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evolve.ir.expr import Binary, BinaryOp, Call, Const, Expr, Load, Select, index, var
from evolve.ir.kernel import Kernel
from evolve.ir.scaled import safe
from evolve.ir.stmt import Alloc, Block, Buffer, For, Reduce, Stmt, Store
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import map_block_exprs, map_expr, rewrite, substitute_block
from tests.illegal.forging import F32, change, forged, loop, scheduled, with_loop

ONLINE = """
specialize(cols == 128)
bind(row, grid.x)
split([c, c_2], 2)
split([c.o, c_2.o], 32)
block_reduce([c.o.i, c_2.o.i])
online([c.o.o, c.o.i], [c_2.o.o, c_2.o.i])
split(c_3, 32)
bind(c_3.i, thread.x)
"""
TOP, TOTAL, ENDS = "c.o.i.all", "c_2.o.i.all", "c.o.i.scale"
"""Where the maxima and the sums of the threads are combined, and where the sums are brought to one scale."""


def good() -> Kernel:
    return scheduled("softmax", ONLINE)


def _is_step(s: Stmt) -> bool:
    """Whether it multiplies a running sum on its way."""
    return (
        isinstance(s, Store) and s.buffer == "s_part" and any(isinstance(x, Select) for x in _parts(s.value))
    )


def _parts(e: Expr) -> list[Expr]:
    out: list[Expr] = []
    map_expr(e, lambda x: (out.append(x), x)[1])
    return out


def _with_body(order: tuple[int, ...]) -> Kernel:
    """The statements of the sweep in another order: 0 declares the old scale, 1 keeps it, 2 finds the new
    one, 3 rescales, 4 adds."""
    return with_loop(good(), "c.o.i", lambda s: replace(s, body=Block(tuple(s.body.stmts[i] for i in order))))


def _unsafe(e: Expr) -> Expr:
    return e.orelse if isinstance(e, Select) else e


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def sum_that_keeps_its_scale() -> Kernel:
    return _with_body((0, 1, 2, 4))


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def sum_rescaled_twice() -> Kernel:
    return _with_body((0, 1, 2, 3, 3, 4))


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def sum_added_to_before_it_is_rescaled() -> Kernel:
    return _with_body((0, 1, 2, 4, 3))


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def elements_above_the_maximum_that_they_are_relative_to() -> Kernel:
    """Scales follow one another as they should, but the first elements are taken relative to -inf."""
    return _with_body((0, 1, 4, 2, 3))


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def scale_kept_too_late() -> Kernel:
    return _with_body((0, 2, 1, 3, 4))


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def sum_that_is_rescaled_the_other_way() -> Kernel:
    def turned(e: Expr) -> Expr:
        if isinstance(e, Call):
            (arg,) = e.args
            assert isinstance(arg, Binary) and isinstance(arg.rhs, Select)
            flipped = replace(arg.rhs, cond=_put(arg.rhs.cond, arg.lhs), orelse=arg.lhs)
            return replace(e, args=(replace(arg, lhs=arg.rhs.orelse, rhs=flipped),))
        return e

    return change(good(), lambda s: replace(s, value=map_expr(s.value, turned)) if _is_step(s) else None)  # type: ignore[union-attr, arg-type, call-arg]


def _put(cond: Expr, e: Expr) -> Expr:
    assert isinstance(cond, Binary)
    return replace(cond, lhs=e)


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def sums_combined_at_scales_of_their_own() -> Kernel:
    return with_loop(good(), ENDS, lambda s: ())


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def sums_brought_to_a_maximum_that_is_not_known_yet() -> Kernel:
    k = good()
    ends = loop(k, ENDS)
    return with_loop(with_loop(k, ENDS, lambda s: ()), TOP, lambda s: (ends, s))


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def sums_brought_to_one_scale_after_they_are_combined() -> Kernel:
    k = good()
    ends = loop(k, ENDS)
    return with_loop(with_loop(k, ENDS, lambda s: ()), TOTAL, lambda s: (s, ends))


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def sums_brought_to_one_scale_twice() -> Kernel:
    def again(s: For) -> tuple[Stmt, ...]:
        return s, replace(s, var="again", body=substitute_block(s.body, {s.var: var("again")}))

    return with_loop(good(), ENDS, again)


@forged("softmax", "E-ONLINE", not_shown="the first factor is exp(-inf - m) = 0", cols=128)
def running_sum_that_starts_at_one() -> Kernel:
    def one(s: Stmt) -> Stmt | None:
        starts = isinstance(s, Store) and s.buffer == "s_part" and isinstance(s.value, Const)
        return replace(s, value=Const(1.0, F32)) if isinstance(s, Store) and starts else None

    return change(good(), one)


@forged("softmax", "E-ONLINE", not_shown="the inputs drawn have no infinities", cols=128)
def factor_that_is_no_number_before_the_first_finite_element() -> Kernel:
    def plain(s: Stmt) -> Stmt | None:
        return replace(s, value=map_expr(s.value, _unsafe)) if _is_step(s) else None  # type: ignore[union-attr, arg-type, call-arg]

    return change(good(), plain)


@forged("softmax", "E-ONLINE", not_shown="the inputs drawn have no infinities", cols=128)
def term_that_is_no_number_before_the_first_finite_element() -> Kernel:
    def plain(s: Stmt) -> Stmt | None:
        adds = isinstance(s, Reduce) and s.buffer == "s_part"
        return replace(s, value=map_expr(s.value, _unsafe)) if isinstance(s, Reduce) and adds else None

    return change(good(), plain)


@forged("softmax", "E-ONLINE", not_shown="the inputs drawn have no infinities", cols=128)
def sum_of_nothing_but_infinities_that_is_a_number() -> Kernel:
    """The last factor with `safe`: a row of -inf sums to 0 where the source has NaN."""

    def guarded(e: Expr) -> Expr:
        if isinstance(e, Binary) and e.op is BinaryOp.SUB and isinstance(e.rhs, Load):
            return replace(e, rhs=safe(e.rhs))
        return e

    def one(s: For) -> For:
        (leaf,) = s.body.stmts
        assert isinstance(leaf, Store)
        return replace(s, body=Block((replace(leaf, value=map_expr(leaf.value, guarded)),)))

    return with_loop(good(), ENDS, one)


def _of_lag(e: Expr) -> Expr:
    return replace(e, buffer="lag") if isinstance(e, Load) and e.buffer == "m_part" else e


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def sum_relative_to_the_maximum_of_the_chunk_before() -> Kernel:
    """Each step finds the scale it assumes, but the first chunk is added at a scale of -inf, and lost."""
    k = good()
    lag = Buffer("lag", F32, (index(32),), Space.REGISTER)
    start = Store("lag", (var("lag.init"),), Const(float("-inf"), F32))
    first = (Alloc(lag), For("lag.init", index(32), LoopKind.THREAD_X, Block((start,))))

    def late(s: For) -> For:
        declared, keeps, finds, rescales, adds = s.body.stmts
        assert isinstance(keeps, Store)
        cell = keeps.value
        assert isinstance(cell, Load)
        behind = map_block_exprs(Block((keeps, rescales, adds)), lambda e: map_expr(e, _of_lag)).stmts
        moved = Store("lag", cell.indices, cell)
        return replace(s, body=Block((declared, behind[0], moved, *behind[1:], finds)))

    k = with_loop(with_loop(k, "c.o.i", late), "c.o.o", lambda s: (*first, s))
    return with_loop(
        k, ENDS, lambda s: replace(s, body=map_block_exprs(s.body, lambda e: map_expr(e, _of_lag)))
    )


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def running_sum_copied_before_it_ends() -> Kernel:
    """The combination reads a copy that was made before the last factor."""
    k = good()
    copy = Buffer("early", F32, (index(32),), Space.REGISTER)
    t = (var("early.at"),)
    made = Block((Store("early", t, Load("s_part", t, F32)),))
    k = with_loop(k, ENDS, lambda s: (Alloc(copy), For("early.at", index(32), LoopKind.THREAD_X, made), s))

    def of_copy(e: Expr) -> Expr:
        return replace(e, buffer="early") if isinstance(e, Load) and e.buffer == "s_part" else e

    return with_loop(
        k, TOTAL, lambda s: replace(s, body=map_block_exprs(s.body, lambda e: map_expr(e, of_copy)))
    )


def _starting(buffer: str, value: float) -> tuple[Stmt, ...]:
    """A register of each thread that starts at a number."""
    at = f"{buffer}.init"
    start = Store(buffer, (var(at),), Const(value, F32))
    declared = Alloc(Buffer(buffer, F32, (index(32),), Space.REGISTER))
    return declared, For(at, index(32), LoopKind.THREAD_X, Block((start,)))


def _of(buffer: str, other: str) -> Callable[[Expr], Expr]:
    """Loads of the one from the other, by thread."""

    def f(e: Expr) -> Expr:
        swap = isinstance(e, Load) and e.buffer == buffer
        return Load(other, (var("c.o.i"),), F32) if swap else e

    return f


def _also_into(buffer: str, finds: Stmt) -> Block:
    """The loop that finds a maximum, for another variable."""
    assert isinstance(finds, For)
    again = substitute_block(Block((replace(finds, var="again"),)), {finds.var: var("again")})
    return rewrite(again, lambda x: replace(x, buffer=buffer) if isinstance(x, Reduce) else None)


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def sum_relative_to_a_maximum_that_starts_too_high() -> Kernel:
    """Every step finds the scale it assumes and the last has the right elements, but all terms underflow."""
    high = "high"

    def with_own_maximum(s: For) -> For:
        declared, keeps, finds, *uses = s.body.stmts
        own = _also_into(high, finds)
        scaled = map_block_exprs(Block((keeps, *uses)), lambda e: map_expr(e, _of("m_part", high))).stmts
        return replace(s, body=Block((declared, scaled[0], finds, *own.stmts, *scaled[1:])))

    def ends(e: Expr) -> Expr:
        return replace(e, buffer=high) if isinstance(e, Load) and e.buffer == "m_part" else e

    k = with_loop(good(), "c.o.i", with_own_maximum)
    k = with_loop(k, "c.o.o", lambda s: (*_starting(high, 1e30), s))
    return with_loop(k, ENDS, lambda s: replace(s, body=map_block_exprs(s.body, lambda e: map_expr(e, ends))))


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def sum_rescaled_by_a_maximum_that_starts_too_high() -> Kernel:
    """Of the same elements as the one that terms are relative to, but it never grows: all factors are 1."""
    high = "high"

    def with_another_maximum(s: For) -> For:
        declared, keeps, finds, rescales, adds = s.body.stmts
        own = _also_into(high, finds)
        scaled = map_block_exprs(Block((keeps, rescales)), lambda e: map_expr(e, _of("m_part", high))).stmts
        return replace(s, body=Block((declared, scaled[0], finds, *own.stmts, scaled[1], adds)))

    k = with_loop(good(), "c.o.i", with_another_maximum)
    return with_loop(k, "c.o.o", lambda s: (*_starting(high, 1e30), s))


@forged("softmax", "E-ONLINE", "wrong", cols=128)
def first_scale_that_is_too_high() -> Kernel:
    """The sum is zero, and its first factor infinite: not zero, but no number."""

    def kept_across_chunks(s: For) -> For:
        _, keeps, finds, rescales, adds = s.body.stmts
        assert isinstance(keeps, Store)
        scaled = map_block_exprs(Block((rescales,)), lambda e: map_expr(e, _of("m_part_old", "kept"))).stmts
        return replace(
            s, body=Block((finds, *scaled, adds, replace(keeps, buffer="kept", indices=(var("c.o.i"),))))
        )

    return with_loop(
        with_loop(good(), "c.o.i", kept_across_chunks), "c.o.o", lambda s: (*_starting("kept", 1e30), s)
    )
