"""Anthropic's messages protocol, through anthropic's package.

The system prompt, which is the same in all of a run's requests, is marked for the server's cache; an answer
under a schema is the input of a tool that has to be called. Answers are streamed, so that no proxy takes
a long one for a dead connection; one that breaks off is none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anthropic

from evolve.llm.model import KEY_OF
from evolve.llm.protocols.reply import NO_KEY, Asked, Reply, Speaker, count, fault, of_error, of_status, said

KEY = KEY_OF["anthropic"]
_TOOL = "answer"
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Of an error that comes when the answer has begun."""


def keys(model: str, held: Mapping[str, str], base: str | None) -> set[str]:
    """The variables that this model's server is told."""
    return {KEY}


def speaker(model: str, held: Mapping[str, str], base: str | None) -> Speaker:
    """Asks the server at `base`, Anthropic's own where that is None."""
    root = None if base is None else base.rstrip("/").removesuffix("/v1")
    client = anthropic.AsyncAnthropic(api_key=held.get(KEY) or NO_KEY, base_url=root, max_retries=0)

    async def ask(asked: Asked) -> Reply:
        async with client.messages.stream(model=model, **_arguments(asked)) as stream:
            return _read(await stream.get_final_message())

    return ask


def _arguments(asked: Asked) -> dict[str, Any]:
    system = "\n".join(one["content"] for one in asked["messages"] if one["role"] == "system")
    arguments: dict[str, Any] = {
        "messages": [one for one in asked["messages"] if one["role"] != "system"],
        "max_tokens": asked["most_tokens"],
        "timeout": asked["limit_s"],
    }
    if system:
        arguments["system"] = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
    if asked["temperature"] is not None:
        # Not every version of the package has the argument, since not every model takes it.
        arguments["extra_body"] = {"temperature": asked["temperature"]}
    stop = [text for text in asked["stop"] or () if text.strip()]  # the server takes no others
    if stop:
        arguments["stop_sequences"] = stop
    if asked["schema"] is not None:
        arguments["tools"] = [{"name": _TOOL, "description": "The answer.", "input_schema": asked["schema"]}]
        arguments["tool_choice"] = {"type": "tool", "name": _TOOL}
    return arguments


def _read(message: Any) -> Reply:
    """The answer of a message. What a server sends need not be one: nothing in it is taken on trust."""
    content, usage = getattr(message, "content", None), getattr(message, "usage", None)
    read = count(getattr(usage, "cache_read_input_tokens", None))
    written = count(getattr(usage, "cache_creation_input_tokens", None))
    fresh = count(getattr(usage, "input_tokens", None))
    counts = {
        "prompt_tokens": None if fresh is None else fresh + (read or 0) + (written or 0),
        "completion_tokens": count(getattr(usage, "output_tokens", None)),
        "cached_tokens": read,
        "written_tokens": written,
    }
    reason = getattr(message, "stop_reason", None)
    if reason == "refusal":
        return fault("refusal", "the model stopped itself") | counts
    if reason is None:
        # The count of what was generated comes with the end; an earlier one is of the beginning.
        counts["completion_tokens"] = None
        return fault("unreachable", "the connection broke off: the answer has no end") | counts
    if not isinstance(content, list):
        return fault("malformed", "the answer is not a message") | counts
    whole = reason not in ("max_tokens", "model_context_window_exceeded")
    return said("".join(map(_text, content)), counts, whole=whole)


def _text(block: Any) -> str:
    text = getattr(block, "text", "")
    if getattr(block, "type", None) == "tool_use":
        text = json.dumps(getattr(block, "input", None), ensure_ascii=False)
    return text if isinstance(text, str) else ""


def read_error(error: Exception) -> Reply:
    """What an error of the package says."""
    if isinstance(error, AssertionError):  # the package found no event at all
        return fault("malformed", "the answer is not a stream of events")
    if not isinstance(error, anthropic.APIStatusError):
        return of_error(error, anthropic)
    told = error.body.get("error") if isinstance(error.body, dict) else None
    told = told if isinstance(told, dict) else {}
    message, kind = str(told.get("message") or error.message), told.get("type")
    status = error.status_code if error.status_code >= 400 else _STATUS.get(str(kind), 500)
    if status == 400 and "credit balance" in message:
        status = 402
    begun = {} if error.status_code >= 400 else {"unspent": False}
    return of_status(status, message, error.response.headers) | begun
