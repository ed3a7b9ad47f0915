"""What device functions were found to do, by their whole text and the shape of the block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from evolve.validation.integers import Shape
from evolve.validation.text import Function, Invoke
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
    return "\n".join([f.text, *(whole_text(g) for g in _called(f.body))])


def _called(part: Any) -> Iterator[Function]:
    if isinstance(part, tuple):
        for x in part:
            yield from _called(x)
    elif isinstance(part, Invoke):
        if part.definition is not None:
            yield part.definition
        yield from _called(part.args)
    elif hasattr(part, "__dataclass_fields__") and not isinstance(part, Function):
        for name in part.__dataclass_fields__:
            yield from _called(getattr(part, name))
