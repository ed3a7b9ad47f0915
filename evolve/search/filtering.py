"""The pre-filter over a run's log: what a result says to it, and its balance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast, get_args

from evolve.events.schema import Result
from evolve.search.prefilter import Action, Prefilter, Saved, Seen

DECIDED = frozenset(("scored", "incorrect", "quarantined", "prefiltered"))
"""What a candidate may be that was decided on."""
_ACTIONS = get_args(Action)
_LONGEST_US = 1e15


def seen_of(result: Result) -> Seen | None:
    """What a result says; None where nothing was decided. A log that was edited may say anything."""
    decision = result.detail.get("prefilter")
    if result.status not in DECIDED or not isinstance(decision, dict):
        return None
    said = decision.get("action")
    action = cast(Action, said) if said in _ACTIONS else "measure"
    time_us = result.time_us if result.status == "scored" else None
    return Seen(result.proposal, _time(result.detail.get("estimated_us")), time_us, action)


def _time(value: object) -> float | None:
    """A number of microseconds, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < _LONGEST_US else None


def saved(seed: int, results: Iterable[Result]) -> Saved | None:
    """The balance of a run; None where nothing was ever decided."""
    seen = [one for one in map(seen_of, results) if one is not None]
    return Prefilter(seed, seen=seen).saved() if seen else None
