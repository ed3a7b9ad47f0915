"""OpenAI's chat protocol, through openai's package."""

from __future__ import annotations

from typing import Any

import openai

from evolve.llm.protocols.reply import (
    NO_KEY,
    Asked,
    Reply,
    Speaker,
    count,
    fault,
    of_connection,
    of_status,
    said,
)


def speaker(key: str, base: str | None) -> Speaker:
    """Asks the server at `base`, OpenAI's own where that is None."""
    client = openai.AsyncOpenAI(api_key=key or NO_KEY, base_url=base, max_retries=0)

    async def ask(asked: Asked) -> Reply:
        return _read(await client.chat.completions.create(**_arguments(asked, base is not None)))

    return ask


def _arguments(asked: Asked, own: bool) -> dict[str, Any]:
    """Of `create`. `own`: a server of one's own, which knows the older name of the limit."""
    arguments = {
        "model": asked["model"],
        "messages": asked["messages"],
        "timeout": asked["limit_s"],
        "max_tokens" if own else "max_completion_tokens": asked["most_tokens"],
    }
    for name in ("temperature", "stop"):
        if asked[name] is not None:
            arguments[name] = asked[name]
    if asked["schema"] is not None:
        schema = {"name": "answer", "schema": asked["schema"], "strict": True}
        arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
    if asked["seed"] is not None and own:
        arguments["seed"] = asked["seed"]
    if asked["grammar"] is not None and own:
        field = asked["grammar_field"]
        told = {"grammar": asked["grammar"]} if field == "structured_outputs" else asked["grammar"]
        arguments["extra_body"] = {field: told}
    return arguments


def _read(completion: Any) -> Reply:
    """The answer of a completion. What a server sends need not be one: nothing in it is taken on trust."""
    choices = getattr(completion, "choices", None)
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = getattr(choice, "message", None)
    if message is None:
        return fault("malformed", "the answer is not a chat completion")
    usage = getattr(completion, "usage", None)
    details = getattr(usage, "prompt_tokens_details", None)
    counts = {
        "prompt_tokens": count(getattr(usage, "prompt_tokens", None)),
        "completion_tokens": count(getattr(usage, "completion_tokens", None)),
        "cached_tokens": count(getattr(details, "cached_tokens", None)),
    }
    finish, refusal = getattr(choice, "finish_reason", None), getattr(message, "refusal", None)
    if refusal or finish == "content_filter":
        what = refusal if isinstance(refusal, str) else "the content filter stopped it"
        return fault("refusal", what) | counts
    return said(getattr(message, "content", None), counts, whole=finish != "length")


def read_error(error: Exception) -> Reply:
    """What an error of the package says."""
    match error:
        case openai.APITimeoutError():
            return fault("timeout", "no answer in time")
        case openai.APIStatusError():
            code = getattr(error, "code", None)
            return of_status(error.status_code, error.message, error.response.headers, code)
        case openai.APIConnectionError():
            return of_connection(error)
        case openai.APIError() | ValueError():
            return fault("malformed", f"the answer cannot be read: {error}")
        case _:
            return fault("malformed", f"{type(error).__name__}: {error}")
