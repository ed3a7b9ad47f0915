"""How many integer points of a box satisfy linear constraints.

One loop is counted in closed form, the others are enumerated: exact for the triangular and banded domains
that kernels have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_LINES = 1 << 22
"""Domains with more lines than this are not counted."""


@dataclass(frozen=True)
class Constraint:
    """`constant` plus each loop variable times its coefficient is at least 0."""

    terms: tuple[tuple[str, int], ...]
    constant: int

    @property
    def names(self) -> frozenset[str]:
        """Loops that it mentions."""
        return frozenset(name for name, _ in self.terms)


def count_points(ranges: Mapping[str, tuple[int, int]], within: Sequence[Constraint]) -> int | None:
    """Integer points of the box (inclusive ranges) that satisfy all constraints; None when that would take
    too long."""
    import numpy as np

    involved = sorted(
        frozenset[str]().union(*(c.names for c in within)), key=lambda n: (ranges[n][1] - ranges[n][0], n)
    )
    free = 1
    for name, (low, high) in ranges.items():
        if high < low:
            return 0
        if name not in involved:
            free *= high - low + 1
    if not involved:
        return free if all(c.constant >= 0 for c in within) else 0
    *enumerated, line = involved
    lines = 1
    for name in enumerated:
        lines *= ranges[name][1] - ranges[name][0] + 1
    if lines > MOST_LINES:
        return None
    grid = np.meshgrid(*(np.arange(ranges[n][0], ranges[n][1] + 1) for n in enumerated), indexing="ij")
    at = {name: axis.ravel() for name, axis in zip(enumerated, grid, strict=True)}
    first = np.full(lines, ranges[line][0], np.int64)
    last = np.full(lines, ranges[line][1], np.int64)
    for constraint in within:
        rest = np.full(lines, constraint.constant, np.int64)
        slope = 0
        for name, c in constraint.terms:
            if name == line:
                slope = c
            else:
                rest += c * at[name]
        if slope > 0:  # line >= -rest / slope
            first = np.maximum(first, -(rest // slope))
        elif slope < 0:
            last = np.minimum(last, rest // -slope)
        else:
            last = np.where(rest >= 0, last, first - 1)
    return free * int(np.maximum(last - first + 1, 0).sum())
