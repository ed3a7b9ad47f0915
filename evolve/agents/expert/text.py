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


def same_size(names: Sequence[str], sizes: dict[str, int]) -> str:
    """`a == 1 and b == 2` for the given scalars."""
    return " and ".join(f"{n} == {sizes[n]}" for n in names)


def multiples(needs: dict[str, int]) -> str:
    """`a % 4 == 0 and …` without the trivial ones; empty when nothing is needed."""
    return " and ".join(f"{n} % {d} == 0" for n, d in needs.items() if d > 1)
