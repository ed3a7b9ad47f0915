"""Memoization by kernel: what several statements ask of the last few, each found once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

from evolve.ir.kernel import Kernel

T = TypeVar("T")
_NOTES: list[tuple[Kernel, dict[Hashable, Any]]] = []
_KEPT = 8


def forget() -> None:
    """Drops what is remembered: for tests and timings."""
    _NOTES.clear()


def once(kernel: Kernel, key: Hashable, find: Callable[[], T]) -> T:
    """What `find` finds under this key, remembered for the last few kernels."""
    notes = next((known for of, known in _NOTES if of is kernel), None)
    if notes is None:
        notes = {}
        _NOTES.append((kernel, notes))
        del _NOTES[:-_KEPT]
    if key not in notes:
        notes[key] = find()
    return cast(T, notes[key])
