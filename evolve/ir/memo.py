"""Remembering what is found of a tree, for trees that share most of their parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
_ALL: list[dict[int, Any]] = []


def forget() -> None:
    """Drops what is remembered: for tests and timings."""
    for known in _ALL:
        known.clear()


def by_object(f: Callable[[T], R], most: int = 16384) -> Callable[[T], R]:
    """`f` asked once for each object, which is kept so that its number stays its own.

    For what never changes. Kernels share most statements with what they were made from, and to compare them
    takes longer than to look again.
    """
    known: dict[int, tuple[T, R]] = {}
    _ALL.append(known)

    @wraps(f)
    def remembered(x: T) -> R:
        found = known.get(id(x))
        if found is None:
            result = f(x)
            if len(known) >= most:
                known.clear()
            found = known[id(x)] = (x, result)
        return found[1]

    return remembered
