"""The state of a search: a fold over its events.

Nothing else feeds the decisions of the loop, so the events alone can rebuild it.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import get_args

from evolve.agents.base import Attempt, Parent
from evolve.agents.holes import Template, read_template
from evolve.agents.portfolio.bandit import Pull
from evolve.events.schema import (
    Asked,
    Baseline,
    Body,
    Champion,
    Compared,
    Idea,
    Opened,
    Proposed,
    Result,
    RunStarted,
    Settings,
    Status,
    Stopped,
)
from evolve.population.archive import Archive, Elite
from evolve.search.tuning import Filling, Tried

FUNNEL = ("proposed", *get_args(Status))
MIGRATE_EVERY = 24
"""Scored candidates between two migrations."""

_RECENT = 32
_NOTABLE_GAIN = 1.001
"""A champion that gains less does not end a stagnation."""


@dataclass
class Tuning:
    """The filling of one idea's holes. `issued` maps each filling to the proposal that tried it."""

    number: int
    ask: int
    island: int
    idea: Idea
    template: Template
    issued: dict[Filling, int] = field(default_factory=dict)
    done: bool = False


@dataclass
class SearchState:
    """What the search knows. Changes only through `apply`."""

    settings: Settings | None = None
    baseline: Baseline | None = None
    archive: Archive = field(default_factory=Archive)
    funnel: Counter[str] = field(default_factory=Counter)
    proposals: dict[int, Proposed] = field(default_factory=dict)
    results: dict[int, Result] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    modules: dict[str, int] = field(default_factory=dict)
    queue: deque[tuple[int, int, Idea]] = field(default_factory=deque)
    tunings: dict[int, Tuning] = field(default_factory=dict)
    recent: deque[Attempt] = field(default_factory=lambda: deque(maxlen=_RECENT))
    hypotheses: deque[Attempt] = field(default_factory=lambda: deque(maxlen=_RECENT))
    """The latest attempts that came with an expected effect."""
    asks: int = 0
    agent_asks: int = 0
    open: dict[int, Opened] = field(default_factory=dict)
    """Asks that are not answered yet."""
    pulls: dict[int, Pull] = field(default_factory=dict)
    """What came of each ask of an agent."""
    barren: int = 0
    fruitless: bool = False
    """Whether nobody had anything to offer, and nothing is new since."""
    compared: int = 0
    duel_us: dict[int, float] = field(default_factory=dict)
    """The least time that a proposal showed in a duel."""
    champions: list[int] = field(default_factory=list)
    stale: int = 0
    stopped: str | None = None

    @property
    def scored(self) -> int:
        """How many candidates count against the budget."""
        return self.funnel["scored"]

    @property
    def unknown(self) -> int:
        """How many of what was offered have no result yet."""
        return len(self.queue) + len(self.proposals) - len(self.results)

    @property
    def in_work(self) -> bool:
        """Whether anything that was offered has no result yet."""
        return self.unknown > 0

    @property
    def champion(self) -> int:
        """The best proposal, 0 before there is one."""
        return self.champions[-1] if self.champions else 0

    @property
    def best_fitness(self) -> float:
        """The champion's fitness, the baseline's before there is one."""
        return self.fitness_of(self.champion)

    @property
    def to_beat(self) -> float:
        """The champion's fitness by the least time that it showed, in its score or a duel.

        By the score alone, one that came out slow would be challenged by everybody as fast.
        """
        seen = self.duel_us.get(self.champion)
        return self.best_fitness * max(1.0, self.parent(self.champion).time_us / seen if seen else 1.0)

    def apply(self, body: Body) -> None:
        """Folds one event in. Events come in the order of the log.

        Raises ValueError on an event that refers to what is not there: no search wrote that log.
        """
        match body:
            case RunStarted() if self.settings is not None:
                raise ValueError("a run starts once")
            case RunStarted():
                self.settings = body.settings
                self.archive = Archive.empty(body.settings.islands)
            case Baseline():
                self.baseline = body
                if body.key is not None:
                    self.keys[body.key] = 0
            case Opened():
                self._follows(body)
                self._begin_ask(body.ask, body.arm)
                self.open[body.ask] = body
                self.fruitless = False
            case Asked():
                self._apply_ask(body)
            case Proposed():
                self._apply_proposal(body)
            case Result():
                self._apply_result(body)
            case Compared():
                self._apply_comparison(body)
            case Champion():
                self._require(body.proposal)
                if body.proposal not in self.proposals:
                    raise ValueError("the kernel as given is no champion")
                if body.fitness > _NOTABLE_GAIN * self.best_fitness:
                    self.stale = 0
                self.champions.append(body.proposal)
            case Stopped():
                self.stopped = body.reason
            case _:
                pass

    def _require(self, *proposals: int) -> None:
        unknown = [one for one in proposals if one != 0 and one not in self.results]
        if unknown:
            raise ValueError(f"it refers to candidates without a result: {unknown}")

    def _follows(self, body: Opened | Asked) -> None:
        if body.ask != self.asks + 1 or not 0 <= body.island < len(self.archive.islands):
            raise ValueError("it does not follow the ask before")

    def _begin_ask(self, ask: int, arm: str) -> None:
        self.asks += 1
        self.agent_asks += 1
        if arm:
            self.pulls[ask] = Pull(arm, self.best_fitness)

    def _apply_ask(self, body: Asked) -> None:
        opened = self.open.pop(body.ask, None)
        if opened is not None and (opened.arm, opened.island) != (body.arm, body.island):
            raise ValueError("it does not answer what was asked")
        if opened is None:
            self._follows(body)
            if body.by_agent:
                self._begin_ask(body.ask, body.arm)
            else:
                self.asks += 1
        self._require(*(parent for idea in body.ideas for parent in idea.parents))
        pull = self.pulls.get(body.ask)
        if pull is not None:
            pull.closed_at, pull.failed = self.agent_asks, body.failed
            pull.tokens, pull.usd = body.tokens, body.usd
        self.barren += not body.ideas
        self.fruitless = not body.ideas and opened is None
        islands = len(self.archive.islands)
        for at, idea in enumerate(body.ideas):
            # An agent's new ideas spread over the islands; children stay where their parents live.
            island = body.island if idea.parents else (body.island + at) % islands
            self.queue.append((body.ask, island, idea))

    def _apply_proposal(self, body: Proposed) -> None:
        opens = body.template in (None, body.proposal)
        if body.proposal != len(self.proposals) + 1 or not 0 <= body.island < len(self.archive.islands):
            raise ValueError("it does not follow the proposal before")
        if not (self.queue if opens else body.template in self.tunings):
            raise ValueError("it comes from no idea")
        self._require(*body.parents)
        self.funnel["proposed"] += 1
        self.proposals[body.proposal] = body
        pull = self.pulls.get(body.ask)
        if pull is not None and not pull.failed:
            pull.proposals.append(body.proposal)
        if opens:
            ask, island, idea = self.queue.popleft()
            template = read_template(idea.program)
            if template.choices:
                tuning = Tuning(body.proposal, ask, island, idea, template)
                self.tunings[body.proposal] = tuning
        if body.template in self.tunings and body.filling is not None:
            self.tunings[body.template].issued[body.filling] = body.proposal

    def _apply_result(self, body: Result) -> None:
        if body.proposal not in self.proposals or body.proposal in self.results:
            raise ValueError("it is the result of no proposal in work")
        self._require(*(() if body.same_as is None else (body.same_as,)))
        self.results[body.proposal] = body
        self.fruitless = False
        self.funnel[body.status] += 1
        proposed = self.proposals[body.proposal]
        if body.key is not None:
            self.keys.setdefault(body.key, body.proposal)
        if body.module is not None:
            self.modules.setdefault(body.module, body.proposal)
        self.barren = self.barren + 1 if body.status in ("unparsable", "duplicate") else 0
        self.recent.append(self._attempt(proposed, body))
        if proposed.expected:
            self.hypotheses.append(self.recent[-1])
        self._credit(proposed.ask)
        if body.status == "scored":
            self.stale += 1
            elite = Elite(body.proposal, proposed.program, body.fitness, body.time_us or 0.0, body.cell)
            self.archive = self.archive.insert(proposed.island, elite)
            if self.scored % MIGRATE_EVERY == 0:
                self.archive = self.archive.migrate()

    def _attempt(self, proposed: Proposed, result: Result) -> Attempt:
        parent = proposed.parents[0] if proposed.parents else 0
        known = parent in self.results or self.baseline is not None
        return Attempt(
            result.proposal,
            proposed.program,
            result.status,
            result.fitness,
            result.diagnostics,
            result.message,
            proposed.note,
            result.time_us,
            proposed.expected,
            (self.parent(parent).time_us or None) if known else None,
            proposed.template,
        )

    def _apply_comparison(self, body: Compared) -> None:
        """Who is found wrong in a duel is no longer scored, and what it had beaten leads again."""
        self._require(body.challenger, body.incumbent)
        self.compared += 1
        for proposal, us in ((body.challenger, body.challenger_us), (body.incumbent, body.incumbent_us)):
            if us > 0.0:
                self.duel_us[proposal] = min(us, self.duel_us.get(proposal, us))
        wrong = self.results.get(body.wrong or 0)
        if wrong is None or wrong.status != "scored":
            return
        found = {"status": "incorrect", "fitness": 0.0, "message": body.message}
        self.results[wrong.proposal] = wrong.model_copy(update=found)
        self._credit(self.proposals[wrong.proposal].ask)
        self.funnel["scored"] -= 1
        self.funnel["incorrect"] += 1
        self.archive = self.archive.without(wrong.proposal)
        self.champions = [one for one in self.champions if one != wrong.proposal]

    def _credit(self, ask: int) -> None:
        """Tells the ask of an agent what its programs have come to."""
        pull = self.pulls.get(ask)
        if pull is not None:
            known = [self.results[one].fitness for one in pull.proposals if one in self.results]
            pull.best, pull.judged = max(known, default=0.0), len(known)

    def tried(self, tuning: Tuning) -> dict[Filling, Tried]:
        """What each issued filling has scored; a duplicate has what its twin scored."""
        answers: dict[Filling, Tried] = {}
        for filling, proposal in tuning.issued.items():
            result = self.results.get(proposal)
            if result is None:
                answers[filling] = Tried(None)
                continue
            fitness = result.fitness
            if result.same_as is not None:
                fitness = self.fitness_of(result.same_as)
            answers[filling] = Tried(fitness, scored=result.status == "scored")
        return answers

    def fitness_of(self, proposal: int) -> float:
        """The fitness of a folded proposal, or of the baseline (0)."""
        if proposal == 0:
            return self.baseline.fitness if self.baseline else 0.0
        return self.results[proposal].fitness

    def parent(self, proposal: int) -> Parent:
        """A scored proposal, or the baseline (0), as agents see it."""
        if proposal == 0:
            assert self.baseline is not None
            return Parent(0, "", self.baseline.fitness, self.baseline.time_us, self.baseline.gap)
        result = self.results[proposal]
        program = self.proposals[proposal].program
        return Parent(proposal, program, result.fitness, result.time_us or 0.0, result.gap)
