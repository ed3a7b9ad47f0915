"""A server on loopback that answers as a test says, by the protocols of OpenAI, Anthropic and Ollama."""

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
PROMPT, COMPLETION, CACHED = 100, 10, 40
"""Tokens of every answer; those from the cache are among the prompt's."""


@dataclass(frozen=True)
class Say:
    """An answer: `text`, which with a `status` other than 200 is an error's message and with `tool` the input
    of a tool's call. `finish` and `code` as OpenAI calls them.

    `raw` replaces the body, `length` what the header says of it; `wait_s` comes first, `drip_s` between
    each 16 bytes of it; `hang_up` is none. A stream ends after `events`, or with the error `breaks`.
    """

    text: str | None = ""
    status: int = 200
    finish: str = "stop"
    code: str | None = None
    refusal: str | None = None
    tool: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str | None = None
    raw: bytes | None = None
    length: int | None = None
    wait_s: float = 0.0
    drip_s: float = 0.0
    hang_up: bool = False
    events: int | None = None
    breaks: str | None = None


def openai_body(say: Say) -> bytes:
    """A chat completion, or an error."""
    if say.status != 200:
        return json.dumps({"error": {"message": say.text, "code": say.code}}).encode()
    message = {"role": "assistant", "content": say.text, "refusal": say.refusal}
    usage = {
        "prompt_tokens": PROMPT,
        "completion_tokens": COMPLETION,
        "total_tokens": PROMPT + COMPLETION,
        "prompt_tokens_details": {"cached_tokens": CACHED},
    }
    return json.dumps(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [{"index": 0, "finish_reason": say.finish, "message": message}],
            "usage": usage,
        }
    ).encode()


_REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
}


def anthropic_body(say: Say) -> bytes:
    """A message as a stream of events, or an error."""
    if say.status != 200:
        told = {"type": _ERRORS.get(say.status, "api_error"), "message": say.text}
        return json.dumps({"type": "error", "error": told}).encode()
    reason = "refusal" if say.refusal is not None else _REASONS.get(say.finish, say.finish)
    fresh = PROMPT - CACHED - 20
    usage = {"input_tokens": fresh, "cache_read_input_tokens": CACHED, "cache_creation_input_tokens": 20}
    start = {
        "id": "x",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "usage": usage | {"output_tokens": 1},
    }
    block = {"type": "tool_use", "id": "t", "name": "answer", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": say.text}
    if not say.tool:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": say.text}
    said: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": COMPLETION}},
        {"type": "message_stop"},
    ]
    if not say.text:
        said = [one for one in said if "index" not in one]
    said = said[: say.events]
    if say.breaks is not None:
        said.append({"type": "error", "error": {"type": say.breaks, "message": "broken"}})
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in said).encode()


def ollama_body(say: Say) -> bytes:
    """An answer of Ollama's, or an error."""
    if say.status != 200:
        return json.dumps({"error": say.text}).encode()
    return json.dumps(
        {
            "model": "scripted",
            "created_at": "2025-01-01T00:00:00Z",
            "message": {"role": "assistant", "content": say.text},
            "done": True,
            "done_reason": say.finish,
            "prompt_eval_count": PROMPT,
            "eval_count": COMPLETION,
        }
    ).encode()


_SPOKEN = {
    "/v1/chat/completions": (openai_body, "application/json"),
    "/v1/messages": (anthropic_body, "text/event-stream"),
    "/api/chat": (ollama_body, "application/json"),
}


Script = Callable[[int, dict[str, Any]], Say]
"""The answer to request number n, from 1 on, the first one of a run not among them."""
Greeting = Callable[[dict[str, Any]], Say]
"""The answer to a request that tries a model before a run."""


@dataclass
class Scripted:
    """A running server: its address and what it was asked. `looks` are requests at other paths."""

    base: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    looks: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    stop: Callable[[], None] = lambda: None

    @property
    def prompts(self) -> list[str]:
        """The last message of each request that asked for programs."""
        return [request["messages"][-1]["content"] for request in self.requests]

    @property
    def root(self) -> str:
        """The address without `/v1`."""
        return self.base.removesuffix("/v1")


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
            if self.path not in _SPOKEN:
                self.page(request)
                return
            with lock:
                told.keys.append(self.headers.get("Authorization") or self.headers.get("x-api-key", ""))
                greeting = "one word: ready" in str(request["messages"][-1]["content"])
                if not greeting:
                    told.requests.append(request)
                if not greeting:
                    say = script(len(told.requests), request)
                elif callable(hello):
                    say = hello(request)
                else:
                    say = hello or Say(READY)
            self.say(say, *_SPOKEN[self.path])

        def do_GET(self) -> None:
            self.page({})

        def page(self, request: dict[str, Any]) -> None:
            told.looks.append((self.path, request))
            told.keys.append(self.headers.get("Authorization", ""))
            self.say((pages or {}).get(self.path, Say("no such page", 404)), openai_body, "application/json")

        def say(self, say: Say, write: Callable[[Say], bytes], kind: str) -> None:
            time.sleep(say.wait_s)
            if say.hang_up:
                self.close_connection = True
                return
            body = write(say) if say.raw is None else say.raw
            self.send_response(say.status)
            self.send_header(
                "Content-Type", say.content_type or (kind if say.status == 200 else "application/json")
            )
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
