"""The arms of a run: its agents, and each model of the agent `llm`, from the settings alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from evolve.events.schema import Settings

AT_ONCE = 2
"""Asks of one model that may be open at a time: one is answered while the programs of the other are timed."""


@dataclass(frozen=True)
class Arm:
    """`name` is what events call it, `agent` its entry in `agents.registry`.

    `at_once` asks may be open at a time; with 0 it answers at once. One that is `informed` is asked only when
    everything that was proposed has its result.
    """

    name: str
    agent: str
    model: str | None = None
    api_base: str | None = None
    at_once: int = 0
    informed: bool = False


def arms_of(settings: Settings) -> tuple[Arm, ...]:
    """In the order in which they are named."""
    arms: list[Arm] = []
    for agent in settings.agent.split("+"):
        if agent == "llm":
            arms += _models(settings)
        else:
            arms.append(Arm(agent, agent, at_once=int(agent == "human"), informed=agent == "human"))
    return tuple(arms)


def _models(settings: Settings) -> list[Arm]:
    if not settings.models:
        return [Arm("llm", "llm", settings.model, settings.api_base, AT_ONCE)]
    bases = settings.api_bases or ("",) * len(settings.models)
    arms, seen = [], Counter[str]()
    for model, base in zip(settings.models, bases, strict=True):
        seen[model] += 1
        name = model if seen[model] == 1 else f"{model} ({seen[model]})"
        arms.append(Arm(name, "llm", model, base or None, AT_ONCE))
    return arms
