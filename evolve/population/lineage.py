"""Who descends from whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def ancestors(proposal: int, parents: Mapping[int, Sequence[int]]) -> tuple[int, ...]:
    """All ancestors of a proposal, oldest first, itself excluded. Unknown parents are kept, cycles cut."""
    found: set[int] = set()
    pending = list(parents.get(proposal, ()))
    while pending:
        one = pending.pop()
        if one not in found and one != proposal:
            found.add(one)
            pending.extend(parents.get(one, ()))
    return tuple(sorted(found))
