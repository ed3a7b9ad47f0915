"""Conditions of the prover about reductions, combinations and scans that nothing else holds in place.

Each test fails when one condition is left out; see `benchmarks.prover.mutants`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evolve.compiler.compile import finish
from evolve.ir.expr import BinaryOp, Cast, Const, index, var
from evolve.ir.kernel import Contents, Kernel, Scalar
from evolve.ir.stmt import Alloc, Block, Buffer, For, Origin, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, DType, LoopKind, Space
from evolve.ir.visit import rewrite, walk
from evolve.legality.prove import prove
from tests.illegal.forged_online import good as running
from tests.illegal.forging import good, with_loop
from tests.illegal.lifted import source
from tests.kernels_ir import F32, buf, checked, ld, loop, op, origin, vecadd
from tests.legality.edits import codes

ZERO, NEUTRAL = Const(0.0, F32), Const(-0.0, F32)
FIRST = (index(0),)
TURN = "c.o.i.all"
"""The scan loop of the good program of `cumsum`."""


def of(*body: Stmt) -> Kernel:
    """A kernel that reads n elements of x and z and writes the one of y."""
    n = var("n")
    arrays = (buf("x", n), buf("z", n), buf("y", index(1)))
    return checked(Kernel("of", ("x", "z", "y", "n"), arrays, (Scalar("n", DType.I32, True),), Block(body)))


def added(into: str, where: tuple[Const, ...] = ()) -> For:
    return loop("k", var("n"), Reduce(into, where, SUM, ld("x", var("k")), origin("S1", "k")))


def greatest(into: str) -> For:
    return loop("j", var("n"), Reduce(into, (), MAX, ld("z", var("j")), origin("S2", "j")))


def register(name: str) -> Alloc:
    return Alloc(buf(name, space=Space.REGISTER))


def test_a_partial_is_combined_once_by_one_statement() -> None:
    start = (register("acc"), Store("acc", (), ZERO, origin("S0")))
    end = Store("y", FIRST, ld("acc"), origin("S3"))
    source_ = of(*start, added("acc"), end)
    fold = Reduce("acc", (), SUM, ld("part"))
    part = (register("part"), Store("part", (), NEUTRAL), added("part"))
    assert prove(source_, of(*start, *part, fold, end)).proved
    twice = loop("again", index(2), fold)
    assert codes(prove(source_, of(*start, *part, twice, end))) == {"E-REDUCTION"}


def test_what_is_left_in_memory_is_combined_once() -> None:
    start = Store("y", FIRST, ZERO, origin("S0"))
    source_ = of(start, added("y", FIRST))
    fold = Reduce("y", FIRST, SUM, ld("part"))
    part = (register("part"), Store("part", (), NEUTRAL), added("part"))
    assert prove(source_, of(start, *part, fold)).proved
    assert codes(prove(source_, of(start, *part, loop("again", index(2), fold)))) == {"E-REDUCTION"}


def test_a_sum_and_a_maximum_in_one_cell_do_not_change_places() -> None:
    start = (register("acc"), Store("acc", (), ZERO, origin("S0")))
    end = Store("y", FIRST, ld("acc"), origin("S3"))
    source_ = of(*start, added("acc"), greatest("acc"), end)
    verdict = prove(source_, of(*start, greatest("acc"), added("acc"), end))
    assert codes(verdict) == {"E-REDUCTION"}
    assert "whose order counts" in verdict.diagnostics[0].message


def test_a_grid_as_large_as_memory_says_is_refused() -> None:
    count = Cast(ld("count", index(0), dtype=DType.I32), DType.INDEX)
    n, k = var("n"), var("k")
    add = Reduce("y", FIRST, SUM, ld("x", k), origin("S0", "k"), atomic=True)
    arrays = (buf("x", n), Buffer("count", DType.I32, (index(1),), Space.GLOBAL), buf("y", index(1)))
    kernel = checked(
        Kernel(
            "some",
            ("x", "count", "y", "n"),
            arrays,
            (Scalar("n", DType.I32, True),),
            Block((loop("k", count, add, kind=LoopKind.PARALLEL),)),
            contents=(Contents("count", index(0), n),),
        )
    )
    assert prove(kernel, finish(kernel)).proved
    grid = replace(kernel, body=Block((loop("k", count, add, kind=LoopKind.GRID_X),)))
    assert codes(prove(kernel, grid)) == {"E-GRID"}


def test_an_idle_statement_does_not_claim_what_there_is_not() -> None:
    value = op(BinaryOp.ADD, ld("a", var("i")), ld("b", var("i")))
    idle = (register("t"), Store("t", (), value, Origin("S9", (var("i"),))))
    k = finish(vecadd())
    (nest,) = k.body.stmts
    assert isinstance(nest, For)
    target = replace(k, body=Block((replace(nest, body=Block((*idle, *nest.body.stmts))),)))
    assert codes(prove(vecadd(), target)) == {"E-COVERAGE"}


def scanned(f: Callable[[For], Stmt]) -> set[str]:
    """The codes for the good cumulative sum with its scan loop changed."""
    target = with_loop(good("cumsum"), TURN, f)
    return codes(prove(source("cumsum").kernel, target))


def test_a_scan_is_a_copy_of_the_total_and_a_reduction() -> None:
    def alone(s: For) -> Stmt:
        return replace(s, body=Block(s.body.stmts[1:]))

    def two_reductions(s: For) -> Stmt:
        return replace(s, body=Block((s.body.stmts[1], s.body.stmts[1])))

    assert scanned(alone) == {"E-COMBINE"}
    assert "E-COMBINE" in scanned(two_reductions)


def test_a_scan_adds_up_in_a_register() -> None:
    k = good("cumsum")

    def shared(s: Stmt) -> Stmt | None:
        own = isinstance(s, Alloc) and s.buffer.name == "acc"
        return Alloc(replace(s.buffer, space=Space.SHARED)) if isinstance(s, Alloc) and own else None

    target = replace(k, body=rewrite(k.body, shared))
    assert target != k
    found = prove(source("cumsum").kernel, target)
    assert any("in a register of each thread" in d.message for d in found.diagnostics)


def test_a_scan_gives_each_thread_its_turn() -> None:
    """Threads that only copy something idle: the block has twice as many as are scanned."""
    x = ld("x", index(0), index(0))
    idle = Block((register("idle"), Store("idle", (), x)))

    def more(s: For) -> tuple[Stmt, ...]:
        return For("idler", index(128), LoopKind.THREAD_X, idle), s

    target = with_loop(good("cumsum"), TURN, more)
    found = prove(source("cumsum").kernel, target)
    assert any("must give each thread" in d.message for d in found.diagnostics)
    assert [s.stmt.kind for s in walk(target.body) if isinstance(s.stmt, For) and s.stmt.var == TURN]


def test_a_running_sum_is_in_a_register() -> None:
    def shared(s: Stmt) -> Stmt | None:
        own = isinstance(s, Alloc) and s.buffer.name == "s_part"
        return Alloc(replace(s.buffer, space=Space.SHARED)) if isinstance(s, Alloc) and own else None

    k = running()
    found = prove(source("softmax").kernel, replace(k, body=rewrite(k.body, shared)))
    assert any("is not in registers" in d.message for d in found.diagnostics)
