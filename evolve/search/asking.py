"""Asking agents: at once, or beside the search where they take their time.

The order in which slow answers come is nobody's decision, so it is recorded: `opened` when an agent is
asked, `asked` when its answer is taken in. What the search decides in between follows from the events
before, and a log is taken back in the order in which it was written, whatever would arrive first now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evolve.agents.base import LIMIT_REACHED, Agent, AgentFailed, AgentLeft, Proposal, SlowAgent
from evolve.agents.portfolio.arms import Arm
from evolve.agents.portfolio.bandit import FAILURES, failures
from evolve.events.schema import Asked, Failed, Opened
from evolve.ir.errors import NegativeAnswerError
from evolve.llm.request import Waiting
from evolve.search.desk import RunDesk
from evolve.search.journal import Journal
from evolve.search.problem import ProblemInfo
from evolve.search.propose import Moves, Plan, ask_now, context_of, ideas_of, plan
from evolve.search.state import SearchState

Agents = Mapping[str, Agent | SlowAgent]
_GONE = ("for-good", "left")


@dataclass(frozen=True)
class _Conversation:
    island: int
    arm: str
    desk: RunDesk
    talk: Waiting[Sequence[Proposal]]


class Asker:
    """Makes the events `opened` and `asked`; the loop emits them. `agents` is None for a replay."""

    def __init__(
        self,
        state: SearchState,
        journal: Journal,
        info: ProblemInfo,
        arms: Sequence[Arm],
        agents: Agents | None,
        moves: Moves,
        desk: Callable[[int], RunDesk],
    ) -> None:
        self._state, self._journal, self._info = state, journal, info
        self._arms, self._agents = arms, agents
        self._moves, self._desk = moves, desk
        self._open: dict[int, _Conversation] = {}

    def next(self) -> Opened | Asked | None:
        """The next ask, to be emitted at once; None where an answer or a result has to come first.

        Raises EvolveError `diverged` where a log asks somebody else.
        """
        planned = plan(self._state, self._arms)
        arm = planned.arm.name if planned.arm else ""
        recorded = self._journal.recorded_ask(planned.number)
        if recorded is not None:
            if recorded.arm not in ("", arm):
                raise self._journal.diverged(f"ask {planned.number}, of {arm or 'nobody'}")
            return recorded
        if planned.waits:
            return None
        if planned.arm is not None and planned.arm.at_once:
            return self._opened(planned, planned.arm)
        if self._agents is None:
            raise self._journal.diverged("an ask")
        agent = self._agents[arm] if arm else None
        assert not isinstance(agent, SlowAgent)
        return ask_now(planned, self._state, agent, self._info, self._moves, self._desk(planned.number))

    def _opened(self, planned: Plan, arm: Arm) -> Opened:
        """Begins a conversation, which says nothing before it is gone on with."""
        if self._agents is not None and not self._journal.has_answer(planned.number):
            desk = self._desk(planned.number)
            context = context_of(planned, self._state, self._info, self._moves, desk)
            agent = self._agents[arm.name]
            assert isinstance(agent, SlowAgent)
            self._open[planned.number] = _Conversation(
                planned.island, arm.name, desk, agent.converse(context)
            )
        return Opened(ask=planned.number, island=planned.island, arm=arm.name)

    def arrival(self) -> Asked | None:
        """The answer that comes next, to be emitted at once, if there is one by now.

        Raises NegativeAnswerError `model-failed` where nobody is left to be asked.
        """
        if self._journal.replaying:
            recorded = self._journal.recorded_arrival()
            return recorded if recorded is not None and recorded.ask in self._state.open else None
        for number in sorted(self._open):
            answered = self._go_on(number)
            if answered is not None:
                del self._open[number]
                return answered
        return None

    def _go_on(self, number: int) -> Asked | None:
        """Goes on with a conversation as far as it can without waiting."""
        open_ = self._open[number]
        try:
            next(open_.talk)
        except StopIteration as end:
            return self._answer(number, end.value, "" if end.value else "nothing")
        except AgentFailed as failure:
            if self._hopeless(open_.arm, failure):
                raise NegativeAnswerError(failure.code, failure.message, hint=failure.hint) from None
            return self._answer(number, (), "for-good" if failure.for_good else "fault", failure.message)
        except AgentLeft:
            return self._answer(number, (), "left")
        return None

    def _answer(self, number: int, proposals: Sequence[Proposal], failed: Failed, why: str = "") -> Asked:
        open_ = self._open[number]
        return Asked(
            ask=number,
            island=open_.island,
            by_agent=True,
            ideas=ideas_of(proposals, self._state),
            arm=open_.arm,
            failed=failed,
            why=why,
            tokens=open_.desk.tokens,
            usd=open_.desk.usd,
        )

    def _hopeless(self, arm: str, failure: AgentFailed) -> bool:
        """Whether the search has nobody to go on with after this: every arm is gone for good, or has failed
        again and again while nothing else is left to do."""
        pulls = tuple(self._state.pulls.values())
        others = [one.name for one in self._arms if one.name != arm]
        last = {pull.arm: pull.failed for pull in pulls if pull.closed_at is not None}
        gone = failure.for_good and failure.code != LIMIT_REACHED
        if gone and all(last.get(one) in _GONE for one in others):
            return True
        assert self._state.settings is not None
        lonely = self._state.settings.search == "best-of-n" or not self._state.archive.occupied
        if not lonely or self._state.in_work or len(self._state.open) > 1:
            return False
        tripped = failure.for_good or failures(arm, pulls) + 1 >= FAILURES
        return tripped and all(last.get(one) == "left" or failures(one, pulls) >= FAILURES for one in others)

    @property
    def over(self) -> bool:
        """Whether every agent has ended it."""
        left = {pull.arm for pull in self._state.pulls.values() if pull.failed == "left"}
        return all(arm.name in left for arm in self._arms)

    def close(self) -> None:
        """Gives up what is open; a resume asks again what has no answer on record."""
        for one in self._open.values():
            one.talk.close()
        self._open.clear()
