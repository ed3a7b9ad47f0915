"""What a next move must not undo, and dependences seen at a glance."""

from __future__ import annotations

from collections.abc import Mapping

from evolve.dsl.parser import parse_statement
from evolve.transforms.apply import apply
from evolve.transforms.moves import MoveLimits, legal_moves
from tests.transforms.fixtures import applied


def moves(kernel: str, program: str, sizes: Mapping[str, tuple[int, ...]] | None = None) -> list[str]:
    at = applied(kernel, program)
    return legal_moves(at.kernel, at.names, MoveLimits(sizes=sizes or {}))


def test_loops_that_share_registers_are_bound_together_or_not_at_all() -> None:
    program = "split(row, 8)\ndistribute(row.i)"
    offered = moves("softmax", program)
    together = next(m for m in offered if m.startswith("bind([row.i.0, row.i.1"))
    assert "bind(row.i.0, thread.y)" not in offered
    at = applied("softmax", program)
    apply(at.kernel, parse_statement(together), at.names)


def test_lanes_that_combine_are_all_of_the_axis() -> None:
    program = "bind(row, grid.x)\nsplit([c, c_2, c_3], 32)\nwarp_reduce(c.i)"
    offered = moves("softmax", program)
    assert "warp_reduce(c_2.i)" in offered and "bind(c_3.i, thread.x)" in offered
    wide = moves("softmax", f"{program}\nsplit(c_3.o, 64)")
    assert "bind(c_3.o.i, thread.x)" not in wide and "bind(c_3.i, thread.x)" in wide


def test_lanes_make_one_warp() -> None:
    tile = "tile([i, j], [8, 32])\nreorder([i.o, j.o, i.i, j.i])\n"
    assert "bind(j.i, lane)" in moves("transpose", tile)
    assert "bind(i.i, lane)" not in moves("transpose", tile)
    assert "bind(i.i, thread.y)" in moves("transpose", tile + "bind(j.i, thread.x)")
    assert "bind(i.i, thread.y)" not in moves("transpose", tile + "bind(j.i, lane)")
    assert "bind(j.i, lane)" not in moves("transpose", tile + "bind(i.i, thread.y)")


def test_an_axis_of_the_grid_has_room_for_the_sizes_that_are_run() -> None:
    few, many = {"n": (60000,)}, {"n": (70000,)}
    assert "bind(i, grid.y)" in moves("vecadd", "", few)
    assert "bind(i, grid.y)" not in moves("vecadd", "", many) and "bind(i, grid.x)" in moves(
        "vecadd", "", many
    )


def test_splits_are_smaller_than_what_is_run() -> None:
    offered = moves("vecadd", "split(i, 64)", {"n": (1024,)})
    assert [m for m in offered if m.startswith("split(i.o,")] == ["split(i.o, 4)", "split(i.o, 8)"]


def test_sizes_too_large_to_be_executed_are_not_fixed() -> None:
    sizes = {"rows": (8192,), "cols": (8192,)}
    assert "specialize(rows == 8192)" in moves("softmax", "", sizes)
    assert "specialize(rows == 8192)" not in moves("softmax", "specialize(cols == 8192)", sizes)


def test_a_loop_that_needs_the_end_of_another_is_not_joined_to_it() -> None:
    assert "jam(c, c_2)" in moves("moments", "")
    assert not [m for m in moves("softmax", "") if m.startswith("jam")]


def test_what_passes_in_one_cell_is_not_taken_apart() -> None:
    assert "distribute(c)" not in moves("running", "")
    assert "distribute(row.i)" in moves("running", "split(row, 8)")


def test_versions_are_not_filled_by_all_threads_at_once() -> None:
    program = "tile([i, j], [16, 16])\nsplit(j.o, 4)\nt = stage(x, at=j.o.i, scope=shared)\nmulti_buffer(t)"
    assert "bind(j.o.i, thread.y)" not in moves("transpose", program)
    assert "bind(j.o.i, thread.y)" not in moves("transpose", "tile([i, j], [16, 16])")
