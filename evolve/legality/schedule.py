"""Times of few statements, no longer than it takes to tell in which order these are.

A time has a number for each place in the text and a variable for each loop in between, whatever else the
kernel does. Of the statements that touch one buffer most of these numbers say the same, and isl's search for
last writers takes a round for each component.
"""

from __future__ import annotations

from collections.abc import Sequence

from evolve.legality.instances import Moment


def is_later(a: Moment, b: Moment) -> bool:
    """Whether all instances of `a` come after all of `b`, as the text alone says: times begin with a place in
    it, and what shares that is in one loop, or the same."""
    (first, *_), (second, *_) = a, b
    assert isinstance(first, int) and isinstance(second, int)
    return first > second


def shortened(times: Sequence[Moment]) -> list[Moment]:
    """Times of one length that are ordered as these are, where shorter ones count as followed by zeros.

    Numbers that all have at one place in one loop are left out; others are counted from 0.
    """
    out: list[list[int | str]] = [[] for _ in times]
    long = max(map(len, times), default=0)
    _shorten([(*t, *(0,) * (long - len(t))) for t in times], list(range(len(times))), 0, out)
    needed = max(map(len, out), default=0)
    return [(*t, *(0,) * (needed - len(t))) for t in out]


def _shorten(times: Sequence[Moment], group: list[int], column: int, out: list[list[int | str]]) -> None:
    """Appends what tells the times of `group` apart from `column` on; before it they are alike."""
    if column == len(times[group[0]]):
        return
    here = {times[i][column] for i in group}
    numbers = sorted(x for x in here if isinstance(x, int))
    if len(numbers) < len(here):
        # A loop around all of the group; were it not around some, none of the rest could be left out.
        alike = len(here) == 1
        for i in group:
            out[i] += times[i][column : column + 1] if alike else times[i][column:]
        if alike:
            _shorten(times, group, column + 1, out)
        return
    for rank, number in enumerate(numbers):
        part = [i for i in group if times[i][column] == number]
        if len(numbers) > 1:
            for i in part:
                out[i].append(rank)
        _shorten(times, part, column + 1, out)
