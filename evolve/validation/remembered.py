"""What device functions were found to do, by their whole text and the shape of the block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from evolve.validation.integers import Shape
from evolve.validation.parts import calls_in
from evolve.validation.text import Function
from evolve.validation.verdict import DifferenceError, UnreadError

Found = TypeVar("Found")
_MOST = 256
_known: dict[tuple[str, str, Shape], Any] = {}


def remembered(what: str, f: Function, block: Shape, find: Callable[[], Found]) -> Found:
    """What `find` gives, or the DifferenceError or UnreadError that it raises, with the function's name."""
    key = (what, whole_text(f), block)
    if key not in _known:
        if len(_known) > _MOST:
            _known.clear()
        try:
            _known[key] = find()
        except (UnreadError, DifferenceError) as e:
            _known[key] = e.with_traceback(None)
    found = _known[key]
    if isinstance(found, UnreadError | DifferenceError):
        raise type(found)(f"{f.name}: {found.reason}")
    return found  # type: ignore[no-any-return]


def whole_text(f: Function) -> str:
    """The text of a function and of those that it calls."""
    return "\n".join([f.text, *(whole_text(c.definition) for c in calls_in(f.body) if c.definition)])
