"""The messages of a conversation about programs, no longer than the model's context allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from evolve.agents.base import Context
from evolve.agents.llm.tiers import Detail, shortened, tier_of
from evolve.agents.llm.view import refused, rules, view
from evolve.ir.errors import NegativeAnswerError
from evolve.llm.prompts import Prompts
from evolve.llm.request import Messages
from evolve.llm.window import Window

_Render = Callable[[Detail], list[dict[str, str]]]


Form = Literal["blocks", "json"]
"""How an answer is written: lines and fenced blocks, or one JSON object where a server keeps to a schema."""


@dataclass(frozen=True)
class Questions:
    """Questions to a model with this context, from these templates, to be answered in this form."""

    prompts: Prompts
    window: Window = Window()  # noqa: RUF009  (frozen)
    form: Form = "blocks"

    def first(self, context: Context) -> Messages:
        """What asks for programs, in the richest form that fits.

        Raises NegativeAnswerError `context-too-small` where none does.
        """
        found = self._fitting(lambda detail: self._asked(context, detail))
        if found is None:
            shortest = self._asked(context, list(shortened(tier_of(self.window.context).detail))[-1])
            message = (
                f"the kernel does not fit the model: the shortest prompt has {self.window.count(shortest)} "
                f"tokens, a context of {self.window.context} leaves {self.window.prompt} beside the answer"
            )
            hint = "a model or a server with a larger context; --context says how large it is"
            raise NegativeAnswerError("context-too-small", message, hint=hint)
        return found

    def again(self, context: Context, answer: str, wrong: Sequence[tuple[str, str]]) -> Messages | None:
        """The question with its answer and what is wrong in that: programs and why they are refused, none
        where none could be read. The question is shortened if need be, then the answer left out, whose
        refused programs are told anyway; None where that is not enough."""
        repair = self.prompts.render("repair", **refused(wrong), form=self.form)
        tail = [message("assistant", answer), message("user", repair)]
        found = self._fitting(lambda detail: [*self._asked(context, detail), *tail])
        if found is None and wrong:
            found = self._fitting(lambda detail: _joined(self._asked(context, detail), repair))
        return found

    def _fitting(self, render: _Render) -> list[dict[str, str]] | None:
        for detail in shortened(tier_of(self.window.context).detail):
            messages = render(detail)
            if self.window.holds(messages):
                return messages
        return None

    def _asked(self, context: Context, detail: Detail) -> list[dict[str, str]]:
        system = self.prompts.render("system", **rules(detail), form=self.form)
        return [
            message("system", system),
            message("user", self.prompts.render("propose", **view(context, detail))),
        ]


def _joined(messages: list[dict[str, str]], more: str) -> list[dict[str, str]]:
    """Messages whose last one says more."""
    *before, last = messages
    return [*before, message(last["role"], f"{last['content']}\n{more}")]


def message(role: str, content: str) -> dict[str, str]:
    """One of a conversation."""
    return {"role": role, "content": content}
