"""Agents by the names that `--agent` takes. Each is imported when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from evolve.agents.base import Agent, SlowAgent
from evolve.agents.portfolio.agent import AnyAgent, Portfolio
from evolve.agents.portfolio.arms import arms_of
from evolve.events.schema import Settings
from evolve.ir.errors import EvolveError

_AGENTS = {
    "expert": ("evolve.agents.expert", "Expert"),
    "human": ("evolve.agents.human.agent", "open_human"),
    "llm": ("evolve.agents.llm.open", "open_agents"),
    "random": ("evolve.agents.random", "RandomAgent"),
}
_PROMPTED = frozenset(("human",))
_NO_PROMPTS: Mapping[str, str] = MappingProxyType({})


def agent_names() -> tuple[str, ...]:
    """The agents of this installation."""
    return tuple(name for name, (module, _) in _AGENTS.items() if find_spec(module) is not None)


def split_names(text: str) -> tuple[str, ...]:
    """The agents that `--agent` names, joined by `+`. Raises EvolveError `unknown-agent`."""
    names = tuple(text.split("+"))
    known = agent_names()
    for at, name in enumerate(names):
        if name not in known:
            hint = f"agents: {', '.join(known)}; several are joined by +"
            raise EvolveError("unknown-agent", f"there is no agent {name!r}", hint=hint)
        if name in names[:at]:
            raise EvolveError("unknown-agent", f"agent {name} is named twice", hint="--model can be repeated")
    return names


def make_agent(settings: Settings, prompts: Mapping[str, str] = _NO_PROMPTS) -> AnyAgent:
    """The agent of a run, or its portfolio; `prompts` are texts of templates that replace built-in ones.

    Raises EvolveError `unknown-agent`, and for `llm` as `agents.llm.open.open_agents`.
    """
    names = split_names(settings.agent)
    arms = arms_of(settings)
    agents: dict[str, Agent | SlowAgent] = {}
    notes: list[str] = []
    asking = [arm for arm in arms if arm.agent == "llm"]
    if asking:
        # Before any other: keys leave the environment.
        opened, notes = _maker("llm")(settings, asking, prompts, needed=len(names) == 1)
        agents |= opened
    for arm in arms:
        if arm.agent in _PROMPTED:
            agents[arm.name] = _maker(arm.agent)(settings, prompts)
        elif arm not in asking:
            agents[arm.name] = _maker(arm.agent)()
    if len(arms) == 1:
        return agents[arms[0].name]
    return Portfolio(agents, notes)


def _maker(name: str) -> Callable[..., Any]:
    module, attribute = _AGENTS[name]
    made: Callable[..., Any] = getattr(import_module(module), attribute)
    return made
