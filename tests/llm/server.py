"""A server on loopback that speaks OpenAI's chat protocol, as far as a test's script says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

READY = "ready"


@dataclass(frozen=True)
class Say:
    """An answer. `raw` replaces the body, `length` what the header says of it; `wait_s` comes first, `drip_s`
    between each 16 bytes of it; `hang_up` is none."""

    text: str | None = ""
    status: int = 200
    finish: str = "stop"
    refusal: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    raw: bytes | None = None
    length: int | None = None
    wait_s: float = 0.0
    drip_s: float = 0.0
    hang_up: bool = False

    def body(self) -> bytes:
        if self.raw is not None:
            return self.raw
        if self.status != 200:
            return json.dumps({"error": {"message": self.text, "code": None}}).encode()
        message = {"role": "assistant", "content": self.text, "refusal": self.refusal}
        return json.dumps(
            {
                "id": "x",
                "object": "chat.completion",
                "created": 1,
                "model": "scripted",
                "choices": [{"index": 0, "finish_reason": self.finish, "message": message}],
                "usage": {
                    "prompt_tokens": 100,
                    "completion_tokens": 10,
                    "total_tokens": 110,
                    "prompt_tokens_details": {"cached_tokens": 40},
                },
            }
        ).encode()


Script = Callable[[int, dict[str, Any]], Say]
"""The answer to request number n, from 1 on, the first one of a run not among them."""
Greeting = Callable[[dict[str, Any]], Say]
"""The answer to a request that tries a model before a run."""


@dataclass
class Scripted:
    """A running server: its address and what it was asked."""

    base: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    looks: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    stop: Callable[[], None] = lambda: None

    @property
    def prompts(self) -> list[str]:
        """The last message of each request that asked for programs."""
        return [request["messages"][-1]["content"] for request in self.requests]


def in_turn(*answers: Say | str) -> Script:
    """One after the other, the last one for ever."""
    said: Sequence[Say] = [Say(one) if isinstance(one, str) else one for one in answers]
    return lambda number, request: said[min(number, len(said)) - 1]


@contextmanager
def serving(
    script: Script, *, hello: Say | Greeting | None = None, pages: Mapping[str, Say] | None = None
) -> Iterator[Scripted]:
    """Serves on a free port. The request that tries a model before a run is answered by `hello`; `pages` are
    what stands at other paths."""
    told = Scripted("")
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/chat/completions":
                self.page(request)
                return
            with lock:
                told.keys.append(self.headers.get("Authorization", ""))
                greeting = "one word: ready" in request["messages"][-1]["content"]
                if not greeting:
                    told.requests.append(request)
                if not greeting:
                    say = script(len(told.requests), request)
                elif callable(hello):
                    say = hello(request)
                else:
                    say = hello or Say(READY)
            self.say(say)

        def say(self, say: Say) -> None:
            time.sleep(say.wait_s)
            if say.hang_up:
                self.close_connection = True
                return
            body = say.body()
            self.send_response(say.status)
            self.send_header("Content-Type", say.content_type)
            self.send_header("Content-Length", str(len(body) if say.length is None else say.length))
            for name, value in say.headers:
                self.send_header(name, value)
            self.end_headers()
            try:
                for at in range(0, len(body), 16) if say.drip_s else ():
                    self.wfile.write(body[at : at + 16])
                    self.wfile.flush()
                    time.sleep(say.drip_s)
                if not say.drip_s:
                    self.wfile.write(body)
            except OSError:
                return
            if say.length is not None:
                self.close_connection = True

        def do_GET(self) -> None:
            self.page({})

        def page(self, request: dict[str, Any]) -> None:
            told.looks.append((self.path, request))
            told.keys.append(self.headers.get("Authorization", ""))
            self.say((pages or {}).get(self.path, Say("no such page", status=404)))

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    stopped = threading.Event()

    def stop() -> None:
        if not stopped.is_set():
            stopped.set()
            server.shutdown()
            server.server_close()

    told.base, told.stop = f"http://127.0.0.1:{server.server_address[1]}/v1", stop
    try:
        yield told
    finally:
        stop()
