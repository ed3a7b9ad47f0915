"""What was expected of programs and what came of it: a fold over proposals and results."""

from __future__ import annotations

from typing import Any

from evolve.llm.effects import read_factor
from evolve.search.state import SearchState


def effect(state: SearchState, number: int) -> float | None:
    """How many times as fast as the program that it was to improve, or the kernel as given, a proposal is.

    None for one that has no time.
    """
    result = state.results.get(number)
    if result is None or result.status != "scored" or not result.time_us:
        return None
    parents = state.proposals[number].parents
    return state.parent(parents[0] if parents else 0).time_us / result.time_us


def effects(state: SearchState) -> list[dict[str, Any]]:
    """An entry for each proposal that came with an expected effect and has a result: what was expected, as
    text and as a factor if it states one, and what came of it, as a status and a factor if it has a time."""
    return [
        {
            "candidate": number,
            "hypothesis": proposed.note,
            "expected": proposed.expected,
            "expected_factor": read_factor(proposed.expected),
            "status": state.results[number].status,
            "actual_factor": effect(state, number),
        }
        for number, proposed in state.proposals.items()
        if proposed.expected and number in state.results
    ]
