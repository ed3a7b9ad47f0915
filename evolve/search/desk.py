"""What an agent that talks to a model needs of the run: its record, the compiler, who minds the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evolve.agents.holes import read_template
from evolve.events.schema import Exchanged
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
    ) -> None:
        self._ask, self._journal = ask, journal
        self._store, self._load = store, load
        self._tend, self._check = tend, check
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

    def note(self, step: int, prompt: str, answer: str | None, **told: Any) -> None:
        """Both become blobs."""
        kept = None if answer is None else self._store(answer)
        said = Exchanged(ask=self._ask, step=step, prompt=self._store(prompt), answer=kept, **told)
        self._journal.note(said)
        self._spend(said)

    def _spend(self, said: Exchanged) -> None:
        self.tokens += (said.prompt_tokens or 0) + (said.completion_tokens or 0)
        usd = getattr(said, "usd", None)
        if usd is not None:
            self.usd = (self.usd or 0.0) + usd
