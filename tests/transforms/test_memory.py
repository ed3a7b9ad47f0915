"""stage, accumulate_in_register, and padding and order of set_layout."""

from __future__ import annotations

import pytest

from evolve.compiler.compile import finish
from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse
from evolve.ir.printer import print_kernel
from evolve.ir.visit import local_buffers
from evolve.legality.prove import prove
from evolve.transforms.apply import apply_program
from tests.illegal.lifted import source
from tests.transforms.fixtures import KERNELS, applied, assert_same


def refused(kernel: str, program: str) -> RefusedError:
    with pytest.raises(RefusedError) as e:
        applied(kernel, program)
    return e.value


def window(kernel: str, program: str, buffer: str) -> list[int]:
    found = local_buffers(applied(kernel, program).kernel.body)[buffer]
    return [int(e.value) for e in found.extents]  # type: ignore[union-attr]


STENCIL = "tile([i, j], [8, 16])\nt = stage(x, at=j.o, scope=shared)"


def test_the_window_of_a_stencil_has_a_halo() -> None:
    assert window("stencil", STENCIL, "t") == [10, 18]


@pytest.mark.parametrize("sizes", [(3, 3), (4, 9), (10, 18), (11, 19), (27, 50)])
def test_the_copy_of_a_partial_window_stays_inside_the_array(sizes: tuple[int, int]) -> None:
    assert_same(KERNELS["stencil"](), applied("stencil", STENCIL).kernel, *sizes)


def test_a_copy_that_fits_has_no_guard() -> None:
    program = "specialize(rows % 32 == 0 and cols % 32 == 0)\ntile([i, j], [32, 32])\n"
    program += "stage(x, at=j.o, scope=shared)"
    assert "if " not in print_kernel(applied("transpose", program).kernel)


def test_a_register_copy_goes_inside_the_rows_guard() -> None:
    text = print_kernel(
        applied("softmax", "specialize(cols == 64)\nsplit(row, 4)\nstage(x, at=row.i, scope=register)").kernel
    )
    assert text.count("if ") == 1
    assert text.index("if ") < text.index("alloc x_s")


def test_a_shared_copy_stays_outside_of_it() -> None:
    text = print_kernel(
        applied("softmax", "specialize(cols == 64)\nsplit(row, 4)\nstage(x, at=row.i, scope=shared)").kernel
    )
    assert text.index("alloc x_s") < text.index("if row.o * 4 + row.i < rows:\n        alloc m")


def test_staging_of_a_staged_buffer() -> None:
    program = "specialize(rows % 8 == 0 and cols % 16 == 0)\ntile([i, j], [8, 16])\n"
    program += "t = stage(x, at=j.o, scope=shared)\nr = stage(t, at=i.i, scope=register)"
    assert window("transpose", program, "r") == [1, 16]
    assert_same(KERNELS["transpose"](), applied("transpose", program).kernel, 16, 32)


def test_reads_where_memory_says_stay_beside_the_copy() -> None:
    program = parse("specialize(classes == 64)\nrow = stage(logits, at=r, scope=register)")
    text = print_kernel(apply_program(source("cross_entropy").kernel, program).kernel)
    assert text.count("row[0, ") == 3
    assert text.count("logits[r, ") == 2
    assert "- logits[r, index(target[r])]" in text


def test_reads_at_unrelated_places_have_no_window() -> None:
    error = refused("mirrored", "split(i, 8)\nstage(x, at=i.o, scope=shared)")
    assert error.diagnostic.code == "E-WINDOW"
    assert "unrelated places" in error.diagnostic.message


def test_a_register_window_larger_than_all_registers_is_refused() -> None:
    program = "specialize(cols == 131072)\nstage(x, at=row, scope=register)"
    assert refused("softmax", program).diagnostic.code == "E-STAGE-SIZE"


def test_unnamed_copies_are_named_after_the_buffer() -> None:
    program = "split(i, 8)\nstage(a, at=i.i, scope=register)\nstage(a, at=i.o, scope=shared)"
    assert {"a_s", "a_s_2"} <= set(local_buffers(applied("vecadd", program).kernel.body))


def test_accumulation_in_a_register_starts_at_the_identity() -> None:
    text = print_kernel(applied("column_sum", "a = accumulate_in_register(r, y)").kernel)
    assert "a[] = -0.0:f32" in text
    assert "y[c] sum= a[]" in text


def test_accumulation_at_a_loop_that_moves_the_cell_is_refused() -> None:
    program = "reorder([r, c])"
    assert refused("column_sum", program).diagnostic.code == "E-NEST"
    program = "distribute(c)\naccumulate_in_register(c.1, y)"
    assert refused("column_sum", "specialize(cols == 8)\n" + program).diagnostic.code == "E-LOOP-KIND"


def test_accumulation_in_a_buffer_that_the_reduction_only_reads_is_refused() -> None:
    assert refused("column_sum", "accumulate_in_register(r, x)").diagnostic.code == "E-ACCUMULATE"


def test_padding_is_not_part_of_the_meaning() -> None:
    program = STENCIL + "\nset_layout(t, pad=[1, 3])"
    kernel = applied("stencil", program).kernel
    assert local_buffers(kernel.body)["t"].padding == (1, 3)
    assert_same(KERNELS["stencil"](), kernel, 12, 21)
    undone = applied("stencil", program + "\nset_layout(t, pad=[0, 0])").kernel
    assert undone == applied("stencil", STENCIL).kernel


def test_an_order_moves_extents_padding_and_every_access() -> None:
    program = STENCIL + "\nset_layout(t, pad=[1, 3])"
    kernel = applied("stencil", program + "\nset_layout(t, order=[1, 0])").kernel
    before = local_buffers(applied("stencil", program).kernel.body)["t"]
    after = local_buffers(kernel.body)["t"]
    assert after.extents == before.extents[::-1] and after.padding == (3, 1)
    assert_same(KERNELS["stencil"](), kernel, 12, 21)
    undone = applied("stencil", program + "\nset_layout(t, order=[1, 0])" * 2).kernel
    assert undone == applied("stencil", program).kernel
    both = applied("stencil", STENCIL + "\nset_layout(t, order=[1, 0], pad=[3, 1])").kernel
    assert both == kernel


def test_an_aligned_window_begins_and_ends_at_multiples() -> None:
    program = "specialize(cols % 4 == 0)\nshift(j, 1)\nsplit(j, 16)\n"
    assert window("stencil", program + "t = stage(x, at=j.o, scope=register)", "t") == [3, 18]
    program += "t = stage(x, at=j.o, scope=register, align=4)"
    assert window("stencil", program, "t") == [3, 24]
    kernel = applied("stencil", program + "\nvectorize(t.1, 4)").kernel
    assert_same(KERNELS["stencil"](), kernel, 5, 12)


def test_a_window_between_multiples_is_refused() -> None:
    with pytest.raises(RefusedError) as e:
        applied("stencil", "split(j, 6)\nstage(x, at=j.o, scope=register, align=4)")
    assert e.value.diagnostic.code == "E-WINDOW"


def test_a_request_goes_on_asking_for_the_array_and_is_no_part_of_the_window() -> None:
    program = "specialize(cols == 256)\nprefetch(x, at=row, ahead=2)\n"
    kernel = applied("softmax", program + "xs = stage(x, at=row, scope=shared)").kernel
    assert "prefetch x[row + 2, " in print_kernel(kernel)
    assert [str(e.value) for e in local_buffers(kernel.body)["xs"].extents] == ["1", "256"]  # type: ignore[union-attr]
    assert prove(KERNELS["softmax"](), finish(kernel)).proved
    again = applied("softmax", program + "prefetch(x, at=row)").kernel
    assert print_kernel(again).count("prefetch x[row + 1, ") == 1
    assert prove(KERNELS["softmax"](), finish(again)).proved


def test_what_is_only_asked_for_is_not_copied() -> None:
    program = "specialize(cols == 256)\nprefetch(x, at=row)\nstage(x, at=x_ask.1, scope=register)"
    assert refused("softmax", program).diagnostic.code == "E-STAGE-UNREAD"
