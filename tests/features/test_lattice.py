from itertools import product

import pytest

from evolve.features.lattice import MOST_LINES, Constraint, count_points

RANGES = {"i": (0, 9), "j": (2, 14), "k": (0, 3)}


@pytest.mark.parametrize(
    "within",
    [
        [Constraint((("i", 1), ("j", -1)), 0)],
        [Constraint((("j", 1), ("i", -2)), -3), Constraint((("i", 1),), -1)],
        [Constraint((("i", 1), ("j", -1)), 3), Constraint((("i", -1), ("j", 1)), 3)],
        [Constraint((("i", 3), ("j", -2), ("k", 1)), -1)],
        [Constraint((("i", 1), ("j", 1)), -1000)],
        [Constraint((("i", 1), ("j", -1)), 0), Constraint((), -1)],
    ],
)
def test_it_counts_what_enumeration_counts(within: list[Constraint]) -> None:
    found = 0
    for point in product(*(range(low, high + 1) for low, high in RANGES.values())):
        at = dict(zip(RANGES, point, strict=True))
        found += all(c.constant + sum(k * at[n] for n, k in c.terms) >= 0 for c in within)
    assert count_points(RANGES, within) == found


def test_a_triangle_of_any_size_is_counted_in_closed_form() -> None:
    n = 1 << 20
    below = [Constraint((("i", 1), ("j", -1)), 0)]
    assert count_points({"i": (0, n - 1), "j": (0, n - 1)}, below) == n * (n + 1) // 2


def test_too_many_lines_are_not_counted() -> None:
    n = MOST_LINES
    tied = [Constraint((("i", 1), ("j", -1), ("k", 1)), 0)]
    assert count_points({"i": (0, n), "j": (0, n), "k": (0, n)}, tied) is None
    assert count_points({"i": (0, n), "j": (0, -1), "k": (0, n)}, tied) == 0
