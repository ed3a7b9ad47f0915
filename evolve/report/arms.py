"""The part that each agent and model had in a run, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def arm_lines(arms: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each that had a part, where several agents or models shared a run; else none."""
    if sum(arm["worth"] is not None for arm in arms) < 2:
        return []
    return ["who proposed:", *(f"    {_line(arm)}" for arm in arms if arm["asks"])]


def _line(arm: Mapping[str, Any]) -> str:
    parts = [
        _count(arm["asks"], "ask"),
        f"{_count(arm['programs'], 'program')} ({arm['share']:.0%})",
        f"{arm['scored']} scored",
        f"best fitness raised by {arm['gain']:.3f}"
        + (f" in {_count(arm['champions'], 'step')}" if arm["champions"] else ""),
    ]
    if arm["worth"] is not None:
        parts.append(
            f"an ask costs as much as {arm['cost']:.1f} programs timed, gain for that {arm['worth']:.3f}"
        )
    if arm["failed"]:
        parts.append(f"{arm['failed']} failed")
    return f"{arm['arm']}: {', '.join(parts)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
