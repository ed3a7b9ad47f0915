"""serpentine: the exact nest that comes out, and the same meaning."""

from __future__ import annotations

import pytest

from evolve.dsl.diagnostic import RefusedError
from tests.transforms.fixtures import KERNELS, applied, assert_same
from tests.transforms.test_loops import body

TILE = "specialize(rows % 4 == 0 and cols % 8 == 0)\ntile([i, j], [4, 8])\n"


def test_every_other_iteration_runs_backwards() -> None:
    text = body("transpose", TILE + "serpentine([i.i, j.i])")
    assert text.endswith(
        "    for i.i in 0..2:   # parallel\n"
        "      for j.i in 0..8:   # parallel\n"
        "        y[j.o * 8 + j.i, i.o * 4 + i.i * 2] = x[i.o * 4 + i.i * 2, j.o * 8 + j.i]"
        "   # S0(i.o * 4 + i.i * 2, j.o * 8 + j.i)\n"
        "      for j.i.back in 0..8:   # parallel\n"
        "        y[j.o * 8 + j.i.back * -1 + 7, i.o * 4 + i.i * 2 + 1] = "
        "x[i.o * 4 + i.i * 2 + 1, j.o * 8 + j.i.back * -1 + 7]"
        "   # S0(i.o * 4 + i.i * 2 + 1, j.o * 8 + j.i.back * -1 + 7)"
    ), text


def test_one_pair_needs_no_number() -> None:
    text = body("transpose", "specialize(rows % 2 == 0)\nsplit(i, 2)\nserpentine([i.i, j])")
    assert "for i.i in 0..1:" in text and "i.i]" not in text and "i.i *" not in text


@pytest.mark.parametrize(
    "program",
    [
        TILE + "serpentine([i.i, j.i])",
        "tile([i, j], [4, 8])\nserpentine([i.i, j.i])",
        "tile([i, j], [4, 8])\nsplit(j.i, 4)\nserpentine([i.i, j.i.o, j.i.i])\nunroll(j.i.o.back)",
        "split(i, 2)\nserpentine([i.i, j])",
        "split(i, 8)\nsplit(i.i, 4)\nserpentine([i.i.o, i.i.i])\nserpentine([i.i.i, j])",
    ],
)
def test_the_meaning_stays(program: str) -> None:
    assert_same(KERNELS["transpose"](), applied("transpose", program).kernel, 11, 21)


def test_extents_that_depend_on_a_loop_of_the_nest() -> None:
    with pytest.raises(RefusedError) as e:
        applied("triangle", "split(i, 2)\nserpentine([i.i, j])")
    assert e.value.diagnostic.code == "E-REORDER-BOUND"
