"""Asking a model: this end of the courier's pipe."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evolve.ir.errors import EvolveError
from evolve.llm.faults import Fault, Tokens
from evolve.llm.keys import blot_keys, has_key
from evolve.llm.model import Model

Messages = Sequence[Mapping[str, str]]
Wait = Callable[[], None]
"""Called now and then while an answer is awaited; may raise."""

_POLL_S = 0.1
_GRACE_S = 30.0
"""What the courier may take beyond a request's time, its start included."""
_ROOT = Path(__file__).resolve().parents[2]
_RUN = "import sys; sys.path.append(sys.argv[1]); from evolve.llm.courier import main; main(*sys.argv[2:])"
"""With -P, so that no file of the folder where the command runs is imported by who holds the key."""


@dataclass(frozen=True)
class Answer:
    """What a model said. `cut`: it did not get to its end."""

    text: str
    cut: bool
    tokens: Tokens
    seconds: float


class Client:
    """One model, asked one question after the other, each for at most `limit_s` seconds and an answer of
    `most_tokens`. Starts a process; `close` ends it.

    Takes the keys out of this process's environment: make it before any other process is forked.
    Raises EvolveError `no-llm-extra` or `no-key`.
    """

    def __init__(self, model: Model, limit_s: float, most_tokens: int = 4096) -> None:
        if find_spec("openai") is None:
            hint = "pip install openai, or pip install 'evolve[llm]'"
            raise EvolveError("no-llm-extra", "--agent llm needs the package openai", hint=hint)
        self.model, self.limit_s, self.most_tokens = model, limit_s, most_tokens
        self._number = 0
        self._heard = b""
        self._courier = _start(model)

    def ask(self, messages: Messages, wait: Wait = lambda: None) -> Answer:
        """The answer to a conversation. Raises Fault, and what `wait` raises."""
        self._number += 1
        begun = time.monotonic()
        self._send(
            {
                "id": self._number,
                "model": self.model.name,
                "base": self.model.api_base,
                "messages": [dict(one) for one in messages],
                "limit_s": self.limit_s,
                "most_tokens": self.most_tokens,
            }
        )
        reply = self._reply(begun + self.limit_s + _GRACE_S, wait)
        seconds = time.monotonic() - begun
        tokens = Tokens(
            reply.get("prompt_tokens"), reply.get("completion_tokens"), reply.get("cached_tokens")
        )
        if "fault" in reply:
            raise Fault(reply["fault"], reply["message"], reply.get("after_s", 0.0), tokens, seconds)
        return Answer(reply["text"], reply["finish"] == "cut", tokens, seconds)

    def _send(self, request: Mapping[str, Any]) -> None:
        assert self._courier.stdin is not None
        try:
            self._courier.stdin.write(json.dumps(request).encode() + b"\n")
            self._courier.stdin.flush()
        except OSError:
            raise self._died() from None

    def _reply(self, until: float, wait: Wait) -> dict[str, Any]:
        """The reply to the last request; those to requests that were given up are passed over."""
        assert self._courier.stdout is not None
        descriptor = self._courier.stdout.fileno()
        while True:
            line, newline, rest = self._heard.partition(b"\n")
            if newline:
                self._heard = rest
                reply: dict[str, Any] = json.loads(line)
                if reply["id"] == self._number:
                    return reply
                continue
            wait()
            if select.select([descriptor], [], [], _POLL_S)[0]:
                said = os.read(descriptor, 1 << 16)
                if not said:
                    raise self._died()
                self._heard += said
            elif time.monotonic() > until:
                self._courier.kill()
                raise self._died()

    def _died(self) -> Fault:
        self._courier.wait()
        return Fault("client-died", f"the process that asks the model ended ({self._courier.returncode})")

    def close(self) -> None:
        """Ends the process. Safe to call twice."""
        self._courier.kill()
        self._courier.wait()
        for pipe in (self._courier.stdin, self._courier.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not sent is not missed
                    pipe.close()


def _start(model: Model) -> subprocess.Popen[bytes]:
    """The courier, which inherits the environment as it is; this process is without keys from then on."""
    model.require_key(has_key(model.key_name))
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _RUN, str(_ROOT), model.key_name, "local" if model.is_local else ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    finally:
        blot_keys()
