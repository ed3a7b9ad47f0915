"""The `Agent` protocol: given what is known, offer programs.

An agent is a function of its context: it keeps no state between calls that changes its answers, so
a resumed run, which takes earlier answers from the event log, goes on as if never interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol


@dataclass(frozen=True)
class Parent:
    """A scored program from the archive. Times in microseconds; `gap` is its gap report."""

    proposal: int
    program: str
    fitness: float
    time_us: float
    gap: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Attempt:
    """A recent proposal and what became of it, newest last in `Context.recent`."""

    proposal: int
    program: str
    status: str
    fitness: float
    diagnostics: tuple[Mapping[str, Any], ...] = ()
    message: str = ""


@dataclass(frozen=True)
class Context:
    """What an agent may look at.

    `ask` counts the calls of this agent in the run, from 0. `kernel` is the lifted IR and `target`
    the hardware limits, for agents that reason on them. `sol` holds `time_us`, `hard_time_us` and
    `bound`. `baseline` is the kernel as given (the empty program). `legal_moves(program)` lists the
    statements that may be appended to a program, each legal, in a fixed order. Draw random numbers
    from `rng` only.
    """

    ask: int
    kernel: Any
    target: Any
    summary: str
    features: Mapping[str, Any]
    workload: Mapping[str, Any]
    sol: Mapping[str, Any]
    numerics: str
    baseline: Parent
    best: Parent
    parents: tuple[Parent, ...]
    recent: tuple[Attempt, ...]
    budget_left: int
    legal_moves: Callable[[str], Sequence[str]]
    rng: Random


@dataclass(frozen=True)
class Proposal:
    """A program to try. It may have holes, `?[64, 128]`: the search fills them, first choices first."""

    text: str
    parents: tuple[int, ...] = ()
    operator: str = "agent"
    note: str = ""


class Agent(Protocol):
    """Offers programs."""

    def propose(self, context: Context) -> Sequence[Proposal]:
        """Some programs, best hopes first; none when the agent has nothing to add."""
        ...
