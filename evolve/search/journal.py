"""The journal: where the loop writes its decisions, and from which a resumed run takes them back.

A log holds exactly the events that the loop emits, in that order. So a resume runs the same loop
from the start: as long as recorded events remain, answers of agents and results of candidates are
taken from them, and every event the loop emits is compared with the recorded one; after the last
one it evaluates and appends. `replay` is the same with no writer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evolve.events.log import EventWriter
from evolve.events.schema import (
    Asked,
    Body,
    Compared,
    Event,
    Examined,
    Exchanged,
    Paused,
    Probed,
    ReadBack,
    Result,
    Resumed,
    RunStarted,
    Sent,
    Stopped,
)
from evolve.ir.errors import EvolveError

_ASIDE = (Paused, Resumed, Examined, Sent, Exchanged, Probed, ReadBack)
"""Events about processes, about what the search came to, and what was said to a model: no decisions of its
own."""


class Journal:
    """Recorded events first, then a writer. `observe` sees every event, recorded or new."""

    def __init__(
        self,
        recorded: Sequence[Event],
        writer: EventWriter | None,
        observe: Callable[[Body, bool], None] = lambda body, recorded: None,
    ) -> None:
        self._recorded = [event.body for event in recorded if not isinstance(event.body, _ASIDE)]
        exchanges = [event.body for event in recorded if isinstance(event.body, Exchanged)]
        self._answers = {(body.ask, body.step): body for body in exchanges if body.answer is not None}
        read = [event.body for event in recorded if isinstance(event.body, ReadBack)]
        self._read_back = {body.candidate: body for body in read}
        self._asks = {body.ask for body in self._recorded if isinstance(body, Asked)}
        self._results = {body.proposal: body for body in self._recorded if isinstance(body, Result)}
        self._cursor = 0
        self._writer = writer
        self._observe = observe

    @property
    def replaying(self) -> bool:
        """Whether recorded events remain."""
        return self._cursor < len(self._recorded)

    def expect(self) -> Body | None:
        """The recorded event that comes next, if any remains."""
        return self._recorded[self._cursor] if self.replaying else None

    def recorded_ask(self, ask: int) -> Asked | None:
        """The recorded answer to ask number `ask`, if it comes next."""
        body = self.expect()
        return body if isinstance(body, Asked) and body.ask == ask else None

    def recorded_arrival(self) -> Asked | None:
        """The recorded answer of an agent, whatever its number, if that comes next."""
        body = self.expect()
        return body if isinstance(body, Asked) else None

    def has_answer(self, ask: int) -> bool:
        """Whether an answer to ask number `ask` is on record, wherever it stands."""
        return ask in self._asks

    def has_read_back(self, candidate: int) -> bool:
        """Whether it is on record what reading the text of a champion back came to."""
        return candidate in self._read_back

    def text_of(self, candidate: int) -> ReadBack | None:
        """What reading the text of a champion back came to, if that is on record."""
        return self._read_back.get(candidate)

    @property
    def refuted(self) -> frozenset[int]:
        """Champions whose text does something else than what was proved."""
        return frozenset(one for one, body in self._read_back.items() if body.status == "REFUTED")

    def recorded_comparison(self, challenger: int, incumbent: int) -> Compared | None:
        """The recorded comparison of these two, if it comes next."""
        body = self.expect()
        if isinstance(body, Compared) and (body.challenger, body.incumbent) == (challenger, incumbent):
            return body
        return None

    def recorded_result(self, proposal: int) -> Result | None:
        """The recorded result of a proposal, wherever it stands in what remains or has passed."""
        return self._results.get(proposal)

    def recorded_answer(self, ask: int, step: int) -> Exchanged | None:
        """What a model answered in a step of an ask that was not brought to its end."""
        return self._answers.get((ask, step))

    def diverged(self, wanted: str) -> EvolveError:
        """The error of a replay that needs something which the log does not have at this place."""
        recorded = self.expect()
        return EvolveError(
            "diverged",
            f"the log decided otherwise at event {self._cursor + 1}: it has "
            f"{_brief(recorded) if recorded else 'nothing more'}, the search made {wanted}",
            hint="another version of evolve made this run, or its log was edited",
        )

    @property
    def at_end(self) -> bool:
        """Whether a log without a writer has nothing left: a replay of an unfinished run ends here."""
        return self._writer is None and not self.replaying

    def emit(self, body: Body) -> None:
        """Appends an event, or checks it against the recorded one.

        Raises EvolveError `diverged` if the recorded event is another one, `cannot-write` if the log
        cannot be written.
        """
        recorded = self.expect()
        if recorded is not None:
            if recorded != body:
                raise self.diverged(_brief(body))
            self._cursor += 1
        elif self._writer is not None:
            self._writer.append(body)
        self._observe(body, recorded is not None)

    def note(self, body: Paused | Resumed | Examined | Sent | Exchanged | Probed | ReadBack) -> None:
        """Appends an event that is no decision of the search; it takes no part in the comparison."""
        if isinstance(body, ReadBack):
            self._read_back[body.candidate] = body
        if self._writer is not None:
            self._writer.append(body)
        self._observe(body, False)


def _brief(body: Body) -> str:
    if isinstance(body, RunStarted):
        return "run_started"
    if isinstance(body, Stopped):
        return f"stopped ({body.reason})"
    number = getattr(body, "proposal", getattr(body, "ask", ""))
    return f"{body.kind} {number}".rstrip()
