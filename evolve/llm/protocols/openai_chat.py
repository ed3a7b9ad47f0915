"""OpenAI's chat protocol, through openai's package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import openai

from evolve.llm.model import KEY_OF
from evolve.llm.protocols.reply import NO_KEY, Asked, Reply, Speaker, count, fault, of_error, said

KEY = KEY_OF["openai"]


def keys(model: str, held: Mapping[str, str], base: str | None) -> set[str]:
    """The variables that this model's server is told."""
    return {KEY}


def speaker(model: str, held: Mapping[str, str], base: str | None) -> Speaker:
    """Asks the server at `base`, OpenAI's own where that is None."""
    client = openai.AsyncOpenAI(api_key=held.get(KEY) or NO_KEY, base_url=base, max_retries=0)

    async def ask(asked: Asked) -> Reply:
        most = "max_completion_tokens" if base is None else "max_tokens"  # others know the older name
        arguments = {
            "model": model,
            "messages": asked["messages"],
            "timeout": asked["limit_s"],
            most: asked["most_tokens"],
            **options(asked, base is not None),
        }
        if asked["grammar"] is not None and base is not None:
            field = asked["grammar_field"]
            told = {"grammar": asked["grammar"]} if field == "structured_outputs" else asked["grammar"]
            arguments["extra_body"] = {field: told}
        return read(await client.chat.completions.create(**arguments))

    return ask


def options(asked: Asked, own: bool) -> dict[str, Any]:
    """Arguments that a request need not have. `own`: of a server of one's own."""
    told = {name: asked[name] for name in ("temperature", "stop") if asked[name] is not None}
    if asked["schema"] is not None:
        schema = {"name": "answer", "schema": asked["schema"], "strict": True}
        told["response_format"] = {"type": "json_schema", "json_schema": schema}
    if asked["seed"] is not None and own:
        told["seed"] = asked["seed"]
    return told


def read(completion: Any) -> Reply:
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
    return of_error(error, openai)
