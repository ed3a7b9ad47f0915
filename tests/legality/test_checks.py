"""Each check matters: a named wrong program that only it refuses, and that passes when it is off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from evolve.dsl.parser import parse
from evolve.ir.expr import Binary, BinaryOp, Load, add, compare, floordiv, index, var
from evolve.ir.kernel import Kernel, Scalar
from evolve.ir.printer import print_expr
from evolve.ir.stmt import Alloc, Barrier, Block, If, Stmt, Store
from evolve.ir.swizzle import Swizzle
from evolve.ir.types import DType, LoopKind, Space
from evolve.ir.visit import map_expr
from evolve.legality.prove import CHECKS, prove
from evolve.legality.verdict import Status
from evolve.transforms.apply import apply_program
from tests import kernels_ir as lifted
from tests.codegen import scheduled_ir as scheduled
from tests.codegen.scheduled_ir import at
from tests.kernels_ir import F32, buf, checked, ld, loop, op, origin
from tests.legality.brute import same
from tests.legality.edits import at_barrier, at_loop, at_store, codes, edit, extent


@dataclass(frozen=True)
class Wrong:
    check: str
    code: str
    source: Kernel
    target: Kernel


def too_many_threads() -> Wrong:
    return Wrong("limits", "E-THREADS", lifted.vecadd(), scheduled.vecadd(2048))


def barrier_some_threads_miss() -> Wrong:
    some = If(compare(BinaryOp.LT, var("b.tx"), 16), Block((Barrier(),)))
    around = scheduled.loop("b.tx", 32, LoopKind.THREAD_X, some)
    return Wrong(
        "uniform",
        "E-BARRIER",
        lifted.transpose(),
        edit(scheduled.transpose_tiled(), at_barrier(lambda: around)),
    )


def columns_beyond_the_row() -> Wrong:
    """A swizzle of four times sixteen columns, of which a row of the tile has fewer."""

    def swizzled(s: Stmt) -> Stmt | None:
        shared = isinstance(s, Alloc) and s.buffer.space is Space.SHARED
        return Alloc(replace(s.buffer, swizzle=Swizzle(16, 4))) if isinstance(s, Alloc) and shared else None

    return Wrong("layout", "E-LAYOUT", lifted.transpose(), edit(scheduled.transpose_tiled(), swizzled))


def copy_beyond_the_edge() -> Wrong:
    """The staging copy loses its guard: what it reads outside is never used."""

    def unguard(s: object) -> object:
        if isinstance(s, If) and isinstance(s.body.stmts[0], Store) and s.body.stmts[0].buffer == "t":
            return s.body.stmts[0]
        return None

    target = edit(scheduled.transpose_tiled(), unguard)  # type: ignore[arg-type]
    return Wrong("bounds", "E-BOUNDS", lifted.transpose(), target)


def another_operator() -> Wrong:
    def add_instead(s: Store) -> Store:
        return replace(
            s,
            value=map_expr(
                s.value,
                lambda e: replace(e, op=BinaryOp.ADD) if isinstance(e, Binary) and e.dtype is F32 else e,
            ),
        )

    target = edit(scheduled.saxpy_bound(), at_store("y", add_instead))
    return Wrong("equality", "E-EXPR", lifted.saxpy_in_place(), target)


def no_barrier() -> Wrong:
    return Wrong("races", "E-RACE", lifted.transpose(), scheduled.transpose_tiled(barriers=False))


def lanes_that_depend() -> Wrong:
    """y[r, c+1] = y[r, c] + x[r, c]: four lanes at once read what the lane before writes."""
    n, r = var("n"), var("r")

    def body(c: object) -> Store:
        before = ld("y", r, c)  # type: ignore[arg-type]
        value = op(BinaryOp.ADD, before, ld("x", r, c))  # type: ignore[arg-type]
        return Store("y", (r, add(c, 1)), value)  # type: ignore[arg-type]

    params = ("x", "y", "n")
    buffers = (buf("x", n, index(8)), buf("y", n, index(9)))
    scalars = (Scalar("n", DType.I32, True),)
    first = replace(body(var("c")), origin=origin("S0", "r", "c"))
    serial = loop("r", n, loop("c", index(8), first), kind=LoopKind.PARALLEL)
    source = checked(Kernel("scan", params, buffers, scalars, Block((serial,))))
    column = at(("c.o", 4), ("c.i", 1))
    lane = replace(body(column), origin=replace(origin("S0", "r", "c"), instance=(r, column)))
    lanes = loop("c.o", index(2), loop("c.i", index(4), lane, kind=LoopKind.VECTOR))
    return Wrong(
        "vector",
        "E-VECTOR",
        source,
        replace(source, body=Block((loop("r", n, lanes, kind=LoopKind.GRID_X),))),
    )


def forgotten_tail() -> Wrong:
    target = edit(
        scheduled.vecadd(256, multiple_of_4=False), at_loop("i.o", extent(floordiv(var("n"), 1024)))
    )
    return Wrong("coverage", "E-COVERAGE", lifted.vecadd(), target)


def sum_not_rescaled() -> Wrong:
    """A sum of exponentials that stays relative to the maximum that it began with."""
    joined = apply_program(lifted.softmax(), parse("online(c, c_2)")).kernel
    total = Load("s", (), F32)

    def kept(s: Store) -> Store | tuple[()]:
        grows = isinstance(s.value, Binary) and s.value.lhs == total and "m_old" in print_expr(s.value)
        return () if grows else s

    return Wrong("online", "E-ONLINE", lifted.softmax(), edit(joined, at_store("s", kept)))


def tile_read_untransposed() -> Wrong:
    def swap(s: Store) -> Store:
        return replace(
            s,
            value=map_expr(
                s.value,
                lambda e: replace(e, indices=e.indices[::-1]) if isinstance(e, Load) else e,
            ),
        )

    return Wrong(
        "flow", "E-FLOW", lifted.transpose(), edit(scheduled.transpose_float4(), at_store("y", swap))
    )


def racy_source() -> Wrong:
    """Every thread of the source stores the same cell: it has no one meaning to preserve."""
    n = var("n")
    s = Store("y", (index(0),), ld("x", var("i")), origin("S0", "i"))
    source = checked(
        Kernel(
            "last",
            ("x", "y", "n"),
            (buf("x", n), buf("y", n)),
            (Scalar("n", DType.I32, True),),
            Block((loop("i", n, s, kind=LoopKind.PARALLEL),)),
        )
    )
    return Wrong("source-race", "E-SOURCE-RACE", source, replace(source, body=Block((loop("i", n, s),))))


PROGRAMS: dict[str, Callable[[], Wrong]] = {
    f.__name__: f
    for f in (
        too_many_threads,
        barrier_some_threads_miss,
        columns_beyond_the_row,
        copy_beyond_the_edge,
        another_operator,
        no_barrier,
        lanes_that_depend,
        forgotten_tail,
        sum_not_rescaled,
        tile_read_untransposed,
        racy_source,
    )
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_only_this_check_refuses_it(name: str) -> None:
    wrong = PROGRAMS[name]()
    verdict = prove(wrong.source, wrong.target)
    assert verdict.status is Status.REFUTED
    assert codes(verdict) == {wrong.code}, verdict.diagnostics
    without = prove(wrong.source, wrong.target, skip={wrong.check})
    assert without.status is Status.PROVED, without.diagnostics


def test_every_check_has_a_program() -> None:
    assert {f().check for f in PROGRAMS.values()} == {*CHECKS, "source-race"}


@pytest.mark.parametrize(
    "name,sizes",
    [
        ("another_operator", {"n": 3}),
        ("forgotten_tail", {"n": 5}),
        ("copy_beyond_the_edge", {"rows": 3, "cols": 4}),
        ("no_barrier", {"rows": 33, "cols": 3}),
        ("tile_read_untransposed", {"rows": 64, "cols": 64}),
    ],
)
def test_they_are_wrong(name: str, sizes: dict[str, int]) -> None:
    wrong = PROGRAMS[name]()
    assert not same(wrong.source, wrong.target, sizes)
