"""Agents by the names that `--agent` takes. Each is imported when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType

from evolve.agents.base import Agent
from evolve.events.schema import Settings
from evolve.ir.errors import EvolveError

_AGENTS = {
    "expert": ("evolve.agents.expert", "Expert"),
    "llm": ("evolve.agents.llm.open", "open_agent"),
    "random": ("evolve.agents.random", "RandomAgent"),
}
_FROM_SETTINGS = frozenset(("llm",))
_NO_PROMPTS: Mapping[str, str] = MappingProxyType({})


def agent_names() -> tuple[str, ...]:
    """The agents of this installation."""
    return tuple(name for name, (module, _) in _AGENTS.items() if find_spec(module) is not None)


def make_agent(settings: Settings, prompts: Mapping[str, str] = _NO_PROMPTS) -> Agent:
    """The agent of a run; `prompts` are texts of templates that replace built-in ones.

    Raises EvolveError `unknown-agent`, and for `llm` as `agents.llm.open.open_agent`.
    """
    name = settings.agent
    if name not in agent_names():
        known = ", ".join(agent_names())
        raise EvolveError("unknown-agent", f"there is no agent {name!r}", hint=f"agents: {known}")
    module, attribute = _AGENTS[name]
    make = getattr(import_module(module), attribute)
    agent: Agent = make(settings, prompts) if name in _FROM_SETTINGS else make()
    return agent
