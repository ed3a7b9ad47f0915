"""The conversation with a model: programs asked for, refused ones sent back once with the reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from evolve.agents.base import Context, Desk, Proposal
from evolve.agents.llm.lines import reasons
from evolve.agents.llm.question import Questions
from evolve.agents.llm.view import parent_of
from evolve.events.schema import Probed
from evolve.ir.errors import NegativeAnswerError
from evolve.llm.answers import Draft, read_answer
from evolve.llm.faults import Fault, Tokens
from evolve.llm.patience import Breaker, Patience
from evolve.llm.probe import Probe
from evolve.llm.prompts import Prompts
from evolve.llm.request import Answer, Messages, Request, Wait
from evolve.llm.window import Window

OPERATOR = "llm"
NOT_SAID = "not said"
"""The expected effect of a program that came without."""


class Voice(Protocol):
    """A model. See `llm.client.Client`."""

    def ask(self, request: Request, wait: Wait = ...) -> Answer:
        """The answer to a request. Raises Fault."""
        ...

    def close(self) -> None:
        """Ends what it needs."""
        ...


@dataclass(frozen=True)
class _Refused:
    draft: Draft
    why: str


class LlmAgent:
    """Offers what a model answers.

    A fault that may pass costs the ask: the search goes on without it, and after three in a row the model
    is left alone for a while. Raises NegativeAnswerError `model-failed` where waiting does not help, or
    nobody else has anything to propose.
    """

    def __init__(
        self,
        voice: Voice,
        model: str,
        prompts: Prompts,
        patience: Patience = Patience(),  # noqa: B008
        window: Window = Window(),  # noqa: B008
        probe: Probe | None = None,
    ) -> None:
        self.probes = () if probe is None else (Probed(**asdict(probe)),)
        self._voice, self._model = voice, model
        self._window, self._questions = window, Questions(prompts, window)
        self._patience = patience
        self._breaker = Breaker()

    def propose(self, context: Context) -> Sequence[Proposal]:
        """The programs of one answer, those that had to be corrected last."""
        assert context.desk is not None
        if self._breaker.skips():
            return ()
        try:
            drafts = self._converse(context, context.desk)
        except Fault as fault:
            return self._failed(context, f"{fault.kind}: {fault.message}", fault.hint, fault.for_good)
        if not drafts:
            return self._failed(context, "its answers hold no program", None, False)
        self._breaker.succeeded()
        parent = parent_of(context)
        parents = (parent.proposal,) if parent.proposal else ()
        return [
            Proposal(draft.program, parents, OPERATOR, draft.hypothesis, draft.expected or NOT_SAID)
            for draft in drafts
        ]

    def close(self) -> None:
        """Lets go of the model."""
        self._voice.close()

    def _failed(self, context: Context, why: str, hint: str | None, for_good: bool) -> Sequence[Proposal]:
        self._breaker.failed()
        if for_good or (context.alone and self._breaker.tripped):
            raise NegativeAnswerError("model-failed", f"{self._model} is of no use: {why}", hint=hint)
        return ()

    def _converse(self, context: Context, desk: Desk) -> list[Draft]:
        messages = self._questions.first(context)
        answer = self._said(desk, 0, messages)
        good, refused = _judged(read_answer(answer), desk)
        if refused or not good:
            wrong = [(one.draft.program, one.why) for one in refused]
            repair = self._questions.again(context, answer, wrong)
            better, still = ([], []) if repair is None else self._again(desk, repair)
            good += [draft for draft in better if draft.program not in {one.program for one in good}]
            # What stays refused is proposed as it is: it is on record with its reason, for the next prompts.
            good += [one.draft for one in (still or ([] if better else refused))]
        return good

    def _again(self, desk: Desk, messages: Messages) -> tuple[list[Draft], list[_Refused]]:
        """What became of the second answer; of a fault nothing, for there is a first answer to go on with."""
        try:
            return _judged(read_answer(self._said(desk, 1, messages)), desk)
        except Fault as fault:
            if fault.for_good:
                raise
            return [], []

    def _said(self, desk: Desk, step: int, messages: Messages) -> str:
        """The answer, on record with every failed attempt before it. Raises Fault."""
        prompt = json.dumps(messages, ensure_ascii=False, indent=1)
        known = desk.recall(step, prompt)
        if known is not None:
            return known

        def failed(fault: Fault) -> None:
            told = {"fault": fault.kind, "message": fault.message}
            desk.note(step, prompt, None, **told, **self._cost(fault.tokens, fault.seconds))

        request = Request(messages, most_tokens=self._window.answer)
        answer = self._patience.ask(lambda: self._voice.ask(request, desk.tend), desk.tend, failed)
        desk.note(step, prompt, answer.text, cut=answer.cut, **self._cost(answer.tokens, answer.seconds))
        return answer.text

    def _cost(self, tokens: Tokens, seconds: float) -> dict[str, Any]:
        return {
            "model": self._model,
            "prompt_tokens": tokens.prompt,
            "completion_tokens": tokens.completion,
            "cached_tokens": tokens.cached,
            "seconds": round(seconds, 3),
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
