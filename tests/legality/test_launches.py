"""Several launches with scratch memory: what is right is proved, and what leans on the wrong order is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from evolve.compiler.compile import compile_program, finish
from evolve.dsl.parser import parse
from evolve.ir.expr import Const, Load, add, index, sub
from evolve.ir.kernel import Kernel
from evolve.ir.launches import joined, launches, scratch
from evolve.ir.stmt import Alloc, Barrier, Block, Boundary, For, Reduce, Stmt, Store
from evolve.ir.types import Cache, DType, LoopKind, Space
from evolve.ir.verify import MalformedKernelError, verify
from evolve.ir.visit import leaves, rewrite, walk
from evolve.legality.barriers import place
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits
from tests.illegal.lifted import source
from tests.kernels_ir import buf, ld
from tests.legality.brute import same
from tests.legality.edits import at_loop, at_reduce, at_store, codes, edit, extent
from tests.legality.judge import Launch, why_wrong
from tests.legality.small import cases
from tests.transforms.fixtures import KERNELS, applied

CASES = cases()
TOTAL = CASES["total"]
SIZES = ({"n": 5}, {"n": 16}, {"n": 30})


def one_cell(k: Kernel) -> Kernel:
    """All blocks reduce into the first partial."""

    def first(s: Stmt) -> Stmt | None:
        if isinstance(s, Store | Reduce) and s.buffer == "sum_part":
            return replace(s, indices=(index(0),))
        return None

    return edit(k, first)


def exchanged(k: Kernel) -> Kernel:
    """The second launch first."""
    return joined(k, tuple(reversed(launches(k))))


def without_boundary(k: Kernel) -> Kernel:
    """Both in one launch: its blocks do not wait for each other."""
    return edit(k, lambda s: () if isinstance(s, Boundary) else None)


def combined_in_the_first(k: Kernel) -> Kernel:
    """The first block of the first launch reads what the others leave."""
    gather, combine = launches(k)
    (grid,) = gather.body.stmts
    assert isinstance(grid, For)
    tail = rewrite(combine.body, lambda s: replace(s, kind=LoopKind.SERIAL) if isinstance(s, For) else None)
    inside = replace(grid, body=Block((*grid.body.stmts, *tail.stmts)))
    return replace(k, body=Block((*(Alloc(b) for b in scratch(k)), inside)))


def not_started(k: Kernel) -> Kernel:
    return edit(k, at_store("sum_part", lambda s: () if isinstance(s.value, Const) else s))


def started_at_zero(k: Kernel) -> Kernel:
    return edit(k, at_store("sum_part", lambda s: replace(s, value=Const(0.0, DType.F32))))


def one_short(k: Kernel) -> Kernel:
    """Scratch memory for one partial fewer than there are blocks."""

    def shorter(s: Stmt) -> Stmt | None:
        if isinstance(s, Alloc) and s.buffer.name == "sum_part":
            return Alloc(replace(s.buffer, extents=(sub(s.buffer.extents[0], index(1)),)))
        return None

    return edit(k, shorter)


def last_left_out(k: Kernel) -> Kernel:
    def fewer(s: For) -> Stmt:
        return replace(s, extent=sub(s.extent, index(1)))

    return edit(k, at_loop("k.o.all.o", fewer))


def neighbour_read(k: Kernel) -> Kernel:
    """Each partial but the first is combined twice, the last one's place is read beyond the end."""

    def shifted(s: Reduce) -> Stmt:
        if not isinstance(s.value, Load) or s.value.buffer != "sum_part":
            return s
        return replace(s, value=replace(s.value, indices=(add(s.value.indices[0], index(1)),)))

    return edit(k, lambda s: shifted(s) if isinstance(s, Reduce) else None)


def two_blocks_combine(k: Kernel) -> Kernel:
    """The second launch with two blocks, each of which adds and stores everything."""
    gather, combine = launches(k)
    twice = For("again", index(2), LoopKind.GRID_X, combine.body)
    return joined(k, (gather, replace(combine, body=Block((twice,)))))


def more_threads(k: Kernel) -> Kernel:
    """Eight threads gather what four threads have."""
    return edit(k, at_loop("k.i.i", extent(index(8))))


def lanes_of_the_other_launch(k: Kernel) -> Kernel:
    """The second launch combines four lanes as the first does; its blocks have two."""
    return edit(k, at_loop("k.o.all.i.all", extent(index(4))))


WRONG: dict[str, tuple[Callable[[Kernel], Kernel], str]] = {
    "one_cell": (one_cell, "E-RACE"),
    "exchanged": (exchanged, "E-UNINIT"),
    "without_boundary": (without_boundary, "E-GRID"),
    "combined_in_the_first": (combined_in_the_first, "E-RACE"),
    "not_started": (not_started, "E-REDUCTION"),
    "started_at_zero": (started_at_zero, "E-REDUCTION"),
    "one_short": (one_short, "E-BOUNDS"),
    "last_left_out": (last_left_out, "E-REDUCTION"),
    "neighbour_read": (neighbour_read, "E-BOUNDS"),
    "two_blocks_combine": (two_blocks_combine, "E-RACE"),
    "more_threads": (more_threads, "E-BOUNDS"),
    "lanes_of_the_other_launch": (lanes_of_the_other_launch, "E-COMBINE"),
}

JUDGED = {
    "one_cell": "race",
    "exchanged": "undefined",
    "combined_in_the_first": "undefined",
    "not_started": "undefined",
    "one_short": "bounds",
    "last_left_out": "value",
    "two_blocks_combine": "race",
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_the_wrong_twin_is_refused(name: str) -> None:
    change, code = WRONG[name]
    wrong = change(TOTAL.target)
    assert code in codes(prove(TOTAL.source, wrong))
    if name not in ("without_boundary", "started_at_zero"):  # -0.0 starts it only for its sign's sake
        assert not all(same(TOTAL.source, wrong, s) for s in SIZES)


@pytest.mark.parametrize(
    ("kernel", "program"),
    [
        ("total", "split(k, 64)\ngrid_reduce(k.o)"),
        ("total", "split(k, 64)\ngrid_reduce(k.o)\nbind(k.o, grid.x)\nblock_reduce(k.i)"),
        # Two launches before the last: partials of partials.
        ("total", "split(k, 8)\nsplit(k.o, 4)\ngrid_reduce(k.o.o)\nbind(k.o.o, grid.x)\n"
                  "split(k.o.o.all, 2)\ngrid_reduce(k.o.o.all.o)\nbind(k.o.o.all.o, grid.x)"),
        ("column_total", "split(r, 4)\ngrid_reduce(r.o)\nbind(c.part, grid.x)\nbind(r.o, grid.y)"),
        ("column_sum", "split(c, 4)\nsplit(r, 4)\ngrid_reduce(r.o)\nbind(c.o.part, grid.x)\n"
                       "bind(c.i.part, thread.x)"),
        ("moments", "split(c, 4)\nsplit(c_2, 4)\njam(c.o, c_2.o)\ngrid_reduce(c.o)\nbind(row, grid.x)"),
        ("softmax", "split(c, 4)\ngrid_reduce(c.o)\nbind(row.part, grid.x)\nbind(row, grid.x)"),
    ],
)  # fmt: skip
def test_grid_reductions_are_proved_and_right(kernel: str, program: str) -> None:
    source = KERNELS[kernel]()
    target = finish(applied(kernel, program).kernel)
    verdict = prove(source, target)
    assert verdict.proved, verdict
    for a, b in ((1, 1), (3, 9), (7, 30)):
        names = [s.name for s in source.scalars]
        assert same(source, target, dict(zip(names, (b,) if len(names) == 1 else (a, b), strict=True)))


def test_each_launch_has_barriers_of_its_own() -> None:
    """Partials in shared memory need one in the launch that has them."""
    program = (
        "split(k, 64)\nsplit(k.i, 8)\ngrid_reduce(k.o)\nbind(k.o, grid.x)\n"
        "split_reduction(k.i.i, scope=shared)\nbind([k.i.i, k.i.i.init], thread.x)"
    )
    done = applied("total", program).kernel
    placed = finish(done)
    first, second = launches(placed)
    assert [sum(isinstance(s.stmt, Barrier) for s in walk(p.body)) for p in (first, second)] == [1, 0]
    assert prove(KERNELS["total"](), placed).proved
    assert place(placed) == placed


def test_a_launch_takes_the_arrays_that_it_uses() -> None:
    first, second = launches(TOTAL.target)
    assert first.params == ("x", "n", "sum_part")
    assert second.params == ("out", "n", "sum_part")
    for part in (first, second):
        verify(part)
        assert launches(part) == (part,)
    assert joined(TOTAL.target, (first, second)) == TOTAL.target
    assert {leaf.buffer for leaf, _ in leaves(first.body)} == {"sum_part", "sum_part_part"}


def test_what_does_nothing_is_not_launched() -> None:
    k = TOTAL.target
    more = replace(k, body=Block((*k.body.stmts, Boundary())))
    assert launches(more) == launches(k)
    assert prove(TOTAL.source, more).proved


def test_registers_do_not_outlive_a_launch() -> None:
    kept = Alloc(buf("kept", space=Space.REGISTER))
    later = Store("out", (index(0),), ld("kept"))
    k = TOTAL.target
    with pytest.raises(MalformedKernelError, match="kept is not in scope"):
        verify(replace(k, body=Block((kept, *k.body.stmts, later))))
    with pytest.raises(MalformedKernelError, match="launch ends inside"):
        edit(k, at_loop("k.o", lambda s: replace(s, body=Block((*s.body.stmts, Boundary())))))
    long = buf("long", Load("n", (), DType.INDEX))
    with pytest.raises(MalformedKernelError):
        verify(replace(k, body=Block((Alloc(long), *k.body.stmts))))


def test_scratch_is_nobodys_afterwards() -> None:
    """A store into it that nobody reads changes no result; one in between does."""
    mark = Store("sum_part", (index(0),), Const(1.0, DType.F32))
    k = TOTAL.target
    first, second = launches(k)
    after = joined(k, (first, second, replace(first, body=Block((mark,)))))
    between = joined(k, (first, replace(first, body=Block((mark,))), second))
    assert prove(TOTAL.source, after).proved
    assert "E-REDUCTION" in codes(prove(TOTAL.source, between))
    assert same(TOTAL.source, after, {"n": 13}) and not same(TOTAL.source, between, {"n": 13})


def test_a_statement_is_performed_once() -> None:
    again = edit(TOTAL.target, at_reduce("sum_part_part", lambda s: (s, s)))
    assert not prove(TOTAL.source, again).proved
    assert not same(TOTAL.source, again, {"n": 13})


@pytest.mark.parametrize("order", ["forward", "reversed", "interleaved"])
def test_the_judge_of_statements_agrees(order: str) -> None:
    launch = Launch({"n": 30})
    assert why_wrong(TOTAL.source, TOTAL.target, launch, (order,)) is None
    told = {name: why_wrong(TOTAL.source, WRONG[name][0](TOTAL.target), launch, (order,)) for name in JUDGED}
    assert told == JUDGED


def test_scratch_memory_that_a_launch_writes_is_not_read_only_in_it() -> None:
    source, k = KERNELS["total"](), applied("total", "split(k, 64)\ngrid_reduce(k.o)").kernel
    parts = {b.name for b in scratch(k)}

    def hinted(s: Stmt) -> Stmt | None:
        mine = isinstance(s, Alloc) and s.buffer.name in parts
        return replace(s, buffer=replace(s.buffer, cache=Cache.READ_ONLY)) if mine else None  # type: ignore[union-attr, call-arg]

    assert prove(source, finish(k)).proved
    assert codes(prove(source, finish(edit(k, hinted)))) == {"E-CACHE"}


LANES = """balance(k, by=rowptr)
split(k, 32)
split(k.o, 8)
persistent(k.o.o, 64)
bind(k.o.i, warp)
bind(k.i, lane)
split([row.init, row], 256)
bind([row.init.o, row.o], grid.x)
bind([row.init.i, row.i], thread.%s)
"""


@pytest.mark.parametrize(("axis", "code"), [("x", None), ("y", "E-LANES")])
def test_lanes_are_those_of_one_launch(axis: str, code: str | None) -> None:
    """Along x alone there is nothing that a launch's threads could be but threads."""
    program = parse(LANES % axis)
    done = compile_program(source("spmv"), program, Limits(), blame=True)
    assert {d.code for d in done.verdict.diagnostics} == ({code} if code else set())


def test_registers_are_those_of_the_device() -> None:
    program = parse("split(i, 1024)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\nmax_registers(64)")
    for registers, proved in ((65536, True), (65535, False)):
        done = compile_program(source("vecadd"), program, Limits(registers=registers))
        assert done.verdict.proved == proved
