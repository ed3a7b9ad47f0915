"""The tuner: fills the holes of a program by coordinate descent.

A tuning is a pure function of what its fillings have scored so far, so that a resumed run tunes on
exactly where it was. It starts from the first choice of every hole (the agent's preference), then
tries all choices of one hole after another, keeps the best, and ends when a whole pass brought
nothing, when it is far behind the best program known, or at its cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from evolve.agents.holes import Template

Filling = tuple[int, ...]

MAX_SCORED = 32
MAX_FRUITLESS = 16
HOPELESS = 0.4
"""A tuning whose best is below this share of the best known fitness ends after its first holes."""


class Wait(Enum):
    """The two answers of `next_filling` that are no filling."""

    RESULTS = "results are pending"
    DONE = "nothing is left to try"


@dataclass(frozen=True)
class Tried:
    """What became of a filling: its fitness (0 unless scored), None while pending."""

    fitness: float | None
    scored: bool = False


def next_filling(template: Template, tried: Mapping[Filling, Tried], best_known: float) -> Filling | Wait:
    """The filling to try next.

    `best_known` is the best fitness of the run: a tuning that is hopelessly behind it gives up.
    """
    current: Filling = (0,) * len(template.choices)
    if current not in tried:
        return current
    if _exhausted(tried):
        return Wait.DONE
    for _ in range(len(template.choices) + 1):
        before = current
        for hole, options in enumerate(template.choices):
            line = [(*current[:hole], value, *current[hole + 1 :]) for value in range(len(options))]
            for filling in line:
                if filling not in tried:
                    return Wait.DONE if _hopeless(tried, best_known) else filling
            fitness = [tried[filling].fitness for filling in line]
            if any(value is None for value in fitness):
                return Wait.RESULTS
            known = [value or 0.0 for value in fitness]
            best = max(known)
            if best > known[current[hole]]:
                current = line[known.index(best)]
        if current == before:
            return Wait.DONE
    return Wait.DONE


def _exhausted(tried: Mapping[Filling, Tried]) -> bool:
    scored = sum(one.scored for one in tried.values())
    return scored >= MAX_SCORED or (not scored and len(tried) >= MAX_FRUITLESS)


def _hopeless(tried: Mapping[Filling, Tried], best_known: float) -> bool:
    scored = [one.fitness or 0.0 for one in tried.values() if one.scored]
    return len(scored) >= 3 and max(scored) < HOPELESS * best_known
