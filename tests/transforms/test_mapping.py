"""bind, unroll, vectorize, launch_bounds."""

from __future__ import annotations

import pytest

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.printer import print_kernel
from evolve.ir.types import LoopKind
from evolve.ir.visit import loop_sites
from tests.transforms.fixtures import KERNELS, applied, assert_same


def kind(kernel: str, program: str, loop: str) -> LoopKind:
    site = loop_sites(applied(kernel, program).kernel.body)[loop]
    return site.stmt.kind  # type: ignore[union-attr]


def code(kernel: str, program: str) -> str:
    with pytest.raises(RefusedError) as e:
        applied(kernel, program)
    return e.value.diagnostic.code


@pytest.mark.parametrize("axis", ["grid.x", "grid.y", "grid.z"])
def test_bind_to_the_grid(axis: str) -> None:
    assert kind("vecadd", f"bind(i, {axis})", "i") is LoopKind(axis)


def test_a_grid_loop_under_a_guard_is_refused() -> None:
    assert (
        code("transpose", "split(i, 4)\nbind(i.o, grid.y)\nbind(i.i, grid.z)\nbind(j, grid.x)")
        == "E-GRID-NEST"
    )


def test_a_grid_loop_beside_statements_is_refused() -> None:
    assert code("softmax", "bind(row, grid.x)\nbind(c_3, grid.y)") == "E-GRID-NEST"


def test_a_grid_loop_of_dependent_extent_is_refused() -> None:
    assert code("triangle", "bind(i, grid.y)\nbind(j, grid.x)") == "E-GRID-NEST"


def test_sibling_thread_loops_share_an_axis() -> None:
    program = "split([c, c_3], 32)\nwarp_reduce(c.i)\nbind(c_3.i, thread.x)"
    assert kind("softmax", program, "c_3.i") is LoopKind.THREAD_X


def test_a_thread_loop_inside_a_vector_loop_is_refused() -> None:
    # A vector loop holds no loop when it is made; staging inside one could only be refused as well.
    program = "specialize(n % 64 == 0)\nsplit(i, 64)\nvectorize(i.i, 4)\nstage(a, at=i.i.i, scope=register)"
    assert code("vecadd", program) == "E-LOOP-KIND"


def test_thread_axis_z_is_short() -> None:
    assert code("vecadd", "split(i, 128)\nbind(i.i, thread.z)") == "E-THREADS"


def test_a_reduction_loop_needs_a_reduction() -> None:
    with pytest.raises(RefusedError) as e:
        applied("moments", "split(c, 32)\nbind(c.i, thread.x)")
    assert e.value.diagnostic.code == "E-CARRIED"
    assert e.value.diagnostic.repair == "block_reduce(c.i) or warp_reduce(c.i)"


def test_a_total_that_is_read_while_it_grows_is_shared_out_by_a_scan() -> None:
    with pytest.raises(RefusedError) as e:
        applied("running", "split(c, 32)\nbind(c.i, thread.x)")
    assert e.value.diagnostic.code == "E-CARRIED"
    assert e.value.diagnostic.repair is not None and e.value.diagnostic.repair.startswith("scan(c.i)")


def test_a_vector_inside_a_thread_loop_is_split_off_first() -> None:
    with pytest.raises(RefusedError) as e:
        applied("vecadd", "split(i, 256)\nbind(i.i, thread.x)\nvectorize(i.i, 4)")
    assert e.value.diagnostic.code == "E-LOOP-KIND"
    assert e.value.diagnostic.repair is not None and "split it by 4" in e.value.diagnostic.repair


def test_unroll_by_a_factor_splits() -> None:
    kernel = applied("softmax", "a, b = unroll(c, 4)").kernel
    loops = loop_sites(kernel.body)
    assert loops["a"].stmt.kind is LoopKind.SERIAL  # type: ignore[union-attr]
    assert loops["b"].stmt.kind is LoopKind.UNROLL  # type: ignore[union-attr]
    assert_same(KERNELS["softmax"](), kernel, 3, 7)


def test_vectorize_moves_a_guard_of_whole_vectors_outside() -> None:
    text = print_kernel(applied("vecadd", "specialize(n % 4 == 0)\nsplit(i, 64)\nvectorize(i.i, 4)").kernel)
    assert text.endswith(
        "    for i.i.o in 0..16:   # parallel\n"
        "      if i.o * 64 + i.i.o * 4 < n:\n"
        "        for i.i.i in 0..4:   # vector\n"
        "          c[i.o * 64 + i.i.o * 4 + i.i.i] = a[i.o * 64 + i.i.o * 4 + i.i.i]"
        " + b[i.o * 64 + i.i.o * 4 + i.i.i]"
    )


@pytest.mark.parametrize("assumed", ["n % 2 == 0", "n % 6 == 0", "n >= 4"])
def test_vectorize_keeps_a_guard_that_cuts_a_vector_inside(assumed: str) -> None:
    kernel = applied("vecadd", f"specialize({assumed})\nsplit(i, 64)\nvectorize(i.i, 4)").kernel
    text = print_kernel(kernel)
    assert "for i.i.i in 0..4:   # vector\n        if i.o * 64 + i.i.o * 4 + i.i.i < n:" in text
    for n in (6, 12, 66):
        assert_same(KERNELS["vecadd"](), kernel, n)


def test_a_guard_that_cuts_vectors_is_refused_where_none_is_wide() -> None:
    # Rows of any length begin anywhere: no access along them is aligned.
    with pytest.raises(RefusedError) as e:
        applied("stencil", "shift(j, 1)\nvectorize(j, 4)")
    assert e.value.diagnostic.code == "E-VECTOR-TAIL"
    assert e.value.diagnostic.repair == "specialize(cols % 4 == 0)"
    kernel = applied("stencil", "specialize(cols % 4 == 0)\nshift(j, 1)\nvectorize(j, 4)").kernel
    assert_same(KERNELS["stencil"](), kernel, 5, 12)


def test_a_guard_below_and_one_above_are_whole_where_a_vector_is_in_or_out() -> None:
    program = "specialize(cols % 4 == 0)\nshift(j, 4)\nvectorize(j, 4)"
    text = print_kernel(applied("transpose", program).kernel)
    assert "if j.o * 4 >= 4:\n        for j.i in 0..4:   # vector" in text


def test_vectorize_of_other_loops_than_the_contiguous_is_refused() -> None:
    assert code("transpose", "specialize(rows % 4 == 0)\nreorder([j, i])\nvectorize(j, 4)") == "E-VECTOR-BODY"
    assert code("column_sum", "specialize(rows % 4 == 0)\nvectorize(r, 4)") == "E-VECTOR-STRIDE"


def test_launch_bounds_are_kept_by_later_statements() -> None:
    kernel = applied("vecadd", "launch_bounds(256, 4)\nsplit(i, 256)").kernel
    assert (kernel.max_threads, kernel.min_blocks) == (256, 4)
