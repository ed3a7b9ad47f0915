"""When a search ends."""

from __future__ import annotations

from evolve.events.schema import Settings, StopReason
from evolve.search.state import SearchState

PROPOSALS_PER_CANDIDATE = 20
MAX_BARREN = 200


def reserve(settings: Settings, *, measured: bool) -> int:
    """The part of the budget kept for the champion protocol: 5 % where times are measured."""
    return settings.budget // 20 if measured else 0


def spent(state: SearchState, settings: Settings, *, measured: bool) -> int:
    """Budget used: scored candidates and comparisons, of which the reserve counts from the start."""
    return state.scored + max(state.compared, reserve(settings, measured=measured))


def patience(settings: Settings) -> int:
    """Scored candidates without a better champion after which a search is stale."""
    return settings.patience or max(48, settings.budget // 2)


def stop_reason(state: SearchState, settings: Settings, *, measured: bool) -> StopReason | None:
    """The rule that ends the search now, if any.

    Budget; `T <= (1 + epsilon) T_attainable`, in terms of fitness; stagnation; or exhaustion: 20
    times the budget in proposals, or 200 asks and proposals in a row with nothing new.
    """
    if spent(state, settings, measured=measured) >= settings.budget:
        return "budget"
    if state.best_fitness * (1 + settings.epsilon) >= 1:
        return "speed_of_light"
    if state.stale >= patience(settings):
        return "stagnation"
    if state.funnel["proposed"] >= PROPOSALS_PER_CANDIDATE * settings.budget or state.barren >= MAX_BARREN:
        return "exhausted"
    return None
