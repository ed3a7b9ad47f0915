"""The agents of a run by the names of their arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from evolve.agents.base import Agent, SlowAgent
from evolve.agents.portfolio.arms import Arm


class Portfolio:
    """Holds agents. `notes` are what a person should know before the run: who does not answer, and why;
    `probes` what was found out about models."""

    def __init__(self, agents: Mapping[str, Agent | SlowAgent], notes: Sequence[str] = ()) -> None:
        self.agents, self.notes = agents, tuple(notes)
        self.probes = tuple(probe for agent in agents.values() for probe in getattr(agent, "probes", ()))

    def close(self) -> None:
        """Closes those that have something to close."""
        with ExitStack() as stack:
            for agent in self.agents.values():
                close = getattr(agent, "close", None)
                if close is not None:
                    stack.callback(close)


AnyAgent = Agent | SlowAgent | Portfolio
"""What a run can be given."""


def by_arm(agent: AnyAgent, arms: Sequence[Arm]) -> Mapping[str, Agent | SlowAgent]:
    """The agents by arm; one agent is that of the only arm."""
    if isinstance(agent, Portfolio):
        return agent.agents
    (arm,) = arms
    return {arm.name: agent}
