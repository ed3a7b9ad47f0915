"""inline, compute_at."""

from __future__ import annotations

import pytest

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.printer import print_kernel
from evolve.ir.stmt import Reduce
from evolve.ir.visit import leaves, local_buffers, loop_sites
from evolve.transforms.moves import candidates
from tests.transforms.fixtures import KERNELS, applied, assert_same


def text(kernel: str, program: str) -> str:
    return print_kernel(applied(kernel, program).kernel)


def test_each_read_gets_the_expression_of_its_element() -> None:
    found = text("smooth", "inline(t)")
    assert "alloc" not in found and "for k" not in found
    assert "x[row, i + 4] + 0.5:f32 * x[row, i + 4 + 1]" in found.replace("i + 5", "i + 4 + 1")


@pytest.mark.parametrize("program", ["split(k, 4)\ninline(t)", "split(k, 10)\nsplit(k.i, 5)\ninline(t)"])
def test_loops_that_are_digits_of_an_element_are_read_off_it(program: str) -> None:
    kernel = applied("smooth", program).kernel
    assert set(loop_sites(kernel.body)) == {"row", "i"}
    assert_same(KERNELS["smooth"](), kernel, 3)


@pytest.mark.parametrize("at", ["i.o", "i.i"])
@pytest.mark.parametrize("parts", [2, 3, 8, 16])
def test_a_window_has_what_its_iteration_reads(at: str, parts: int) -> None:
    kernel = applied("smooth", f"split(i, {parts})\nw = compute_at(t, at={at})").kernel
    window = local_buffers(kernel.body)["w"]
    assert [int(e.value) for e in window.extents] == [parts + 4 if at == "i.o" else 5]  # type: ignore[union-attr]
    assert "t" not in local_buffers(kernel.body)
    assert_same(KERNELS["smooth"](), kernel, 3)


def test_elements_that_nobody_fills_are_not_filled_in_a_window_either() -> None:
    """Six parts of three cover more than the sixteen: the last window would reach over the end."""
    found = text("smooth", "split(i, 3)\nw = compute_at(t, at=i.o)")
    assert "if i.o * 3 + w.0 < 20:" in found


def test_what_others_read_stays_and_the_copy_has_names_of_its_own() -> None:
    kernel = applied("softmax", "compute_at(m, at=c_3)").kernel
    assert {"m", "m_at"} <= set(local_buffers(kernel.body))
    assert {"c", "c.at"} <= set(loop_sites(kernel.body))
    assert_same(KERNELS["softmax"](), kernel, 3, 7)


def test_a_sum_goes_where_it_is_read_with_all_that_makes_it() -> None:
    kernel = applied("moments", "split(c, 4)").kernel
    assert "s" in local_buffers(kernel.body)
    with pytest.raises(RefusedError) as e:
        applied("moments", "compute_at(s, at=c)")
    assert e.value.diagnostic.code == "E-PRODUCER"


def test_a_maximum_in_each_iteration_is_none_for_one_sweep() -> None:
    with pytest.raises(RefusedError) as e:
        applied("softmax", "compute_at(m, at=c_2)\nonline(c, c_2)")
    assert e.value.diagnostic.code == "E-ONLINE-FORM"


def test_updates_in_registers_are_not_atomic() -> None:
    program = (
        "split(i, 32)\nsplit(i.i, 4)\nh_p = privatize(h, at=i.o, copies=i.i.i)\n"
        "aggregate(h_p, warp)\nw = compute_at(h_p, at=h_p.all.0)"
    )
    with pytest.raises(RefusedError) as e:
        applied("histogram", program)
    assert e.value.diagnostic.code == "E-PRODUCER", "memory says which element"


def test_sums_are_not_offered_to_be_computed_in_each_iteration() -> None:
    offered = {t for group in candidates(applied("smooth", "split(i, 8)").kernel) for t in group}
    assert "compute_at(t, at=i.o)" in offered and "inline(t)" in offered
    kernel = KERNELS["softmax"]()
    sums = {leaf.buffer for leaf, _ in leaves(kernel.body) if isinstance(leaf, Reduce)}
    assert sums == {"m", "s"}
    assert not any(t.startswith(("inline(", "compute_at(")) for g in candidates(kernel) for t in g)
