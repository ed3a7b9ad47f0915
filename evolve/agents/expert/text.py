"""Writing programs: statements, groups and holes as text."""

from __future__ import annotations

from collections.abc import Sequence


def group(names: Sequence[str]) -> str:
    """One name bare, several in brackets."""
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def choice(values: Sequence[int]) -> str:
    """A number, or a hole over several with the favourite first."""
    return str(values[0]) if len(values) == 1 else f"?[{', '.join(map(str, values))}]"


def program(*statements: str | None) -> str:
    """Lines, absent ones left out."""
    return "\n".join(s for s in statements if s) + "\n"


def each(suffix: str, names: Sequence[str]) -> list[str]:
    """The names with a path suffix."""
    return [f"{n}.{suffix}" for n in names]


def call(primitive: str, names: Sequence[str], *more: str | int) -> str | None:
    """`primitive(names, more…)`; None without names."""
    return f"{primitive}({', '.join([group(names), *map(str, more)])})" if names else None


def in_order(present: Sequence[str], wanted: Sequence[str]) -> str | None:
    """A `reorder` of a nest; None when it has the order already."""
    return None if list(present) == list(wanted) else call("reorder", wanted)
