"""split, tile and reorder: the exact nests that come out."""

from __future__ import annotations

import pytest

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.printer import print_kernel
from tests.transforms.fixtures import KERNELS, applied, assert_same


def body(kernel: str, program: str) -> str:
    """The printed loops, without the header."""
    lines = print_kernel(applied(kernel, program).kernel, origins=True).splitlines()
    start = next(i for i, line in enumerate(lines) if line.lstrip().startswith(("for ", "alloc ", "if ")))
    return "\n".join(line[2:] for line in lines[start:])


def test_split_guards_what_does_not_divide() -> None:
    assert body("vecadd", "split(i, 256)") == (
        "for i.o in 0..(n + 255) // 256:   # parallel\n"
        "  for i.i in 0..256:   # parallel\n"
        "    if i.o * 256 + i.i < n:\n"
        "      c[i.o * 256 + i.i] = a[i.o * 256 + i.i] + b[i.o * 256 + i.i]   # S0(i.o * 256 + i.i)"
    )


def test_split_of_a_known_multiple_has_no_guard() -> None:
    assert body("vecadd", "specialize(n % 512 == 0)\nsplit(i, 256)") == (
        "for i.o in 0..n // 256:   # parallel\n"
        "  for i.i in 0..256:   # parallel\n"
        "    c[i.o * 256 + i.i] = a[i.o * 256 + i.i] + b[i.o * 256 + i.i]   # S0(i.o * 256 + i.i)"
    )


@pytest.mark.parametrize("factor", [2, 3, 7, 64])
def test_split_covers_each_instance_once(factor: int) -> None:
    kernel = applied("vecadd", f"split(i, {factor})").kernel
    for n in (1, factor - 1, factor, factor + 1, 3 * factor):
        assert_same(KERNELS["vecadd"](), kernel, n)


def test_split_twice_keeps_one_index() -> None:
    text = body("vecadd", "specialize(n % 1024 == 0)\nsplit(i, 256)\nsplit(i.i, 4)")
    assert "c[i.o * 256 + i.i.o * 4 + i.i.i]" in text
    assert "if " not in text


def test_results_may_take_the_loops_own_name() -> None:
    text = body("vecadd", "i, lane = split(i, 4)")
    assert text.startswith("for i in 0..(n + 3) // 4:   # parallel\n  for lane in 0..4:")
    assert "S0(i * 4 + lane)" in text


def test_groups_name_the_parts_of_every_loop() -> None:
    result = applied("softmax", "k, v = split([c, c_2], 4)\nk2, t = split(k, 32)")
    assert result.names.groups["v"] == ("c.i", "c_2.i")
    assert result.names.groups["t"] == ("c.o.i", "c_2.o.i")


def test_a_group_of_loops_that_are_gone_says_what_became_of_them() -> None:
    with pytest.raises(
        RefusedError, match=r"c\.o of group k no longer exists: it was split into c\.o\.o and c\.o\.i"
    ):
        applied("softmax", "k, v = split([c, c_2], 4)\nsplit(k, 32)\nsplit(k, 8)")


def test_a_loop_that_is_gone_says_what_became_of_it() -> None:
    with pytest.raises(RefusedError, match=r"it was split into c\.o and c\.i"):
        applied("softmax", "split(c, 4)\nsplit(c, 4)")


def test_a_misspelt_loop_gets_the_nearest_name() -> None:
    with pytest.raises(RefusedError) as e:
        applied("softmax", "split(c_4, 4)")
    assert e.value.diagnostic.repair is not None
    assert "did you mean c" in e.value.diagnostic.repair


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("row, b = split(c, 4)", "row is already"),
        ("x, b = split(c, 4)", "x is already"),
        ("m, b = split(c, 4)", "m is already"),
        ("c_2, b = split([c, c_3], 4)", "c_2 is already a loop"),
        ("split([c, c], 4)", "listed twice"),
    ],
)
def test_names_that_are_refused(program: str, says: str) -> None:
    with pytest.raises(RefusedError, match=says) as e:
        applied("softmax", program)
    assert e.value.diagnostic.code == "E-NAME"


def test_reorder_moves_guards_inside_the_loops_that_they_need() -> None:
    text = body("transpose", "split(i, 4)\nsplit(j, 4)\nreorder([j.o, i.o, j.i, i.i])")
    assert text == (
        "for j.o in 0..(cols + 3) // 4:   # parallel\n"
        "  for i.o in 0..(rows + 3) // 4:   # parallel\n"
        "    for j.i in 0..4:   # parallel\n"
        "      if j.o * 4 + j.i < cols:\n"
        "        for i.i in 0..4:   # parallel\n"
        "          if i.o * 4 + i.i < rows:\n"
        "            y[j.o * 4 + j.i, i.o * 4 + i.i] = x[i.o * 4 + i.i, j.o * 4 + j.i]"
        "   # S0(i.o * 4 + i.i, j.o * 4 + j.i)"
    )


def test_reorder_leaves_loops_that_are_not_listed() -> None:
    text = body("transpose", "specialize(rows == 8 and cols == 8)\ntile([i, j], [4, 4])\nreorder([j.i, i.o])")
    order = [line.split()[1] for line in text.splitlines() if line.lstrip().startswith("for ")]
    assert order == ["j.i", "j.o", "i.i", "i.o"]


def test_reorder_to_the_order_that_is_changes_nothing() -> None:
    assert applied("transpose", "reorder([i, j])").kernel == KERNELS["transpose"]()


def test_tile_names_its_results_outer_loops_first() -> None:
    text = body("transpose", "a, b, p, q = tile([i, j], [8, 16])")
    order = [line.split()[1] for line in text.splitlines() if line.lstrip().startswith("for ")]
    assert order == ["a", "b", "p", "q"]
    assert "y[b * 16 + q, a * 8 + p]" in text
