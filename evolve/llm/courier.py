"""The process that holds a model's key and talks to its server.

It reads one JSON object a line, `{id, model, base, messages, limit_s, most_tokens}`, and answers with one
a line: `{id, text, finish, prompt_tokens, completion_tokens, cached_tokens}`, or
`{id, fault, message, after_s}`. The key comes in its environment and leaves it only in requests: whatever
a server answers, the key's text is blotted out.

`openai` is imported here alone, so the process that searches stays light, has no threads or sockets of a
client when it forks, and can give up on a request whatever the client does with it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

NO_KEY = "none"
"""What a server of one's own is told, which wants some key and looks at none."""
MOST_CHARS = 200_000
"""Of an answer; what a model says after that is cut off."""
_MOST_MESSAGE = 300
_MEMORY_BYTES = 4 << 30
_PR_SET_PDEATHSIG = 1

Request = Mapping[str, Any]
Reply = dict[str, Any]
Create = Callable[..., Any]


class _Late(BaseException):
    """The request's time is up. No `except Exception` of a library stops it."""


def main(key_name: str, local: str) -> None:
    """Serves requests until standard input ends. `local`: no proxy leads to the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGALRM, _late)
    with suppress(Exception):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    key = os.environ.pop(key_name, "") or NO_KEY
    os.environ.pop("OPENAI_LOG", None)
    if local:
        os.environ["NO_PROXY"] = os.environ["no_proxy"] = "*"
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing that a library prints may look like an answer
    creates: dict[Any, Create] = {}
    for line in sys.stdin:
        request = json.loads(line)
        base = request["base"]
        if base not in creates:
            creates[base] = _client(key, base)
        reply = {name: _blotted(value, key) for name, value in serve(request, creates[base]).items()}
        answers.write(json.dumps({"id": request["id"], **reply}) + "\n")
        answers.flush()


def _late(number: int, frame: object) -> None:
    raise _Late


def _blotted(value: Any, key: str) -> Any:
    # What is shorter is no secret, such as the `none` or `EMPTY` of a server of one's own.
    return value.replace(key, "[key]") if isinstance(value, str) and len(key) >= 8 else value


def _client(key: str, base: str | None) -> Create:
    import openai

    client = openai.OpenAI(api_key=key, base_url=base, max_retries=0)
    return client.chat.completions.create


def serve(request: Request, create: Create) -> Reply:
    """What came of one request; never raises."""
    limit = float(request["limit_s"])
    try:
        signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            most = "max_tokens" if request["base"] else "max_completion_tokens"
            completion = create(
                model=request["model"],
                messages=request["messages"],
                timeout=limit,
                **{most: request["most_tokens"]},
            )
            return _read(completion)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _Late:
        return _fault("timeout", f"no whole answer within {limit:g} s")
    except MemoryError:
        return _fault("malformed", "the answer does not fit the memory")
    except Exception as error:
        return _failed(error, limit)


def _read(completion: Any) -> Reply:
    """The answer of a completion. What a server sends need not be one: nothing in it is taken on trust."""
    choices = getattr(completion, "choices", None)
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = getattr(choice, "message", None)
    if message is None:
        return _fault("malformed", "the answer is not a chat completion")
    usage = getattr(completion, "usage", None)
    details = getattr(usage, "prompt_tokens_details", None)
    counts = {
        "prompt_tokens": _count(getattr(usage, "prompt_tokens", None)),
        "completion_tokens": _count(getattr(usage, "completion_tokens", None)),
        "cached_tokens": _count(getattr(details, "cached_tokens", None)),
    }
    finish, text = getattr(choice, "finish_reason", None), getattr(message, "content", None)
    refusal = getattr(message, "refusal", None)
    if refusal or finish == "content_filter":
        said = refusal if isinstance(refusal, str) else "the content filter stopped it"
        return _fault("refusal", said) | counts
    if text is not None and not isinstance(text, str):
        return _fault("malformed", "the content of the answer is not a text") | counts
    if not text or not text.strip():
        return _fault("empty", "the answer is empty") | counts
    cut = finish == "length" or len(text) > MOST_CHARS
    return {"text": text[:MOST_CHARS], "finish": "cut" if cut else "whole", **counts}


def _count(value: Any) -> int | None:
    right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 48
    return value if right else None


def _failed(error: Exception, limit: float) -> Reply:
    import openai

    match error:
        case openai.APITimeoutError():
            return _fault("timeout", f"no answer within {limit:g} s")
        case openai.APIStatusError():
            return _status(error)
        case openai.APIConnectionError():
            cause = error.__cause__
            what = f"{type(cause).__name__}: {cause}" if cause is not None else str(error)
            refused = type(cause).__name__ in ("ConnectError", "ConnectTimeout")
            return _fault("unreachable", what if refused else f"the connection broke off: {what}")
        case openai.APIError() | ValueError():
            return _fault("malformed", f"the answer cannot be read: {error}")
        case _:
            return _fault("malformed", f"{type(error).__name__}: {error}")


def _status(error: Any) -> Reply:
    """A status of HTTP that is no success."""
    status, headers = int(error.status_code), error.response.headers
    said = f"HTTP {status}: {error.message}"
    code = getattr(error, "code", None)
    if code == "insufficient_quota" or status == 402:
        return _fault("no-quota", said)
    if status == 429:
        return _fault("rate-limited", said) | {"after_s": _seconds(headers.get("retry-after"))}
    if status in (401, 403):
        return _fault("wrong-key", said)
    if status == 404:
        return _fault("unknown-model", said)
    if status in (408, 409) or status >= 500:
        return _fault("server-error", said) | {"after_s": _seconds(headers.get("retry-after"))}
    return _fault("bad-request", said)


def _seconds(text: str | None) -> float:
    try:
        seconds = float(text or 0)
    except ValueError:  # a date, which clocks of two machines would have to agree on
        return 0.0
    return seconds if 0 <= seconds < 1e6 else 0.0


def _fault(kind: str, message: str) -> Reply:
    return {"fault": kind, "message": " ".join(message.split())[:_MOST_MESSAGE]}
