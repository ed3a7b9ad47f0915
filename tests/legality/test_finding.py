"""Entries shared out by where they are found: what is proved of them and what must not be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from evolve.compiler.compile import finish
from evolve.dsl.parser import parse
from evolve.ir.data import segment, with_known_ends
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Find, Load, add, index, mul, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Block, Boundary, For, If, Origin, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, DType, LoopKind
from evolve.ir.verify import MalformedKernelError, verify
from evolve.ir.visit import map_block_exprs, map_expr, rewrite, substitute, substitute_block
from evolve.legality.prove import prove
from evolve.legality.verdict import Verdict
from evolve.transforms.apply import apply_program
from tests.transforms.fixtures import segments

ALONE = "balance(k, by=start)\n"
TILED = ALONE + (
    "split(k, 4)\nsplit(k.o, 32)\npersistent(k.o.o, 8)\nbind(k.o.i, thread.x)\nvectorize(k.i, 4)\n"
    "split([row.init, row], 32)\nbind([row.init.o, row.o], grid.x)\nbind([row.init.i, row.i], thread.x)\n"
)
BY_WARP = ALONE + "split(k, 32)\npersistent(k.o, 8)\nbind(k.i, thread.x)\n"

Change = Callable[[Stmt], "Stmt | tuple[Stmt, ...] | None"]


def scheduled(program: str) -> Kernel:
    return finish(apply_program(segments(), parse(program)).kernel)


def verdict(program: str, change: Change | None = None, source: Kernel | None = None) -> Verdict:
    kernel = scheduled(program)
    if change is not None:
        changed = replace(kernel, body=rewrite(kernel.body, change))
        assert changed != kernel
        kernel = changed
    return prove(source or segments(), kernel)


@pytest.mark.parametrize("program", [ALONE, TILED, BY_WARP, "specialize(rows == 48)\n" + TILED])
def test_entries_are_proved_however_they_are_shared_out(program: str) -> None:
    found = verdict(program)
    assert found.proved, found.diagnostics


def test_that_the_first_is_the_first_and_the_last_the_last_is_in_the_certificate() -> None:
    premise = "none less than the one before, 0 the first and entries the last"
    assert any(premise in a for a in verdict(TILED).assumptions)


def test_the_last_element_is_the_number_of_entries() -> None:
    known = with_known_ends(scheduled(ALONE))
    extents = [s.extent for s in known.body.stmts if isinstance(s, For)]
    assert extents == [var("rows"), var("entries"), var("rows")]


def contribution(f: Callable[[Reduce], Stmt | tuple[Stmt, ...]]) -> Change:
    return lambda s: f(s) if isinstance(s, Reduce) else None


def searching(f: Callable[[Find], Expr]) -> Callable[[Expr], Expr]:
    return lambda e: map_expr(e, lambda x: f(x) if isinstance(x, Find) else x)


def where(f: Callable[[Find], Expr], *, claimed: bool) -> Change:
    """Contributions into another cell; `claimed`: the origin says so too."""

    def moved(s: Reduce) -> Stmt:
        assert s.origin is not None
        change = searching(f)
        origin = Origin(s.origin.stmt, tuple(change(x) for x in s.origin.instance))
        indices = tuple(change(i) for i in s.indices)
        return replace(s, indices=indices, origin=origin if claimed else s.origin)

    return contribution(moved)


def loop_named(name: str, f: Callable[[For], Stmt | tuple[Stmt, ...]]) -> Change:
    return lambda s: f(s) if isinstance(s, For) and s.var == name else None


def stored(s: Reduce) -> Store:
    total = Binary(BinaryOp.ADD, Load(s.buffer, s.indices, DType.F32), s.value, DType.F32)
    return Store(s.buffer, s.indices, total, s.origin)


def started_late(s: For) -> For:
    return replace(s, body=substitute_block(s.body, {s.var: add(var(s.var), 1)}))


def of_another_value(s: Reduce) -> Reduce:
    (value,) = (s.value,)
    assert isinstance(value, Load)
    return replace(s, value=replace(value, indices=(sub(value.indices[0], 1),)))


def to_a_fixed_row(s: Reduce) -> Reduce:
    return replace(s, indices=(index(0),))


def by_hand(s: Reduce) -> Reduce:
    """Where it goes computed as if all rows were as long: not what the source reads."""
    assert s.origin is not None
    row = Binary(BinaryOp.FLOORDIV, var("k"), index(4), DType.INDEX)
    entry = sub(var("k"), mul(row, 4))
    return replace(s, indices=(row,), origin=Origin(s.origin.stmt, (row, entry)))


def entry_of_another(s: Reduce) -> Reduce:
    assert s.origin is not None
    row, k = s.origin.instance
    return replace(s, origin=Origin(s.origin.stmt, (row, add(k, 1))))


WRONG: dict[str, tuple[str, Change]] = {
    "the row before": (ALONE, where(lambda f: add(f, -1), claimed=False)),
    "the row after, and the origin says so": (ALONE, where(lambda f: add(f, 1), claimed=True)),
    "the row of the next entry": (ALONE, where(lambda f: replace(f, value=add(f.value, 1)), claimed=False)),
    "the row of the next entry, and the origin says so": (
        ALONE, where(lambda f: replace(f, value=add(f.value, 1)), claimed=True),
    ),
    "all into one row": (ALONE, contribution(to_a_fixed_row)),
    "rows all of one length": (ALONE, contribution(by_hand)),
    "another entry of the row": (ALONE, contribution(entry_of_another)),
    "the number before": (ALONE, contribution(of_another_value)),
    "a tail that nobody takes": (
        TILED, loop_named("k.o.o.o", lambda s: replace(s, extent=sub(s.extent, 1))),
    ),
    "the last entry left out": (ALONE, loop_named("k", lambda s: replace(s, extent=sub(s.extent, 1)))),
    "the first entry left out": (
        ALONE, loop_named("k", lambda s: started_late(replace(s, extent=sub(s.extent, 1)))),
    ),
    "an entry too many": (ALONE, loop_named("k", lambda s: replace(s, extent=add(s.extent, 1)))),
    "entries from the second on, past the end": (ALONE, loop_named("k", started_late)),
    "no guard of the tail": (
        TILED, lambda s: s.body.stmts if isinstance(s, If) and "entries" not in str(s.cond) else None,
    ),
    "contributions twice": (ALONE, contribution(lambda s: (s, s))),
    "another monoid": (ALONE, contribution(lambda s: replace(s, monoid=MAX, atomic=False))),
    "updates that are not atomic": (TILED, contribution(lambda s: replace(s, atomic=False))),
    "updates by warps that are not atomic": (BY_WARP, contribution(lambda s: replace(s, atomic=False))),
    "a plain store at the boundary of a row": (TILED, contribution(stored)),
    "sums that nobody started": (
        ALONE, loop_named("row.init", lambda s: ()),
    ),
    "sums started in the same launch": (
        TILED, lambda s: () if isinstance(s, Boundary) else None,
    ),
    "only as often as the first row is long": (
        ALONE, loop_named("k", lambda s: replace(s, extent=map_expr(
            s.extent, lambda e: replace(e, indices=(index(1),)) if isinstance(e, Load) else e
        ))),
    ),
    "a grid of as many blocks as entries": (
        ALONE, loop_named("k", lambda s: replace(s, kind=LoopKind.GRID_X)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_not_proved(name: str) -> None:
    program, change = WRONG[name]
    assert not verdict(program, change).proved


def test_updates_that_are_not_atomic_are_races() -> None:
    found = verdict(TILED, contribution(lambda s: replace(s, atomic=False)))
    assert {d.code for d in found.diagnostics} == {"E-RACE"}


def test_what_no_segment_has_is_not_searched_for() -> None:
    found = verdict(ALONE, loop_named("k", lambda s: replace(s, extent=add(s.extent, 1))))
    assert [d.code for d in found.diagnostics] == ["E-BOUNDS"]
    assert "outside of what start covers" in found.diagnostics[0].message


def test_another_array_of_row_pointers_is_not_the_source_s() -> None:
    """Both are nondecreasing, and the loops run as long; only one says which rows there are."""

    def two(k: Kernel) -> Kernel:
        (start,) = (b for b in k.buffers if b.name == "start")
        (c,) = k.contents
        buffers = (*k.buffers, replace(start, name="other"))
        more = replace(c, buffer="other")
        return replace(k, params=(*k.params, "other"), buffers=buffers, contents=(c, more))

    def other(e: Expr) -> Expr:
        return map_expr(e, lambda x: replace(x, buffer="other") if isinstance(x, Find) else x)

    good = two(scheduled(ALONE))
    assert prove(two(segments()), good).proved
    bad = replace(good, body=map_block_exprs(good.body, other))
    assert not prove(two(segments()), bad).proved


def test_without_the_premise_nothing_is_found() -> None:
    kernel = scheduled(ALONE)
    bare = replace(kernel, contents=tuple(replace(c, nondecreasing=False) for c in kernel.contents))
    source = replace(segments(), contents=bare.contents)
    assert [d.code for d in prove(source, bare).diagnostics] == ["E-DATA-LOOP"]
    with pytest.raises(MalformedKernelError, match="not known to be nondecreasing"):
        verify(bare)


def test_the_two_elements_around_are_those_of_the_array() -> None:
    k = segments()
    f = Find("start", var("k"))
    low, high = segment(k, f)
    assert low == Cast(Load("start", (f,), DType.I32), DType.INDEX)
    assert high == Cast(Load("start", (add(f, 1),), DType.I32), DType.INDEX)
    assert substitute(low, {"k": index(3)}) == segment(k, Find("start", index(3)))[0]


def test_a_sum_of_constants_is_one_of_entries() -> None:
    """Contributions that read nothing still belong to rows: their number is what counts."""
    one = Const(1.0, DType.F32)

    def counting(s: Stmt) -> Stmt | None:
        return replace(s, value=one) if isinstance(s, Reduce) and s.monoid == SUM else None

    source = segments()
    counted = replace(source, body=rewrite(source.body, counting))
    assert verdict(ALONE, counting, counted).proved
    once = loop_named("k", lambda s: replace(s, extent=sub(s.extent, 1), body=rewrite(s.body, counting)))
    assert not verdict(ALONE, once, counted).proved
    assert isinstance(counted.body, Block)
