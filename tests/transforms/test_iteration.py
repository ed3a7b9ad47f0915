"""shift, skew, collapse, peel: the exact nests that come out, and the same meaning at any size."""

from __future__ import annotations

import pytest

from tests.transforms.fixtures import KERNELS, applied, assert_same
from tests.transforms.test_loops import body

SIZES = ((1, 1, 1), (2, 3, 4), (7, 5, 6), (12, 24, 9))


def test_shift_counts_from_the_number_given() -> None:
    assert body("stencil", "shift(j, 1)").startswith(
        "for i in 0..rows + -2:   # parallel\n"
        "  for j in 0..cols + -1:   # parallel\n"
        "    if j >= 1:\n"
        "      y[i + 1, j] = "
    )


def test_skew_begins_later_in_each_row() -> None:
    assert body("transpose", "skew([i, j], by=2)\nreorder([j, i])") == (
        "for j in 0..cols + rows * 2 + -2:   # parallel\n"
        "  for i in 0..rows:   # parallel\n"
        "    if j + i * -2 >= 0:\n"
        "      if j + i * -2 < cols:\n"
        "        y[j + i * -2, i] = x[i, j + i * -2]   # S0(i, j + i * -2)"
    )


def test_collapse_makes_quotients_and_remainders() -> None:
    assert body("transpose", "specialize(cols == 24)\nv = collapse([i, j])") == (
        "for v in 0..rows * 24:   # parallel\n"
        "  y[v mod 24, v // 24] = x[v // 24, v mod 24]   # S0(v // 24, v mod 24)"
    )


def test_collapse_keeps_guards_and_the_order_of_a_reduction() -> None:
    text = body("matmul", "specialize(K == 6)\nsplit(i, 4)\ncollapse([i.o, i.i])")
    assert text.startswith("for i.o.i.i in 0..(M + 3) // 4 * 4:   # parallel\n  if i.o.i.i < M:\n")


def test_peel_leaves_each_iteration_in_one_piece() -> None:
    text = body("softmax", "a, b, z = peel(c_3, first=2, last=2)")
    assert "for a in 0..2:\n    if a < cols:\n" in text
    assert "for b in 0..cols + -4:\n    y[row, b + 2]" in text
    assert "for z in 0..2:\n    if cols + z + -2 >= 2:\n      y[row, cols + z + -2]" in text


def test_peeled_copies_have_their_own_loops_and_buffers() -> None:
    kernel = applied("matmul", "split(i, 2)\npeel(i.o, first=1, last=1)").kernel
    for sizes in SIZES:
        assert_same(KERNELS["matmul"](), kernel, *sizes)


@pytest.mark.parametrize(
    ("kernel", "program"),
    [
        ("matmul", "shift([i, k], 7)\nsplit(i, 4)"),
        ("matmul", "skew([i, j], 3)\nsplit(j, 4)\nreorder([j.o, i, j.i])"),
        ("transpose", "specialize(cols == 24)\ncollapse([i, j])\nsplit(i.j, 5)"),
        ("softmax", "peel(row, first=2)\npeel(c_2, first=3, last=4)"),
        ("transpose", "specialize(cols == 24)\ni = collapse([i, j])\nsplit(i, 64)"),
        ("running", "peel(c, first=1, last=1)\nsplit(c.main, 4)"),
    ],
)
def test_the_meaning_stays(kernel: str, program: str) -> None:
    result = applied(kernel, program).kernel
    for sizes in SIZES:
        assert_same(KERNELS[kernel](), result, *sizes)
