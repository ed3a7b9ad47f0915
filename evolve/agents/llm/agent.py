"""The conversation with a model: programs asked for, refused ones sent back once with the reason; or one
program, statement by statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Protocol

from evolve.agents.base import LIMIT_REACHED, AgentFailed, Context, Desk, Parent, Proposal
from evolve.agents.llm.hold import Answers, hold_of, hold_programs
from evolve.agents.llm.lines import reasons
from evolve.agents.llm.question import Form, Questions
from evolve.agents.llm.steps import Steps, start_of, steps_for
from evolve.agents.llm.tiers import tier_of
from evolve.agents.llm.view import parent_of
from evolve.events.schema import Probed
from evolve.ir.errors import NegativeAnswerError
from evolve.llm.answers import Draft, read_answer
from evolve.llm.faults import NONE, Fault
from evolve.llm.patience import Patience
from evolve.llm.probe import Probe
from evolve.llm.prompts import Prompts
from evolve.llm.purse import Price
from evolve.llm.request import Answer, Request, Waiting
from evolve.llm.window import Window
from evolve.llm.window import tokens as tokens_of

OPERATOR = "llm"
NOT_SAID = "not said"
"""The expected effect of a program that came without."""


class Voice(Protocol):
    """A model. See `llm.client.Client`."""

    def begin(self, request: Request) -> int:
        """Sends a request; returns its ticket. Raises Fault."""
        ...

    def ready(self, ticket: int) -> bool:
        """Whether `answer` would not wait. Raises Fault."""
        ...

    def answer(self, ticket: int) -> Answer:
        """The answer. Raises Fault."""
        ...

    def drop(self, ticket: int) -> None:
        """Gives a request up, if it is not answered yet."""
        ...

    def close(self) -> None:
        """Ends what it needs."""
        ...


@dataclass(frozen=True)
class _Refused:
    draft: Draft
    why: str


class LlmAgent:
    """Offers what a model answers, each time in a conversation of its own, of which several may go on.

    A fault that may pass is one of the ask; whoever holds the agent asks it less often then. `for_good` is
    one that waiting does not mend.
    """

    def __init__(
        self,
        voice: Voice,
        model: str,
        prompts: Prompts,
        patience: Patience = Patience(),  # noqa: B008
        window: Window = Window(),  # noqa: B008
        probe: Probe | None = None,
        answers: Answers = "auto",
        price: Price | None = None,
    ) -> None:
        self.probes = () if probe is None else (Probed(**asdict(probe)),)
        self._voice, self._model, self._price = voice, model, price
        self._hold = hold_of(probe)
        form: Form = "json" if self._hold == "schema" else "blocks"
        self._window, self._questions = window, Questions(prompts, window, form)
        self._steps = steps_for(prompts, self._hold, window, answers)
        self._patience = patience

    def converse(self, context: Context) -> Waiting[Sequence[Proposal]]:
        """The programs of one answer, those that had to be corrected last, or the one that was made statement
        by statement. Raises AgentFailed."""
        assert context.desk is not None
        start = parent_of(context) if self._steps is None else start_of(context)
        try:
            if self._steps is None:
                offered = yield from self._programs(context, context.desk)
            else:
                offered = yield from self._stepped(context, start, context.desk, self._steps)
        except Fault as fault:
            if fault.kind == "limit":
                message = f"{self._model} is not asked: {fault.message}"
                raise AgentFailed(message, fault.hint, for_good=True, code=LIMIT_REACHED) from None
            raise self._failed(f"{fault.kind}: {fault.message}", fault.hint, fault.for_good) from None
        except NegativeAnswerError as error:  # the kernel does not fit its context
            raise AgentFailed(error.message, error.hint, for_good=True, code=error.code) from None
        if not offered:
            raise self._failed("its answers hold no program")
        parents = (start.proposal,) if start.proposal else ()
        return [replace(one, parents=parents) for one in offered]

    def close(self) -> None:
        """Lets go of the model."""
        self._voice.close()

    def _failed(self, why: str, hint: str | None = None, for_good: bool = False) -> AgentFailed:
        return AgentFailed(f"{self._model} is of no use: {why}", hint, for_good=for_good)

    def _stepped(self, context: Context, start: Parent, desk: Desk, steps: Steps) -> Waiting[list[Proposal]]:
        program = yield from steps.program(context, start, desk, partial(self._said, desk))
        added = program.strip() != start.program.strip()
        return [Proposal(program, operator=OPERATOR)] if added else []

    def _programs(self, context: Context, desk: Desk) -> Waiting[list[Proposal]]:
        drafts = yield from self._drafts(context, desk)
        return [Proposal(d.program, (), OPERATOR, d.hypothesis, d.expected or NOT_SAID) for d in drafts]

    def _drafts(self, context: Context, desk: Desk) -> Waiting[list[Draft]]:
        most = tier_of(self._window.context).detail.programs
        held = hold_programs(self._hold, context.kernel, most)
        messages = self._questions.first(context)
        answer = yield from self._said(desk, 0, Request(messages, most_tokens=self._window.answer, **held))
        good, refused = _judged(read_answer(answer), desk)
        if refused or not good:
            wrong = [(one.draft.program, one.why) for one in refused]
            repair = self._questions.again(context, answer, wrong)
            again = None if repair is None else Request(repair, most_tokens=self._window.answer, **held)
            better, still = ([], []) if again is None else (yield from self._again(desk, again))
            good += [draft for draft in better if draft.program not in {one.program for one in good}]
            # What stays refused is proposed as it is: it is on record with its reason, for the next prompts.
            good += [one.draft for one in (still or ([] if better else refused))]
        return good

    def _again(self, desk: Desk, request: Request) -> Waiting[tuple[list[Draft], list[_Refused]]]:
        """What became of the second answer; of a fault nothing, for there is a first answer to go on with."""
        try:
            answer = yield from self._said(desk, 1, request)
        except Fault as fault:
            if fault.for_good:
                raise
            return [], []
        return _judged(read_answer(answer), desk)

    def _said(self, desk: Desk, step: int, request: Request) -> Waiting[str]:
        """The answer, on record with every failed attempt before it. Raises Fault."""
        prompt = json.dumps(request.messages, ensure_ascii=False, indent=1)
        known = desk.recall(step, prompt)
        if known is not None:
            return known

        held = "grammar" if request.grammar else "schema" if request.schema else ""
        asked = {"seed": request.seed, "held": held}

        def failed(fault: Fault) -> None:
            if fault.kind == "limit":
                return  # nobody was asked
            told = {"fault": fault.kind, "message": fault.message}
            cost = self._cost(fault, *((0, 0) if fault.unspent else self._most(request)))
            desk.note(step, prompt, None, **asked, **told, **cost)

        answer = yield from self._patience.asking(
            lambda: self._heard(desk, step, prompt, request, failed), failed
        )
        read, most = self._most(request)
        made = round(self._window.scale * tokens_of(answer.text))
        cost = self._cost(answer, read, max(made, most) if answer.cut else made)
        desk.note(step, prompt, answer.text, cut=answer.cut, **asked, **cost)
        return answer.text

    def _most(self, request: Request) -> tuple[int, int]:
        """Tokens of a prompt, and of the longest answer to it."""
        return self._window.count(request.messages), request.most_tokens or self._window.answer

    def _heard(
        self, desk: Desk, step: int, prompt: str, request: Request, failed: Callable[[Fault], None]
    ) -> Waiting[Answer]:
        """The answer; `failed` hears where nobody waits for it any more."""
        read, most = self._most(request)
        usd = None if self._price is None else self._price.of(read, most)
        while not desk.purse.hold(read + most, usd):
            yield
        try:
            desk.send(step, prompt, self._model, read + most, usd)
            ticket = self._voice.begin(request)
            try:
                while not self._voice.ready(ticket):
                    yield
                return self._voice.answer(ticket)
            except GeneratorExit:
                failed(Fault("given-up", "the search went on without it"))
                raise
            finally:
                self._voice.drop(ticket)
        finally:
            desk.purse.release(read + most, usd)

    def _cost(self, reply: Answer | Fault, prompt: int, completion: int) -> dict[str, Any]:
        """What a request took: the tokens of its prompt and its answer at most, where the server tells none.

        None of a prompt, which every request has, or of an answer that is there, are no counts.
        """
        told = reply.tokens if reply.tokens.prompt else NONE
        if isinstance(reply, Answer) and not told.completion:
            told = replace(told, completion=None)
        read = told.prompt or prompt
        made = completion if told.completion is None else told.completion
        usd = None if told.completion is None else reply.usd
        if usd is None and self._price is not None:
            usd = self._price.of(read, made)
        return {
            "model": self._model,
            "prompt_tokens": told.prompt,
            "completion_tokens": told.completion,
            "cached_tokens": told.cached,
            "counted": read + made - (told.prompt or 0) - (told.completion or 0),
            "usd": usd,
            "seconds": round(reply.seconds, 3),
        }


def _judged(drafts: Sequence[Draft], desk: Desk) -> tuple[list[Draft], list[_Refused]]:
    """Those that are legal, and the others with the reasons."""
    good: list[Draft] = []
    refused: list[_Refused] = []
    for draft in drafts:
        found = desk.check(draft.program)
        if found:
            refused.append(_Refused(draft, reasons(found)))
        else:
            good.append(draft)
    return good, refused
