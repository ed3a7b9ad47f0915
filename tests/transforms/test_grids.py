"""grid_reduce and persistent: what they make, and what they refuse that no example shows."""

from __future__ import annotations

import pytest

from evolve.compiler.compile import finish
from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse
from evolve.ir.expr import BinaryOp, Const, add, compare, index, var
from evolve.ir.kernel import Kernel
from evolve.ir.launches import launches, scratch
from evolve.ir.printer import print_kernel, print_stmt
from evolve.ir.stmt import Alloc, Barrier, Block, If, Reduce, Stmt, Store
from evolve.ir.types import SUM, LoopKind, Space
from evolve.ir.visit import walk
from evolve.legality.prove import prove
from evolve.transforms.apply import apply_program
from evolve.transforms.moves import legal_moves
from tests import kernels_ir
from tests.kernels_ir import F32, buf, checked, ld, loop, origin
from tests.legality.brute import same
from tests.legality.edits import codes, edit
from tests.transforms.fixtures import KERNELS, SIZES, applied


def refusal(kernel: Kernel, program: str) -> tuple[str, str]:
    with pytest.raises(RefusedError) as e:
        apply_program(kernel, parse(program))
    return e.value.diagnostic.code, e.value.diagnostic.message


def rows_of(body: tuple[object, ...], extent: object = None) -> Kernel:
    """y[row] = sum over c, the reduction being `body`."""
    whole = (
        Alloc(buf("s", space=Space.REGISTER)),
        Store("s", (), Const(0.0, F32), origin("S0", "row")),
        *body,
        Store("y", (var("row"),), ld("s"), origin("S9", "row")),
    )
    rows = loop("row", var("rows"), *whole, kind=LoopKind.PARALLEL)  # type: ignore[arg-type]
    arrays = (buf("x", var("rows"), var("cols")), buf("y", var("rows")))
    return checked(Kernel("rows_of", ("x", "y", "rows", "cols"), arrays, SIZES, Block((rows,))))


STEP = Reduce("s", (), SUM, ld("x", var("row"), var("c")), origin("S1", "row", "c"))


def test_the_text_of_a_grid_reduction() -> None:
    done = applied("total", "split(k, 4096)\ngrid_reduce(k.o)").kernel
    text = print_kernel(done)
    assert text.endswith(
        """\
  alloc sum_part: global f32[(n + 4095) // 4096]
  for k.o in 0..(n + 4095) // 4096:
    sum_part[k.o] = -0.0:f32
    for k.i in 0..4096:
      if k.o * 4096 + k.i < n:
        sum_part[k.o] sum= x[k.o * 4096 + k.i]
  ---- next launch ----
  alloc sum: register f32[]
  sum[] = 0.0:f32
  for k.o.all in 0..(n + 4095) // 4096:
    sum[] sum= sum_part[k.o.all]
  out[0] = sum[]"""
    )


def test_loops_around_are_in_both_launches() -> None:
    first, second = launches(applied("column_total", "split(r, 4)\ngrid_reduce(r.o)").kernel)
    assert print_stmt(first.body).splitlines()[:3] == [
        "for c.part in 0..cols:   # parallel",
        "  for r.o in 0..(rows + 3) // 4:",
        "    acc_part[r.o, c.part] = -0.0:f32",
    ]
    assert "acc[] sum= acc_part[r.o.all, c]" in print_stmt(second.body)


def test_several_reductions_of_a_loop_have_scratch_memory_each() -> None:
    done = applied("moments", "split([c, c_2], 4)\njam(c.o, c_2.o)\ngrid_reduce(c.o)").kernel
    assert [b.name for b in scratch(done)] == ["s_part", "q_part"]
    assert prove(KERNELS["moments"](), finish(done)).proved


def test_what_cannot_be_done_twice_is_refused() -> None:
    some = If(
        compare(BinaryOp.LT, var("row"), 5), Block((loop("c", var("cols"), STEP),)), Block((STEP_ALONE,))
    )
    code, message = refusal(rows_of((some,)), "split(c, 4)\ngrid_reduce(c.o)")
    assert code == "E-GRID-NEST" and "row < 5" in message
    guarded = If(compare(BinaryOp.LT, var("row"), 5), Block((loop("c", var("cols"), STEP),)))
    kernel = rows_of((guarded,))
    done = apply_program(kernel, parse("split(c, 4)\ngrid_reduce(c.o)\nbind(row.part, grid.x)")).kernel
    assert prove(kernel, finish(done)).proved
    assert same(kernel, finish(done), {"rows": 7, "cols": 6})


STEP_ALONE = Reduce("s", (), SUM, ld("x", var("row"), index(0)), origin("S2", "row"))


def test_how_many_partials_there_are_follows_from_the_sizes() -> None:
    kernel = rows_of((loop("c", add(var("row"), index(1)), STEP),))
    code, message = refusal(kernel, "grid_reduce(c)")
    assert code == "E-EXTENT" and "row + 1" in message


def test_each_iteration_reaches_one_cell() -> None:
    add_up = Reduce("y", (var("row"),), SUM, ld("x", var("row"), var("c")), origin("S0", "c", "row"))
    nest = loop("c", var("cols"), loop("row", var("rows"), add_up, kind=LoopKind.PARALLEL))
    arrays = (buf("x", var("rows"), var("cols")), buf("y", var("rows")))
    kernel = checked(Kernel("sums", ("x", "y", "rows", "cols"), arrays, SIZES, Block((nest,))))
    code, message = refusal(kernel, "grid_reduce(c)")
    assert code == "E-WINDOW" and "y[row]" in message


def test_grid_reductions_are_among_the_next_moves() -> None:
    done = applied("total", "split(k, 64)")
    assert "grid_reduce(k.o)" in legal_moves(done.kernel, done.names)
    after = applied("total", "split(k, 64)\ngrid_reduce(k.o)")
    moves = legal_moves(after.kernel, after.names)
    assert {"bind(k.o, grid.x)", "persistent(k.o, 132)"} <= set(moves)
    assert not any(m.startswith("jam(") for m in moves), "launches are not joined"


# ---- persistent


SHARED = (
    "tile([i, j], [4, 4])\nreorder([j.o, i.o, i.i, j.i])\nbind(j.o, grid.y)\npersistent(i.o, 2)\n"
    "t = stage(x, at=i.o.o, scope=shared)\nbind([t.1, i.i], thread.x)"
)


def test_a_block_waits_between_turns_before_it_overwrites_what_it_shares() -> None:
    source = kernels_ir.transpose()
    done = finish(apply_program(source, parse(SHARED)).kernel)
    assert prove(source, done).proved, print_kernel(done)
    barriers = [s for s in walk(done.body) if isinstance(s.stmt, Barrier)]
    assert [[x.var for x in b.loops] for b in barriers] == [["j.o", "i.o.i", "i.o.o"]] * 2
    for sizes in ({"rows": 4, "cols": 4}, {"rows": 13, "cols": 6}, {"rows": 24, "cols": 5}):
        assert same(source, done, sizes)


def test_without_that_wait_it_is_refused() -> None:
    source = kernels_ir.transpose()
    done = finish(apply_program(source, parse(SHARED)).kernel)
    barriers = iter(range(2))

    def drop_the_second(s: Stmt) -> tuple[Stmt, ...] | None:
        return () if isinstance(s, Barrier) and next(barriers) == 1 else None

    wrong = edit(done, drop_the_second)
    assert codes(prove(source, wrong)) == {"E-RACE"}
    assert not same(source, wrong, {"rows": 24, "cols": 5})


def test_names_may_be_given_to_turns_and_blocks() -> None:
    done = applied("softmax", "turn, b = persistent(row, 2)").kernel
    assert print_stmt(done.body).splitlines()[:3] == [
        "for b in 0..2:   # grid.x",
        "  for turn in 0..(rows + 1) // 2:",
        "    if turn * 2 + b < rows:",
    ]
