"""Barriers are placed where they are needed, shallow, and no more of them than that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.ir.expr import BinaryOp, Expr, add, compare, floordiv, index, mul, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Barrier, Block, If, Store
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import walk
from evolve.legality.barriers import place, strip
from evolve.legality.prove import prove
from tests import kernels_ir as lifted
from tests.codegen import scheduled_ir as scheduled
from tests.codegen.scheduled_ir import loop
from tests.kernels_ir import buf, ld
from tests.legality import small
from tests.legality.edits import at_barrier, body_of, codes, edit


def depths(k: Kernel) -> list[int]:
    return [len(s.path) for s in walk(k.body) if isinstance(s.stmt, Barrier)]


@pytest.mark.parametrize("name", sorted(scheduled.SCHEDULED))
def test_places_what_a_person_would(name: str) -> None:
    right = scheduled.SCHEDULED[name]()
    assert place(right) == right
    assert place(replace(right, body=strip(right.body))) == right


def test_surplus_barriers_are_taken_out() -> None:
    right = scheduled.transpose_tiled()
    doubled = edit(right, at_barrier(lambda: (Barrier(), Barrier())))
    assert place(doubled) == right


def test_loop_carried_dependence_gets_its_barrier() -> None:
    """The panel of the next iteration may not overwrite what slow threads still read."""
    bare = small.matmul(barriers=False)
    v = prove(lifted.matmul(), bare)
    assert codes(v) == {"E-RACE"}
    placed = place(bare)
    assert placed == small.matmul()
    assert depths(placed) == [3, 3]


def test_each_barrier_of_matmul_is_needed() -> None:
    full = small.matmul()
    sites = [s for s in walk(full.body) if isinstance(s.stmt, Barrier)]
    assert len(sites) == 2
    for n in range(2):
        seen = [0]

        def drop(n: int = n, seen: list[int] = seen) -> tuple[Barrier, ...]:
            seen[0] += 1
            return () if seen[0] - 1 == n else (Barrier(),)

        assert codes(prove(lifted.matmul(), edit(full, at_barrier(drop)))) == {"E-RACE"}


def test_no_barrier_orders_blocks() -> None:
    """Block i writes c[i], then c[n - 1 - i], which is another block's."""
    n = var("n")
    vec = lifted.vecadd()
    first = Store("c", (var("i"),), ld("a", var("i")))
    second = Store("c", (sub(sub(n, 1), var("i")),), ld("b", var("i")))
    target = body_of(vec, loop("i", n, LoopKind.GRID_X, first, second))
    assert place(target) == target
    races = [d for d in prove(vec, target).diagnostics if d.code == "E-RACE"]
    assert races and "different blocks" in races[0].message


def test_nothing_is_placed_where_threads_part() -> None:
    """A dependence inside a condition on the thread cannot be cut: the prover refuses."""
    k = lifted.transpose()
    i, t = var("i"), var("t")
    body = If(
        compare(BinaryOp.LT, t, 16),
        Block(
            (
                Alloc(buf("r", space=Space.REGISTER)),
                Store("s", (t,), ld("x", i, index(0))),
                Store("r", (), ld("s", floordiv(add(t, 1), 2))),
            )
        ),
    )
    shared = Alloc(buf("s", index(32), space=Space.SHARED))
    threads = loop("t", 32, LoopKind.THREAD_X, body)
    target = body_of(k, loop("i", var("rows"), LoopKind.GRID_X, shared, threads))
    assert place(target) == target
    assert "E-RACE" in codes(prove(k, target))


def test_a_barrier_in_one_block_does_not_order_another() -> None:
    """Blocks with an odd number pass no barrier, so their threads race."""
    even = compare(BinaryOp.EQ, add(var("i.o"), mul(floordiv(var("i.o"), 2), -2)), 0)
    right = scheduled.transpose_tiled()
    some = edit(right, at_barrier(lambda: If(even, Block((Barrier(),)))))
    v = prove(lifted.transpose(), some)
    assert codes(v) == {"E-RACE"}
    assert v.diagnostics[0].witness is not None and "i.o=1" in v.diagnostics[0].witness


def test_a_barrier_that_a_block_passes_never_orders_nothing_there() -> None:
    """Only block row 0 has an iteration of the loop around the barrier."""
    right = scheduled.transpose_tiled()

    def as_often(times: Expr) -> Kernel:
        return edit(right, at_barrier(lambda: loop("often", times, LoopKind.SERIAL, Barrier())))

    assert prove(lifted.transpose(), as_often(add(var("i.o"), 1))).proved
    v = prove(lifted.transpose(), as_often(sub(index(1), var("i.o"))))
    assert codes(v) == {"E-RACE"}
    assert v.diagnostics[0].witness is not None and "i.o=1" in v.diagnostics[0].witness
