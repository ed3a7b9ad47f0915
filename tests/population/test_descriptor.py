"""Cells say what a program does, not with which numbers or names."""

from __future__ import annotations

import pytest

from evolve.population.descriptor import structural_cell
from evolve.population.lineage import ancestors


@pytest.mark.parametrize(
    ("program", "cell"),
    [
        ("", ()),
        (
            "co, ci = split(c, 64)\nbind(co, grid.x)\nbind(ci, thread.x)",
            ("bind:grid.x", "bind:thread.x", "split"),
        ),
        ("stage(x, at=ko, scope=shared)", ("stage:shared",)),
        ("# split(c, 4)\nunroll(k)  # bind(k, grid.x)", ("unroll",)),
    ],
)
def test_cells(program: str, cell: tuple[str, ...]) -> None:
    assert structural_cell(program) == cell


def test_numbers_names_and_order_do_not_matter() -> None:
    one = "a, b = split(c, 64)\nvectorize(b, 4)\n"
    other = "vectorize(k, 2)\nx, y = split(r, 8)\n"
    assert structural_cell(one) == structural_cell(other)


def test_ancestors_survive_cycles_in_an_untrusted_log() -> None:
    assert ancestors(5, {5: (3, 4), 4: (1,), 3: (1,), 1: (0,)}) == (0, 1, 3, 4)
    assert ancestors(2, {2: (1,), 1: (2,)}) == (1,)
