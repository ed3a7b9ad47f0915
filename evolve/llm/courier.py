"""The process that holds a model's key and talks to its server.

It reads one JSON object a line: a request (`protocols.reply.Asked` with an `id`), a page that is sought
(`{id, look, body, limit_s}`), `{id, about, limit_s}` or `{cancel: id}`. It answers with one a line as answers
come, `{id, text, finish, seconds, prompt_tokens, completion_tokens, cached_tokens, usd}`, or `{id, fault,
message, after_s, seconds, unspent}` with what it cost all the same. Keys come in its environment; those of
its model leave it in requests only, the others nowhere: whatever a server answers, a key's text is blotted
out.

A client library is imported here alone, so the process that searches stays light, has no threads or
sockets of a client when it forks, and can give up on a request whatever the client does with it.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import Any

from evolve.llm.keys import take_keys
from evolve.llm.model import KEY_OF
from evolve.llm.protocols import looking, prices
from evolve.llm.protocols.reply import UNSPENT, Asked, Reader, Reply, Speaker, fault

_SPOKEN = {"openai": "openai_chat", "anthropic": "anthropic_messages", "litellm": "through_litellm"}
"""The module of `protocols` for each package."""
_LOUD = ("OPENAI_LOG", "ANTHROPIC_LOG", "LITELLM_LOG")
_NEAR = "localhost,127.0.0.1,::1"
_MOST_LINE = 64 << 20
"""Bytes of a request."""
_SECRET = 8
"""What has fewer characters is no secret, such as the `none` or `EMPTY` of a server of one's own."""
_MEMORY_BYTES = 4 << 30
_PR_SET_PDEATHSIG = 1


def main(client: str, model: str, base: str, local: str) -> None:
    """Serves requests to `model` (`provider/name`) until standard input ends, through the package `client`.
    `local`: no proxy leads to the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    with suppress(Exception):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    taken = take_keys()
    for name in _LOUD:
        os.environ.pop(name, None)
    around = [os.environ[name] for name in ("NO_PROXY", "no_proxy") if os.environ.get(name)]
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "*" if local else ",".join([*around[:1], _NEAR])
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing that a library prints may look like an answer
    said: SimpleQueue[str] = SimpleQueue()
    # A thread of its own, so that nobody's time runs out while the pipe is full.
    Thread(target=_write, args=(said, out), daemon=True).start()
    desk = _open(client, model, base or None, taken, said)
    del taken
    asyncio.run(desk.serve())


def _write(said: SimpleQueue[str], out: Any) -> None:
    while True:
        out.write(said.get())
        out.flush()


def _open(
    client: str, model: str, base: str | None, taken: Mapping[str, str], said: SimpleQueue[str]
) -> _Desk:
    """The client of a model, with the keys that are its own."""
    try:
        spoken = import_module(f"evolve.llm.protocols.{_SPOKEN[client]}")
        own = spoken.keys(model, taken, base)
        held = {name: key for name, key in taken.items() if name in own}
        ask = spoken.speaker(model if client == "litellm" else model.partition("/")[2], held, base)
    except Exception as error:  # an installation that is not whole
        why = fault("client-died", f"the package {client} cannot be used: {type(error).__name__}: {error}")
        why |= UNSPENT

        async def no(asked: Asked) -> Reply:
            return why

        return _Desk({False: (no, looking.read_error), True: (no, looking.read_error)}, {}, None, said)
    # No other of a provider's secrets is a key that a server of one's own could want.
    provider = model.partition("/")[0]
    look = looking.looker(held.get(KEY_OF.get(provider, f"{provider.upper()}_API_KEY"), ""), base)
    ways = {False: (ask, spoken.read_error), True: (look, looking.read_error)}
    return _Desk(ways, held, None if base else model, said)


class _Desk:
    """Answers requests as they come, each in its own time. `ways`: how is asked, and (True) looked; `priced`:
    the model whose prices hold, None for a server of one's own."""

    def __init__(
        self,
        ways: Mapping[bool, tuple[Speaker, Reader]],
        held: Mapping[str, str],
        priced: str | None,
        said: SimpleQueue[str],
    ) -> None:
        self._ways, self._names, self._priced, self._said = ways, sorted(held), priced, said
        self._secrets = sorted((key for key in held.values() if len(key) >= _SECRET), key=len, reverse=True)
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Until there is nobody who asks."""
        lines = asyncio.StreamReader(_MOST_LINE)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer
        )
        while line := await lines.readline():
            asked = json.loads(line)
            if "cancel" not in asked:
                self._tasks[asked["id"]] = asyncio.create_task(self._deliver(asked["id"], asked))
            elif (task := self._tasks.pop(asked["cancel"], None)) is not None:
                task.cancel()
                given_up = fault("timeout", "given up") | {"id": asked["cancel"], "seconds": 0.0}
                self._said.put(json.dumps(given_up) + "\n")

    async def _deliver(self, number: int, asked: Asked) -> None:
        if "about" in asked:
            known = {} if self._priced is None else prices.limits(self._priced)
            told = json.dumps({"keys": self._names, **known})
            reply: Reply = {"text": told, "finish": "whole", "seconds": 0.0}
        else:
            reply = await _answer(asked, *self._ways["look" in asked])
        if self._priced is not None and "prompt_tokens" in reply:
            reply["usd"] = prices.usd(self._priced, reply)
        blotted = {name: self._blotted(value) for name, value in reply.items()}
        self._said.put(json.dumps({"id": number, **blotted}) + "\n")
        self._tasks.pop(number, None)

    def _blotted(self, value: Any) -> Any:
        for key in self._secrets if isinstance(value, str) else ():
            value = value.replace(key, "[key]")
        return value


async def _answer(asked: Asked, speak: Speaker, read_error: Reader) -> Reply:
    """What came of one request; raises nothing but that it is cancelled."""
    begun, limit = time.monotonic(), float(asked["limit_s"])
    try:
        async with asyncio.timeout(limit) as clock:
            reply = await speak(asked)
    except MemoryError:
        reply = fault("malformed", "the answer does not fit the memory")
    except Exception as error:
        late = clock.expired()
        reply = fault("timeout", f"no whole answer within {limit:g} s") if late else read_error(error)
    return reply | {"seconds": time.monotonic() - begun}
