"""What an agent that talks to a model needs of the run: its record, the compiler, who minds the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from evolve.agents.holes import read_template
from evolve.events.schema import Body, Exchanged, Resumed, Sent, Settings
from evolve.llm.purse import Purse
from evolve.search.journal import Journal
from evolve.search.problem import Compiled


class RunDesk:
    """Implements `agents.base.Desk` for one ask of a run. `tokens` and `usd` are what it took so far, `usd`
    None where no price is known."""

    def __init__(
        self,
        ask: int,
        journal: Journal,
        store: Callable[[str], str],
        load: Callable[[str], str] | None,
        tend: Callable[[], None],
        check: Callable[[str], Compiled],
        purse: Purse,
    ) -> None:
        self._ask, self._journal = ask, journal
        self._store, self._load = store, load
        self._tend, self._check = tend, check
        self.purse = purse
        self.tokens = 0
        self.usd: float | None = None

    def tend(self) -> None:
        """Feeds the workers; raises what stops the search."""
        self._tend()

    def check(self, program: str) -> Sequence[Mapping[str, Any]]:
        """Compiles it with the first choice of each hole."""
        template = read_template(program)
        compiled = self._check(template.fill((0,) * len(template.choices)))
        return () if compiled.verdict == "PROVED" else compiled.diagnostics

    def recall(self, step: int, prompt: str) -> str | None:
        """Only an answer to the very same prompt."""
        found = self._journal.recorded_answer(self._ask, step)
        if found is None or found.answer is None or self._load is None or found.prompt != self._store(prompt):
            return None
        self._spend(found)
        return self._load(found.answer)

    def send(self, step: int, prompt: str, model: str, tokens: int, usd: float | None) -> None:
        """Before it is sent, so that no way to end a process hides what it took."""
        kept = self._store(prompt)
        self._journal.note(Sent(ask=self._ask, step=step, model=model, prompt=kept, tokens=tokens, usd=usd))

    def note(self, step: int, prompt: str, answer: str | None, **told: Any) -> None:
        """Both become blobs."""
        kept = None if answer is None else self._store(answer)
        said = Exchanged(ask=self._ask, step=step, prompt=self._store(prompt), answer=kept, **told)
        self._journal.note(said)
        self.purse.spend(taken(said), said.usd)
        self._spend(said)

    def _spend(self, said: Exchanged) -> None:
        self.tokens += taken(said)
        if said.usd is not None:
            self.usd = (self.usd or 0.0) + said.usd


def taken(said: Exchanged) -> int:
    """The tokens of an exchange."""
    return (said.prompt_tokens or 0) + (said.completion_tokens or 0) + said.counted


def lost(recorded: Iterable[Body]) -> list[Exchanged]:
    """What is to be noted of requests that a process which was killed had sent."""
    sent: dict[tuple[int, int], Sent] = {}
    for body in recorded:
        if isinstance(body, Sent):
            sent[body.ask, body.step] = body
        elif isinstance(body, Exchanged):
            sent.pop((body.ask, body.step), None)
    return [
        Exchanged(
            ask=one.ask,
            step=one.step,
            model=one.model,
            prompt=one.prompt,
            fault="given-up",
            message="the process ended before it was answered",
            counted=one.tokens,
            usd=one.usd,
        )
        for one in sent.values()
    ]


def purse_of(settings: Settings, recorded: Iterable[Body]) -> Purse:
    """What a run may still spend on its models, after what is on record, what was lost being the most that it
    may have taken; the last limits hold."""
    recorded = tuple(recorded)
    purse = Purse(settings.max_tokens, settings.max_usd)
    for body in (*recorded, *lost(recorded)):
        if isinstance(body, Exchanged):
            purse.spend(taken(body), body.usd)
        elif isinstance(body, Resumed):
            purse.max_tokens = body.max_tokens or purse.max_tokens
            purse.max_usd = body.max_usd or purse.max_usd
    return purse
