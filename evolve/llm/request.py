"""What is asked of a model, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from evolve.llm.faults import Tokens

Messages = Sequence[Mapping[str, str]]
"""Of a conversation: `role` (system, user, assistant) and `content` each; a system's is the first one."""
Wait = Callable[[], None]
"""Called now and then while an answer is awaited; may raise."""
Reply = TypeVar("Reply")
Waiting = Generator[None, None, Reply]
"""What yields whenever it would have to wait, and then returns. Closing it gives up what it waits for."""


@dataclass(frozen=True)
class Request:
    """A conversation, and how it is to be answered; None leaves that to the client or the server.

    `grammar` is a GBNF text, for servers of one's own that take one (llama.cpp); others never see it.
    `schema` is a JSON schema of the answer, an object's, all its properties required. `stop` are texts
    that end an answer and are not part of it; `seed` is one of sampling, for servers of one's own, where the
    same request may then be answered the same.
    """

    messages: Messages
    grammar: str | None = None
    schema: Mapping[str, Any] | None = None
    most_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None


@dataclass(frozen=True)
class Answer:
    """What a model said. `cut`: it did not get to its end; `seconds` from the request to the answer; `usd` is
    None where no price is known."""

    text: str
    cut: bool
    tokens: Tokens
    seconds: float
    usd: float | None = None
