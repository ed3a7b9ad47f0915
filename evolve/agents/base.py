"""The `Agent` protocol: given what is known, offer programs.

An agent is a function of its context: it keeps no state between calls that changes its answers, so
a resumed run, which takes earlier answers from the event log, goes on as if never interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol, runtime_checkable

from evolve.llm.purse import Purse
from evolve.llm.request import Waiting


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
    """A recent proposal and what became of it, newest last in `Context.recent`.

    `note` is the hypothesis and `expected` the effect that were stated with it; `against_us` is the time of
    the program that it was to improve, in microseconds. `template` is the first of the proposals that fill
    one program's holes, None where there are none.
    """

    proposal: int
    program: str
    status: str
    fitness: float
    diagnostics: tuple[Mapping[str, Any], ...] = ()
    message: str = ""
    note: str = ""
    time_us: float | None = None
    expected: str = ""
    against_us: float | None = None
    template: int | None = None


class Desk(Protocol):
    """What an agent that talks to somebody, which takes time and may fail, needs of the run. `purse` is what
    all of its models may take."""

    purse: Purse

    def tend(self) -> None:
        """Call now and then while waiting. Raises if the search is to stop."""
        ...

    def check(self, program: str) -> Sequence[Mapping[str, Any]]:
        """Why a program would be refused, holes taking their first choices; nothing if it would not."""
        ...

    def recall(self, step: int, prompt: str) -> str | None:
        """What was answered to this prompt in this step of this ask, if a process that ended has heard it."""
        ...

    def send(self, step: int, prompt: str, model: str, tokens: int, usd: float | None) -> None:
        """Puts on record that a request is sent, and the most it may take; `note` says what came of it."""
        ...

    def note(self, step: int, prompt: str, answer: str | None, **told: Any) -> None:
        """Puts an exchange on record; `told` are fields of `events.schema.Exchanged`."""
        ...


@dataclass(frozen=True)
class Context:
    """What an agent may look at.

    `ask` counts the calls of this agent in the run, from 0. `kernel` is the lifted IR and `target` the
    hardware limits, for agents that reason on them. `sol` holds `time_us`, `hard_time_us` and `bound`.
    `baseline` is the kernel as given (the empty program). `parents` are elites of one island, each of
    another cell of the archive. `hypotheses` are the latest attempts of whoever stated an `expected`
    effect. `legal_moves(program)` lists the statements that may be appended to a program, each legal, in a
    fixed order. Draw random numbers from `rng` only. `waiting` are such that have no result yet, without
    status. `beside` is how many more questions to this agent are open.
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
    desk: Desk | None = None
    hypotheses: tuple[Attempt, ...] = ()
    waiting: tuple[Attempt, ...] = ()
    beside: int = 0


@dataclass(frozen=True)
class Proposal:
    """A program to try. It may have holes, `?[64, 128]`: the search fills them, first choices first.

    `note` is what it changes and why, `expected` the effect that its author expects of that.
    """

    text: str
    parents: tuple[int, ...] = ()
    operator: str = "agent"
    note: str = ""
    expected: str = ""


class Agent(Protocol):
    """Offers programs."""

    def propose(self, context: Context) -> Sequence[Proposal]:
        """Some programs, best hopes first; none when the agent has nothing to add."""
        ...


LIMIT_REACHED = "limit-reached"
"""The code of a run's limit on what its models may take."""


class AgentFailed(Exception):  # noqa: N818  (not the search's: it goes on without)
    """Whom an agent asks gave nothing. `for_good`: nor will it, unless somebody does something.
    `code` is that of the error where the search has nobody else; after LIMIT_REACHED it first makes the most
    of what was given before."""

    def __init__(
        self, message: str, hint: str | None = None, *, for_good: bool = False, code: str = "model-failed"
    ) -> None:
        super().__init__(message)
        self.message, self.hint, self.for_good, self.code = message, hint, for_good, code


class AgentLeft(Exception):  # noqa: N818
    """Whom an agent asks has ended it: nothing more will come."""


@runtime_checkable
class SlowAgent(Protocol):
    """Offers programs after a while. Several conversations may go on at a time, beside the search."""

    def converse(self, context: Context) -> Waiting[Sequence[Proposal]]:
        """As `propose`. Raises AgentFailed or AgentLeft."""
        ...
