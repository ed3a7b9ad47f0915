"""JSON data as an indented outline for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def outline(value: Any, indent: int = 0) -> Iterator[str]:
    """The lines of nested mappings and lists; short lists of plain values stay on one line."""
    pad = "  " * indent
    if isinstance(value, Mapping):
        for name, item in value.items():
            if _is_plain(item):
                yield f"{pad}{name}: {_plain(item)}"
            else:
                yield f"{pad}{name}:"
                yield from outline(item, indent + 1)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            if _is_plain(item):
                yield f"{pad}- {_plain(item)}"
            else:
                lines = list(outline(item, indent + 1))
                yield f"{pad}- {lines[0].lstrip()}" if lines else f"{pad}-"
                yield from lines[1:]
    else:
        yield f"{pad}{_plain(value)}"


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return not value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return all(not isinstance(item, Mapping | list | tuple) for item in value) and len(str(value)) < 90
    return True


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return "-"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_plain(item) for item in value) or "-"
    return "-" if value is None else str(value)
