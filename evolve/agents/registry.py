"""Agents by the names that `--agent` takes. Each is imported when asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from evolve.agents.base import Agent
from evolve.ir.errors import EvolveError

_AGENTS = {
    "expert": ("evolve.agents.expert", "Expert"),
    "random": ("evolve.agents.random", "RandomAgent"),
}


def agent_names() -> tuple[str, ...]:
    """The agents of this installation."""
    return tuple(name for name, (module, _) in _AGENTS.items() if find_spec(module) is not None)


def make_agent(name: str) -> Agent:
    """The agent of that name. Raises EvolveError `unknown-agent`."""
    if name not in agent_names():
        known = ", ".join(agent_names())
        raise EvolveError("unknown-agent", f"there is no agent {name!r}", hint=f"agents: {known}")
    module, cls = _AGENTS[name]
    agent: Agent = getattr(import_module(module), cls)()
    return agent
