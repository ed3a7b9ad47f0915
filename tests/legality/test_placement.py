"""A swizzle that is accepted puts every element in a place of its own, together with its group."""

from __future__ import annotations

import pytest

from evolve.ir.evaluate import evaluate
from evolve.ir.expr import var
from evolve.ir.layout import misplaced
from evolve.ir.swizzle import Swizzle


@pytest.mark.parametrize("columns", [8, 12, 16, 24, 32, 48])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("groups", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("rows", [1, 3, 4])
def test_against_the_whole_tile(columns: int, width: int, groups: int, rows: int) -> None:
    swizzle = Swizzle(width, groups, rows)
    address = swizzle.column(var("r"), var("c"))
    lies = {
        (r, c): (r, evaluate(address, {"r": r, "c": c}))
        for r in range(3 * rows * groups)
        for c in range(columns)
    }
    inside = all(0 <= c < columns for _, c in lies.values())
    apart = len(set(lies.values())) == len(lies)
    together = all(
        at[1] == lies[r, c // width * width][1] + c % width and lies[r, c // width * width][1] % width == 0
        for (r, c), at in lies.items()
    )
    assert (misplaced(swizzle, columns) is None) == (inside and apart and together)


def test_powers_of_two_that_divide_the_columns_are_accepted() -> None:
    for columns in (32, 64, 96):
        for width in (1, 2, 4):
            for groups in (2, 4, 8):
                assert misplaced(Swizzle(width, groups, 4), columns) is None
