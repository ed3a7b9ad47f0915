"""Asking a model: this end of the courier's pipe."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from evolve.llm.faults import Fault, Tokens
from evolve.llm.keys import blot_keys, has_key
from evolve.llm.model import Model
from evolve.llm.request import Answer, Request, Wait

_POLL_S = 0.1
_LOOK_S = 10.0
"""For a page: whoever has it sends it at once."""
_GRACE_S = 30.0
"""What the courier may take beyond a request's time."""
_START_S = 180.0
"""The same as long as nothing was heard of it: on a busy machine litellm takes a while to import."""
_LATE_S = 10.0
"""For the courier to say that it has given up what it should have answered by now."""
_ROOT = Path(__file__).resolve().parents[2]
_RUN = "import sys; sys.path.append(sys.argv[1]); from evolve.llm.courier import main; main(*sys.argv[2:])"
"""With -P, so that no file of the folder where the command runs is imported by who holds the key."""


class Client:
    """One model, asked any number of questions at a time, each for at most `limit_s` seconds and an answer of
    `most_tokens`. Starts a process; `close` ends it.

    `begin` sends a request and gives its ticket, with which `answer` waits for what comes of it; `ask` does
    both. Not for several threads.

    Takes the keys out of this process's environment: make it before any other process is forked, and
    several of them by `several`. Raises EvolveError `no-llm-extra` or `no-key`.
    """

    def __init__(self, model: Model, limit_s: float, most_tokens: int = 4096) -> None:
        try:
            self._open(model, limit_s, most_tokens)
        finally:
            blot_keys()

    @classmethod
    def several(cls, models: Sequence[Model], limit_s: float, most_tokens: int = 4096) -> list[Client]:
        """A client for each model, every one with its own key."""
        made: list[Client] = []
        try:
            for model in models:
                client = cls.__new__(cls)
                client._open(model, limit_s, most_tokens)
                made.append(client)
        except BaseException:
            for client in made:
                client.close()
            raise
        finally:
            blot_keys()
        return made

    def _open(self, model: Model, limit_s: float, most_tokens: int) -> None:
        model.require_client()
        self.model, self.limit_s, self.most_tokens = model, limit_s, most_tokens
        self.grammar_field = "grammar"
        self._number = 0
        self._up = False
        self._heard, self._unsent = b"", b""
        self._late: set[int] = set()
        self._until: dict[int, float] = {}
        self._replies: dict[int, dict[str, Any]] = {}
        self._courier = _start(model)
        assert self._courier.stdin is not None
        os.set_blocking(self._courier.stdin.fileno(), False)

    def ask(self, request: Request, wait: Wait = lambda: None) -> Answer:
        """The answer to a request. Raises Fault, and what `wait` raises; then the request is given up."""
        return self.answer(self.begin(request), wait)

    def begin(self, request: Request) -> int:
        """Sends a request; returns its ticket. Raises Fault `client-died`."""
        most = self.most_tokens if request.most_tokens is None else request.most_tokens
        return self._begin(
            {
                "messages": [dict(one) for one in request.messages],
                "grammar": request.grammar,
                "grammar_field": self.grammar_field,
                "schema": None if request.schema is None else dict(request.schema),
                "most_tokens": most,
                "temperature": request.temperature,
                "stop": list(request.stop) or None,
                "seed": request.seed,
            }
        )

    def look(self, path: str, body: Mapping[str, Any] | None = None, wait: Wait = lambda: None) -> Any:
        """The JSON that a server of one's own has at a path of its root, such as `/props`; `body` is posted.

        The root is `--api-base` without a `/v1` at its end. Raises Fault, `bad-request` without one.
        """
        if self.model.api_base is None:
            raise Fault("bad-request", "only a server of --api-base is asked what it tells of itself")
        limit_s = min(self.limit_s, _LOOK_S)
        return json.loads(
            self.answer(self._begin({"look": path, "body": body, "limit_s": limit_s}), wait).text
        )

    def about(self) -> dict[str, Any]:
        """`keys`, the names of those that the server is told; and as litellm's table has them, which has no
        server of one's own, `max_input_tokens`, `max_output_tokens`, `usd_a_prompt_token` and
        `usd_a_completion_token`, the highest prices. Raises Fault `client-died`."""
        known: dict[str, Any] = json.loads(self.answer(self._begin({"about": True})).text)
        return known

    def _begin(self, told: Mapping[str, Any]) -> int:
        self._number += 1
        spare = _GRACE_S if self._up else _START_S
        self._until[self._number] = time.monotonic() + self.limit_s + spare
        self._send({"id": self._number, "limit_s": self.limit_s, **told})
        return self._number

    def ready(self, ticket: int) -> bool:
        """Whether `answer` would not wait: there is a reply, or there will be none."""
        try:
            while ticket not in self._replies and self._hear(0.0):
                pass
        except Fault:
            return True
        return ticket in self._replies or self._is_lost(ticket)

    def answer(self, ticket: int, wait: Wait = lambda: None) -> Answer:
        """What came of a request, once. Raises Fault, and what `wait` raises, which gives the request up."""
        try:
            while ticket not in self._replies:
                wait()
                if not self._hear(_POLL_S) and self._is_lost(ticket):
                    self._courier.kill()
                    raise self._died()
        except BaseException:
            self.drop(ticket)
            raise
        del self._until[ticket]
        self._late.discard(ticket)
        return _read(self._replies.pop(ticket))

    def drop(self, ticket: int) -> None:
        """Gives a request up, if it is not answered yet."""
        self._late.discard(ticket)
        if self._until.pop(ticket, None) is not None and self._replies.pop(ticket, None) is None:
            with suppress(Fault):
                self._send({"cancel": ticket})

    def _is_lost(self, ticket: int) -> bool:
        """Whether a request is long over its time, and the courier, told to give it up, does not say so."""
        if time.monotonic() <= self._until[ticket]:
            return False
        if ticket in self._late:
            return True
        self._late.add(ticket)
        self._until[ticket] = time.monotonic() + _LATE_S
        with suppress(Fault):
            self._send({"cancel": ticket})
        return False

    def _send(self, told: Mapping[str, Any]) -> None:
        """Does not wait for the courier to read, which is busy as long as it imports."""
        self._unsent += json.dumps(told).encode() + b"\n"
        self._push()

    def _push(self) -> None:
        assert self._courier.stdin is not None
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._courier.stdin.fileno(), self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            raise self._died() from None

    def _hear(self, seconds: float) -> bool:
        """Whether the courier said something within that time; keeps replies that somebody waits for."""
        assert self._courier.stdin is not None and self._courier.stdout is not None
        descriptor = self._courier.stdout.fileno()
        unsent = [self._courier.stdin.fileno()] if self._unsent else []
        told, free, _ = select.select([descriptor], unsent, [], seconds)
        if free:
            self._push()
        if not told:
            return False
        said = os.read(descriptor, 1 << 16)
        if not said:
            raise self._died()
        self._up = True
        *lines, self._heard = (self._heard + said).split(b"\n")
        for reply in map(json.loads, lines):
            if reply["id"] in self._until:
                self._replies[reply["id"]] = reply
        return True

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


def _read(reply: Mapping[str, Any]) -> Answer:
    seconds = reply["seconds"]
    tokens = Tokens(reply.get("prompt_tokens"), reply.get("completion_tokens"), reply.get("cached_tokens"))
    if "fault" in reply:
        after_s, usd = reply.get("after_s", 0.0), reply.get("usd")
        unspent = reply.get("unspent", False)
        raise Fault(reply["fault"], reply["message"], after_s, tokens, seconds, usd, unspent)
    return Answer(reply["text"], reply["finish"] == "cut", tokens, seconds, reply.get("usd"))


def _start(model: Model) -> subprocess.Popen[bytes]:
    """The courier, which inherits the environment as it is: nothing here copies a key."""
    model.require_key(model.key_name is not None and has_key(model.key_name))
    told = (model.client, model.text, model.api_base or "", "local" if model.is_local else "")
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _RUN, str(_ROOT), *told],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
