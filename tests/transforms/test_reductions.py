"""warp_reduce, block_reduce, split_reduction."""

from __future__ import annotations

import pytest

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.printer import print_kernel
from evolve.ir.types import LoopKind
from evolve.ir.visit import local_buffers, loop_sites
from tests.transforms.fixtures import KERNELS, applied, assert_same


def refused(kernel: str, program: str) -> RefusedError:
    with pytest.raises(RefusedError) as e:
        applied(kernel, program)
    return e.value


def test_two_reductions_in_one_loop_get_two_partials() -> None:
    kernel = applied("moments", "jam(c, c_2)\nsplit(c, 32)\nwarp_reduce(c.i)").kernel
    assert {"s_part", "q_part"} <= set(local_buffers(kernel.body))
    for cols in (1, 31, 32, 33, 70):
        assert_same(KERNELS["moments"](), kernel, 3, cols)


def test_partials_of_a_maximum_start_at_minus_infinity() -> None:
    text = print_kernel(applied("softmax", "split(c, 32)\nwarp_reduce(c.i)").kernel)
    assert "m_part[c.i.init] = -inf:f32" in text
    assert "m[] max= m_part[c.i.all]" in text


def test_the_combination_comes_after_all_contributing_loops() -> None:
    program = "split(c, 4)\nsplit(c.o, 32)\nwarp_reduce(c.o.i)"
    sites = loop_sites(applied("softmax", program).kernel.body)
    assert [x.var for x in sites["c.o.i.all"].loops] == ["row"]
    assert [x.var for x in sites["c.o.i"].loops] == ["row", "c.o.o"]


def test_the_combination_stays_inside_a_guard_of_the_row() -> None:
    text = print_kernel(applied("column_sum", "split(c, 8)\nsplit(r, 32)\nwarp_reduce(r.i)").kernel)
    guarded = text.index("if c.o * 8 + c.i < cols:")
    assert guarded < text.index("y[c.o * 8 + c.i] sum= y_part[r.i.all]")
    kernel = applied("column_sum", "split(c, 8)\nsplit(r, 32)\nwarp_reduce(r.i)").kernel
    for sizes in ((5, 3), (33, 9), (64, 16)):
        assert_same(KERNELS["column_sum"](), kernel, *sizes)


def test_partials_have_a_dimension_for_each_cell_of_the_nest() -> None:
    program = (
        "specialize(cols % 8 == 0)\nsplit(c, 8)\ndistribute(c.i)\nsplit(r, 4)\n"
        "reorder([r.i, r.o, c.i.1])\nsplit_reduction(r.i, scope=shared)"
    )
    kernel = applied("column_sum", program).kernel
    part = local_buffers(kernel.body)["y_part"]
    assert [int(e.value) for e in part.extents] == [4, 8]  # type: ignore[union-attr]
    for sizes in ((5, 8), (3, 16), (9, 24)):
        assert_same(KERNELS["column_sum"](), kernel, *sizes)


def test_cells_that_may_not_exist_are_not_combined() -> None:
    program = "split(c, 8)\ndistribute(c.i)\nsplit(r, 4)\nreorder([r.i, r.o, c.i.1])\nsplit_reduction(r.i)"
    error = refused("column_sum", program)
    assert error.diagnostic.code == "E-WINDOW"
    assert error.diagnostic.repair == "specialize the size to a multiple of the tile"


def test_reduction_kinds() -> None:
    block = loop_sites(applied("softmax", "split(c, 64)\nblock_reduce(c.i)").kernel.body)
    assert block["c.i.all"].stmt.kind is LoopKind.COMBINE_BLOCK  # type: ignore[union-attr]
    assert block["c.i"].stmt.kind is LoopKind.THREAD_X  # type: ignore[union-attr]
    plain = loop_sites(applied("softmax", "split(c, 64)\nsplit_reduction(c.i)").kernel.body)
    assert {plain[x].stmt.kind for x in ("c.i", "c.i.init", "c.i.all")} == {LoopKind.SERIAL}  # type: ignore[union-attr]


def test_a_scan_is_not_a_reduction() -> None:
    for statement in ("block_reduce(c.i)", "split_reduction(c.i)"):
        assert refused("running", f"split(c, 64)\n{statement}").diagnostic.code == "E-REDUCE-READ"


def test_a_store_into_one_cell_is_not_a_reduction() -> None:
    assert refused("last", "split(c, 32)\nwarp_reduce(c.i)").diagnostic.code == "E-CARRIED"


def test_nested_reductions_on_one_axis_are_refused() -> None:
    program = "split(c, 32)\nsplit(c.o, 32)\nwarp_reduce(c.i)\nwarp_reduce(c.o.i)"
    assert refused("softmax", program).diagnostic.code == "E-AXIS"


@pytest.mark.parametrize("threads", [3, 5, 24])
def test_a_warp_reduces_over_powers_of_two(threads: int) -> None:
    assert refused("softmax", f"split(c, {threads})\nwarp_reduce(c.i)").diagnostic.code == "E-REDUCE-WIDTH"
