"""The process that holds a model's key and talks to its server.

It reads one JSON object a line, a request (`protocols.reply.Asked` with an `id`), a page that is sought
(`{id, look, body, limit_s}`) or `{cancel: id}`, and
answers with one a line as answers come: `{id, text, finish, seconds, prompt_tokens, completion_tokens,
cached_tokens, usd}`, or `{id, fault, message, after_s, seconds}`. The key comes in its environment and
leaves it only in requests: whatever a server answers, the key's text is blotted out.

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

from evolve.llm.protocols import looking
from evolve.llm.protocols.reply import Asked, Reader, Reply, Speaker, fault

_SPOKEN = {"openai": "openai_chat"}
"""The module of `protocols` for each protocol."""
_MOST_LINE = 64 << 20
"""Bytes of a request."""
_SECRET = 8
"""What has fewer characters is no secret, such as the `none` or `EMPTY` of a server of one's own."""
_MEMORY_BYTES = 4 << 30
_PR_SET_PDEATHSIG = 1


def main(protocol: str, key_name: str, base: str, local: str) -> None:
    """Serves requests until standard input ends. `local`: no proxy leads to the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    with suppress(Exception):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    key = os.environ.pop(key_name, "")
    os.environ.pop("OPENAI_LOG", None)
    if local:
        os.environ["NO_PROXY"] = os.environ["no_proxy"] = "*"
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing that a library prints may look like an answer
    spoken = import_module(f"evolve.llm.protocols.{_SPOKEN[protocol]}")
    ways = {
        False: (spoken.speaker(key, base or None), spoken.read_error),
        True: (looking.looker(key, base or None), looking.read_error),
    }
    said: SimpleQueue[str] = SimpleQueue()
    # A thread of its own, so that nobody's time runs out while the pipe is full.
    Thread(target=_write, args=(said, out), daemon=True).start()
    asyncio.run(_serve(ways, key, said))


def _write(said: SimpleQueue[str], out: Any) -> None:
    while True:
        out.write(said.get())
        out.flush()


async def _serve(ways: Mapping[bool, tuple[Speaker, Reader]], key: str, said: SimpleQueue[str]) -> None:
    """Answers requests as they come, each in its own time."""
    lines = asyncio.StreamReader(_MOST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer
    )
    tasks: dict[int, asyncio.Task[None]] = {}

    async def deliver(number: int, asked: Asked) -> None:
        reply = await serve(asked, *ways["look" in asked])
        told = {name: _blotted(value, key) for name, value in reply.items()}
        said.put(json.dumps({"id": number, **told}) + "\n")
        del tasks[number]

    while line := await lines.readline():
        asked = json.loads(line)
        if "cancel" in asked:
            task = tasks.pop(asked["cancel"], None)
            if task is not None:
                task.cancel()
        else:
            tasks[asked["id"]] = asyncio.create_task(deliver(asked["id"], asked))


def _blotted(value: Any, key: str) -> Any:
    return value.replace(key, "[key]") if isinstance(value, str) and len(key) >= _SECRET else value


async def serve(asked: Asked, speak: Speaker, read_error: Reader) -> Reply:
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
