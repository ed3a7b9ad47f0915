"""The conversation with a person: the prompt printed, programs read, refusals told until one is right."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from evolve.agents.base import AgentFailed, AgentLeft, Attempt, Context, Desk, Proposal
from evolve.agents.human.reader import Reader
from evolve.agents.llm.lines import reasons
from evolve.agents.llm.question import Questions
from evolve.agents.llm.view import parent_of
from evolve.events.schema import Settings
from evolve.ir.errors import NegativeAnswerError
from evolve.llm.answers import Draft, read_answer
from evolve.llm.prompts import Prompts
from evolve.llm.request import Messages, Waiting
from evolve.llm.window import ASSUMED, Window

OPERATOR = "human"
_HOW = "your programs (an empty line ends the answer, the end of the input ends the run):"
_NONE = "No program could be read in that. One statement a line, such as: block, rest = split(i, 1024)"

Say = Callable[[str], None]


class Human:
    """Offers what a person types; asks until every program of an answer is legal, or those that are not
    were given before."""

    def __init__(self, questions: Questions, reader: Reader, say: Say) -> None:
        self._questions, self._reader, self._say = questions, reader, say
        self._shown: set[str] = set()
        self._told = 0

    def converse(self, context: Context) -> Waiting[Sequence[Proposal]]:
        """The programs of one answer. Raises AgentLeft at the end of the input."""
        desk = context.desk
        assert desk is not None
        try:
            messages = self._questions.first(context)
        except NegativeAnswerError as error:
            raise AgentFailed(error.message, error.hint, for_good=True, code=error.code) from None
        self._ask(context, messages)
        step, given = 0, set[str]()
        while True:
            answer = yield from self._answer(desk, step, messages)
            drafts = read_answer(answer)
            wrong = [(draft, reasons(found)) for draft in drafts if (found := desk.check(draft.program))]
            stubborn = bool(wrong) and all(draft.program in given for draft, _ in wrong)
            if drafts and (not wrong or stubborn):
                return [_proposal(draft, context) for draft in drafts]
            given |= {draft.program for draft in drafts}
            told = "\n\n".join(f"{draft.program.strip()}\n  {why}" for draft, why in wrong) or _NONE
            self._say(f"{told}\n\n{_HOW}")
            said = [{"role": "assistant", "content": answer}, {"role": "user", "content": told}]
            messages, step = [*messages, *said], step + 1

    def _ask(self, context: Context, messages: Messages) -> None:
        """Prints what became of the programs before, and what of the question was not shown before."""
        for line in self._outcomes(context.recent):
            self._say(line)
        for one in messages:
            if one["content"] not in self._shown:
                self._shown.add(one["content"])
                self._say(f"\n{one['content'].rstrip()}\n")
        self._say(_HOW)

    def _outcomes(self, recent: Sequence[Attempt]) -> Iterator[str]:
        for one in recent:
            if one.proposal > self._told:
                self._told = one.proposal
                line = f"candidate {one.proposal}: {one.status.replace('_', ' ')}"
                if one.time_us is not None:
                    line += f", {one.time_us:.6g} us, {one.fitness:.3f} of the speed of light"
                why = reasons(one.diagnostics) or one.message
                yield f"{line}: {why}" if why else line

    def _answer(self, desk: Desk, step: int, messages: Messages) -> Waiting[str]:
        """What is typed, on record."""
        prompt = json.dumps(messages, ensure_ascii=False, indent=1)
        known = desk.recall(step, prompt)
        if known is not None:
            return known
        while True:
            try:
                answer = self._reader.answer()
            except EOFError:
                raise AgentLeft from None
            if answer is not None:
                desk.note(step, prompt, answer, model=OPERATOR)
                return answer
            yield


def _proposal(draft: Draft, context: Context) -> Proposal:
    parent = parent_of(context).proposal
    return Proposal(draft.program, (parent,) if parent else (), OPERATOR, draft.hypothesis, draft.expected)


def open_human(settings: Settings, prompts: Mapping[str, str]) -> Human:
    """A person at standard input, asked on standard error. Raises EvolveError as `Prompts`."""
    window = Window(settings.context or ASSUMED, settings.answer_tokens)
    return Human(Questions(Prompts(prompts), window), Reader(0), _to_standard_error)


def _to_standard_error(text: Any) -> None:
    harmless = "".join(char if char.isprintable() or char == "\n" else "?" for char in str(text))
    print(harmless, file=sys.stderr, flush=True)
