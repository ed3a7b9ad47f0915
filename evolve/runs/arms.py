"""What each agent of a run, and each model, was asked, cost and gained: a fold over the state of a search."""

from __future__ import annotations

from typing import Any

from evolve.agents.portfolio.arms import arms_of
from evolve.agents.portfolio.bandit import Rates, failures, standings
from evolve.search.state import SearchState

OPERATORS = "mutation and crossover"


def shares(state: SearchState) -> list[dict[str, Any]]:
    """One entry an arm, and one for the operators, whose share is what came of no arm.

    `programs` were brought into work, of `asks`, of which `failed` gave none because of a fault; `share` is
    the part of all programs. `gain` is by how much its programs raised the best fitness, each above the
    champion before. `cost` is the mean of an ask, and `worth` what the bandit expects of one per cost now
    (`agents.portfolio.bandit`; both None for operators), `failing` how often it has failed in a row.
    """
    assert state.settings is not None
    arms = [arm.name for arm in arms_of(state.settings)]
    pulls = list(state.pulls.values())
    known = standings(arms, pulls, Rates.of(state.settings))
    rows: dict[str, dict[str, Any]] = {
        arm: {
            "arm": arm,
            "asks": sum(pull.arm == arm for pull in pulls),
            "failed": sum(pull.arm == arm and pull.failed in ("fault", "for-good") for pull in pulls),
            "tokens": sum(pull.tokens for pull in pulls if pull.arm == arm),
            "usd": _usd([pull.usd for pull in pulls if pull.arm == arm]),
            "cost": known[arm].cost,
            "worth": known[arm].worth,
            "failing": failures(arm, pulls),
        }
        for arm in arms
    }
    rows[OPERATORS] = {
        "arm": OPERATORS,
        "asks": state.asks - sum(row["asks"] for row in rows.values()),
        **dict.fromkeys(("failed", "tokens", "failing"), 0),
        **dict.fromkeys(("usd", "cost", "worth")),
    }
    for row in rows.values():
        row |= {"programs": 0, "scored": 0, "champions": 0, "gain": 0.0}
    for number in state.proposals:
        row = rows[_origin(state, number)]
        row["programs"] += 1
        result = state.results.get(number)
        row["scored"] += result is not None and result.status == "scored"
    best = state.fitness_of(0)
    for number in state.champions:
        row = rows[_origin(state, number)]
        row["champions"] += 1
        row["gain"] += state.fitness_of(number) - best
        best = state.fitness_of(number)
    for row in rows.values():
        row["share"] = row["programs"] / max(1, len(state.proposals))
    return list(rows.values())


def _origin(state: SearchState, number: int) -> str:
    """Whose idea a proposal was."""
    pull = state.pulls.get(state.proposals[number].ask)
    return pull.arm if pull is not None and number in pull.proposals else OPERATORS


def _usd(costs: list[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None
