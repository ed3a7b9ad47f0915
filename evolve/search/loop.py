"""The loop: numbered proposals, a fixed look-ahead, results folded in the order of proposals.

When proposal n is made, exactly the results of the proposals up to n - look_ahead or more are
known: how many follows from the state alone, never from which worker was fast. So the number of
workers and the order in which they finish change nothing. When a slow agent answers does: it is on record.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evolve.agents.holes import read_template
from evolve.agents.portfolio.agent import AnyAgent, by_arm
from evolve.agents.portfolio.arms import arms_of
from evolve.events.schema import (
    Body,
    Champion,
    Compared,
    Paused,
    Proposed,
    Result,
    Stopped,
    StopReason,
    as_json,
)
from evolve.ir.errors import EvolveError
from evolve.llm.purse import Purse
from evolve.population.descriptor import structural_cell
from evolve.search.asking import Asker
from evolve.search.desk import RunDesk
from evolve.search.filtering import seen_of
from evolve.search.journal import Journal
from evolve.search.prefilter import Prefilter
from evolve.search.problem import Compiled, Problem, ProblemInfo
from evolve.search.state import SearchState, Tuning
from evolve.search.stops import spent, stop_reason
from evolve.search.tuning import Wait, next_filling
from evolve.search.workers import Evaluator, Outcome

_MAX_FAULTS_IN_A_ROW = 20
_POLL_S = 0.02
"""How often a search that has nothing else to do looks for an answer."""
_NOTICED = 1.0025
"""Half of what a duel asks for: with less it would hardly be won."""


class Interrupted(Exception):  # noqa: N818  (not an error: the user's wish)
    """The user asked the search to stop."""


@dataclass(frozen=True)
class _Pending:
    """An issued proposal. `result` is set where nothing need be evaluated."""

    proposal: int
    program: str
    key: str | None
    result: Result | None


class Search:
    """One search over one problem.

    `state` must already hold the events before the first ask (RunStarted, Baseline). `store` keeps a
    text as a blob and returns its name, `load` gives it back. `purse` is what models may take. `problem` and
    `evaluator` may be None for a replay.
    """

    def __init__(
        self,
        *,
        state: SearchState,
        journal: Journal,
        info: ProblemInfo,
        agent: AnyAgent | None,
        problem: Problem[Any] | None,
        evaluator: Evaluator | None,
        store: Callable[[str], str],
        load: Callable[[str], str] | None = None,
        purse: Purse | None = None,
        on_champion: Callable[[int, str, str], None] = lambda proposal, program, source: None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        assert state.settings is not None and state.baseline is not None
        self.state, self.settings = state, state.settings
        self._journal, self._info = journal, info
        self._problem, self._evaluator = problem, evaluator
        self._load, self._purse = load, purse or Purse()
        self._store, self._on_champion, self._interrupted = store, on_champion, interrupted
        self._measured = info.device.timing == "measured"
        early = self.settings.early
        self._early = (self.settings.look_ahead // 2 if self._measured else 0) if early is None else early
        self._pending: deque[_Pending] = deque()
        self._faults = 0
        self._filter = Prefilter(self.settings.seed)
        self._moves: dict[str, tuple[str, ...]] = {}
        arms = arms_of(self.settings)
        agents = None if agent is None or problem is None else by_arm(agent, arms)
        self._asker = Asker(state, journal, info, arms, agents, self._legal_moves, self._desk)

    def run(self) -> str:
        """Searches until a rule ends it; returns the reason, `interrupted`, or `replayed`.

        `replayed` means that a log without a writer has no events left. Raises EvolveError if
        nothing can be scored any more or nothing can be written; the run can be resumed.
        """
        try:
            while True:
                self._check_interrupt()
                self._check_replay()
                arrived = self._asker.arrival()
                if arrived is not None:
                    self._emit(arrived)
                    continue
                reason = self._reason()
                if reason is None and self._may_issue() and self._issue():
                    self._feed()
                    continue
                if self._pending:
                    self._fold(self._pending.popleft())
                elif reason is not None:
                    # Reached with nothing pending: what was paid for has been folded.
                    self._emit(Stopped(reason=reason))
                    return reason
                elif self.state.open:
                    self._wait()
        except _ReplayEnds:
            return "replayed"
        except Interrupted:
            self._journal.note(Paused(reason="interrupted"))
            return "interrupted"
        finally:
            self._asker.close()

    def _reason(self) -> StopReason | None:
        if self._asker.over:
            return "ended"
        return stop_reason(self.state, self.settings, measured=self._measured)

    def _wait(self) -> None:
        """For an answer: there is nothing else to do."""
        if self._journal.replaying:
            raise self._journal.diverged(f"nothing before the answer to ask {min(self.state.open)}")
        time.sleep(_POLL_S)

    def _emit(self, body: Body) -> None:
        self._check_replay()
        self._journal.emit(body)
        self.state.apply(body)

    def _check_replay(self) -> None:
        if self._journal.at_end:
            raise _ReplayEnds

    def _check_interrupt(self) -> None:
        if self._interrupted():
            raise Interrupted

    def _may_issue(self) -> bool:
        left = self.settings.budget - spent(self.state, self.settings, measured=self._measured)
        return len(self._pending) < min(self.settings.look_ahead, left)

    def _issue(self) -> bool:
        """Makes the next proposal or asks for some; False if a result or an answer has to come first."""
        proposed = self._from_queue()
        if proposed is None and self.state.asks >= self.settings.islands:
            # Not earlier: every island's first ideas are tried before the holes of any are tuned.
            proposed = self._from_tunings()
        if proposed is None:
            waiting = any(not tuning.done for tuning in self.state.tunings.values())
            if waiting and len(self._pending) > self._early and self.state.asks >= self.settings.islands:
                return False  # asking before the tunings have answered would ask with old knowledge
            if self.state.fruitless and (self._pending or self.state.open):
                return False  # who had nothing to offer is asked again when something is new
            return self._ask()
        self._emit(proposed)
        self._pending.append(self._begin(proposed))
        return True

    def _from_queue(self) -> Proposed | None:
        if not self.state.queue:
            return None
        number, island, idea = self.state.queue[0]
        proposal = self.state.funnel["proposed"] + 1
        tuning = Tuning(proposal, number, island, idea, read_template(idea.program))
        return self._filled(tuning, (0,) * len(tuning.template.choices))

    def _from_tunings(self) -> Proposed | None:
        """The next filling of the most promising tuning that has one."""
        alive = [
            (-max((one.fitness or 0.0 for one in tried.values()), default=0.0), tuning.number, tuning, tried)
            for tuning in self.state.tunings.values()
            if not tuning.done
            for tried in (self.state.tried(tuning),)
        ]
        for _, _, tuning, tried in sorted(alive, key=lambda entry: entry[:2]):
            filling = next_filling(tuning.template, tried, self.state.best_fitness)
            if filling is Wait.DONE:
                tuning.done = True
            elif not isinstance(filling, Wait):
                return self._filled(tuning, filling)
        return None

    def _filled(self, tuning: Tuning, filling: tuple[int, ...]) -> Proposed:
        idea = tuning.idea
        return Proposed(
            proposal=self.state.funnel["proposed"] + 1,
            ask=tuning.ask,
            island=tuning.island,
            program=tuning.template.fill(filling),
            operator=idea.operator,
            parents=idea.parents,
            note=idea.note,
            expected=idea.expected,
            template=tuning.number if filling else None,
            filling=filling or None,
        )

    def _ask(self) -> bool:
        """Asks for programs; False if whom to ask cannot be asked yet."""
        event = self._asker.next()
        if event is not None:
            self._emit(event)
        return event is not None

    def _tend(self) -> None:
        self._check_interrupt()
        self._feed()

    def _feed(self) -> None:
        if self._evaluator is not None:
            self._evaluator.tend(self.state.modules.__contains__, self._filter.decide)

    def _legal_moves(self, text: str) -> tuple[str, ...]:
        assert self._problem is not None
        self._check_interrupt()
        if text not in self._moves:
            self._moves[text] = tuple(self._problem.legal_moves(text))
            self._tend()
        return self._moves[text]

    def _desk(self, ask: int) -> RunDesk:
        def check(text: str) -> Compiled:
            assert self._evaluator is not None
            return self._evaluator.explain(text, self._tend)

        return RunDesk(ask, self._journal, self._store, self._load, self._tend, check, self._purse)

    def _begin(self, proposed: Proposed) -> _Pending:
        """Parses, deduplicates and hands to the evaluator a proposal that has no result on record."""
        number = proposed.proposal
        recorded = self._journal.recorded_result(number)
        if recorded is not None:
            return _Pending(number, proposed.program, recorded.key, recorded)
        if self._problem is None or self._evaluator is None:
            return _Pending(number, proposed.program, None, None)
        try:
            canonical = self._problem.canonical(self._problem.parse(proposed.program))
        except EvolveError as error:
            diagnostic = {"code": error.code, "message": error.message, "line": error.line}
            result = Result(proposal=number, status="unparsable", diagnostics=(diagnostic,))
            return _Pending(number, proposed.program, None, result)
        key = hashlib.sha256(canonical.encode()).hexdigest()[:16]
        pending = {one.key: one.proposal for one in reversed(self._pending)}
        twin = self.state.keys.get(key, pending.get(key))
        if twin is not None:
            result = Result(proposal=number, status="duplicate", key=key, same_as=twin)
            return _Pending(number, proposed.program, key, result)
        self._evaluator.start(number, proposed.program)
        return _Pending(number, proposed.program, key, None)

    def _fold(self, pending: _Pending) -> None:
        result = pending.result
        if result is None:
            if self._evaluator is None:
                raise self._journal.diverged(f"the result of proposal {pending.proposal}")
            outcome = self._evaluator.finish(
                pending.proposal, self.state.modules.__contains__, self._check_interrupt, self._filter.decide
            )
            result = self._judge(pending, outcome)
        self._emit(result)
        seen = seen_of(result)
        if seen is not None:
            self._filter.observe(seen)
        while result.status == "scored" and self._may_lead(result) and self._challenge(pending, result):
            pass  # the incumbent was found wrong: what it had beaten leads again

    def _may_lead(self, result: Result) -> bool:
        """Whether it is worth a duel; where times are measured, by more than they vary."""
        least = _NOTICED * self.state.to_beat if self._measured else self.state.best_fitness
        return result.proposal != self.state.champion and result.fitness > least

    def _judge(self, pending: _Pending, outcome: Outcome) -> Result:
        """The result event of an outcome."""
        self._faults = self._faults + 1 if outcome.fault else 0
        compiled, score = outcome.compiled, outcome.score
        if self._faults >= _MAX_FAULTS_IN_A_ROW:
            what = score.message if score else compiled.diagnostics[-1]["message"]
            message = f"{self._faults} programs in a row hit internal errors: {what}"
            raise EvolveError("internal-faults", message)
        common: dict[str, Any] = {"proposal": pending.proposal, "key": pending.key}
        if compiled.verdict != "PROVED":
            diagnostics = tuple(dict(one) for one in compiled.diagnostics)
            return Result(status="illegal", verdict=compiled.verdict, diagnostics=diagnostics, **common)
        common |= {"verdict": "PROVED", "module": compiled.module_hash}
        twin = self.state.modules.get(compiled.module_hash or "")
        if twin is not None:
            return Result(status="duplicate", same_as=twin, **common)
        if score is None:
            message = f"proposal {pending.proposal} has neither a score nor a twin"
            raise EvolveError("internal-faults", message)
        if score.source is not None:
            common["source"] = self._store(score.source)
        cell = score.cell if score.cell is not None else structural_cell(pending.program)
        return Result(
            status=score.status,
            time_us=score.time_us,
            fitness=score.fitness if score.status == "scored" else 0.0,
            cell=cell,
            gap=dict(score.gap),
            detail=dict(score.detail) | ({"premises": list(compiled.premises)} if compiled.premises else {}),
            message=score.message,
            **common,
        )

    def _challenge(self, pending: _Pending, result: Result) -> bool:
        """The champion protocol: where times are measured, a challenger must win a re-measurement.

        True if the incumbent turned out to be wrong.
        """
        self._check_replay()
        champion = self.state.champion
        if self._measured:
            compared = self._journal.recorded_comparison(pending.proposal, champion)
            if compared is None:
                compared = self._compare(pending, champion)
            self._emit(compared)
            if compared.wrong == champion != 0:
                self._lead_again(self.state.champion)
                return True
            if not compared.better:
                return False
        self._emit(Champion(proposal=pending.proposal, time_us=result.time_us or 0.0, fitness=result.fitness))
        self._on_champion(pending.proposal, pending.program, result.source or "")
        return False

    def _lead_again(self, champion: int) -> None:
        """What a wrong champion had beaten, possibly the kernel as given."""
        source = self.state.results[champion].source if champion else None
        self._on_champion(champion, self.state.parent(champion).program, source or "")

    def _compare(self, pending: _Pending, champion: int) -> Compared:
        if self._evaluator is None:
            raise self._journal.diverged(f"a comparison of {pending.proposal} with {champion}")
        told = self._evaluator.compare(pending.program, self.state.parent(champion).program)
        return Compared(
            challenger=pending.proposal,
            incumbent=champion,
            challenger_us=told.first_us,
            incumbent_us=told.second_us,
            better=told.better,
            detail=as_json(told.detail),
            wrong=None if told.wrong is None else (pending.proposal, champion)[told.wrong],
            message=told.message,
        )


class _ReplayEnds(Exception):  # noqa: N818
    """A log without a writer has no more events."""
