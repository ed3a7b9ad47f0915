"""What comes of a request: an answer with what it cost, or a fault. Plain JSON, as the courier tells it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Asked = Mapping[str, Any]
"""A request as it came through the pipe: the fields of `llm.request.Request`, and `limit_s`."""
Reply = dict[str, Any]
Speaker = Callable[[Asked], Awaitable[Reply]]
"""Asks a model once; raises whatever its library does."""
Reader = Callable[[Exception], Reply]
"""What an error of that library says."""

NO_KEY = "none"
"""What a server of one's own is told, which wants some key and looks at none."""
MOST_CHARS = 200_000
"""Of an answer; what a model says after that is cut off."""
_MOST_MESSAGE = 300
UNSPENT: Reply = {"unspent": True}
"""Of a fault: nothing was done for the request, so it costs nothing."""
_BUSY = (503, 529)
"""Statuses of a server that takes no more requests."""
_FAILED = (408, 409)
"""Those below 500 that are a server's, not a request's."""


def said(text: Any, counts: Reply, *, whole: bool) -> Reply:
    """An answer, if it is one: a text that says something."""
    if text is not None and not isinstance(text, str):
        return fault("malformed", "the content of the answer is not a text") | counts
    if not text or not text.strip():
        return fault("empty", "the answer is empty") | counts
    cut = not whole or len(text) > MOST_CHARS
    return {"text": _whole(text[:MOST_CHARS]), "finish": "cut" if cut else "whole", **counts}


def fault(kind: str, message: str) -> Reply:
    """A fault (`llm.faults.KINDS`), its message in a line."""
    return {"fault": kind, "message": _whole(" ".join(message.split())[:_MOST_MESSAGE])}


def _whole(text: str) -> str:
    """Without halves of characters, which JSON can say and no file can hold."""
    return text.encode("utf-8", "replace").decode()


def count(value: Any) -> int | None:
    """A number of tokens, where a server tells one."""
    right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 48
    return value if right else None


def of_status(status: int, message: str, headers: Mapping[str, str], code: Any = None) -> Reply:
    """A status of HTTP that is no success. Who says no costs nothing; who fails may have done the work."""
    refused = status in _BUSY or (400 <= status < 500 and status not in _FAILED)
    return _of_status(status, message, headers, code) | (UNSPENT if refused else {})


def _of_status(status: int, message: str, headers: Mapping[str, str], code: Any) -> Reply:
    text = f"HTTP {status}: {message}"
    if code == "insufficient_quota" or status == 402:
        return fault("no-quota", text)
    if status == 429:
        return fault("rate-limited", text) | {"after_s": _seconds(headers.get("retry-after"))}
    if status in (401, 403):
        return fault("wrong-key", text)
    if status == 404:
        return fault("unknown-model", text)
    if status in _FAILED or status >= 500:
        return fault("server-error", text) | {"after_s": _seconds(headers.get("retry-after"))}
    return fault("bad-request", text)


def of_error(error: Exception, package: Any) -> Reply:
    """An error of openai's package, or of one with the same classes."""
    match error:
        case package.APITimeoutError():
            return fault("timeout", "no answer in time")
        case package.APIStatusError():
            return of_status(
                error.status_code, error.message, error.response.headers, getattr(error, "code", None)
            )
        case package.APIConnectionError():
            return of_connection(error)
        case package.APIError() | ValueError():
            return fault("malformed", f"the answer cannot be read: {error}")
        case _ if "TransportError" in {kind.__name__ for kind in type(error).__mro__}:  # in midst of a stream
            return of_connection(error)
        case _:
            return fault("malformed", f"{type(error).__name__}: {error}")


def of_connection(error: BaseException) -> Reply:
    """A connection that was not made, or ended early: what its innermost cause says."""
    chain = causes(error)
    what = next((f"{type(one).__name__}: {one}" for one in reversed(chain) if str(one)), str(error))
    made = not {"ConnectError", "ConnectTimeout"} & {type(one).__name__ for one in chain}
    if made:
        return fault("unreachable", f"the connection broke off: {what}")
    return fault("unreachable", what) | UNSPENT


def causes(error: BaseException) -> list[BaseException]:
    """An error and what it came from, the first cause last."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    return chain


def _seconds(text: str | None) -> float:
    try:
        seconds = float(text or 0)
    except ValueError:  # a date, which clocks of two machines would have to agree on
        return 0.0
    return seconds if 0 <= seconds < 1e6 else 0.0
