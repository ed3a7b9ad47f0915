"""Every other protocol, through litellm, which calls nobody but the model's server.

Its table of prices, its tokenizers and the like are those that it brings along, and it reads no `.env` file:
what it needs to know for that has to stand in the environment before it is imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_OFFLINE_MODE": "true",
    "LITELLM_MODE": "PRODUCTION",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
os.environ.update(QUIET)

import litellm  # noqa: E402
import openai  # noqa: E402

from evolve.llm.keys import is_key  # noqa: E402
from evolve.llm.protocols import openai_chat  # noqa: E402
from evolve.llm.protocols.reply import (  # noqa: E402
    UNSPENT,
    Asked,
    Reply,
    Speaker,
    causes,
    fault,
    of_error,
    of_status,
)

_ALSO = {
    "bedrock": ("AWS",),
    "gemini": ("GOOGLE",),
    "huggingface": ("HF",),
    "sagemaker": ("AWS",),
    "together_ai": ("TOGETHER",),
    "vertex_ai": ("GOOGLE", "VERTEX"),
    "watsonx": ("WX",),
}
"""How names of keys begin that do not begin with the provider's."""

litellm.telemetry = False
litellm.suppress_debug_info = True
litellm.drop_params = True  # a server that knows no schema is asked without one


def keys(model: str, held: Mapping[str, str], base: str | None) -> set[str]:
    """The variables that are this model's provider's. The environment has none of them."""
    provider = model.partition("/")[0]
    if provider in ("ollama", "ollama_chat") and base is not None:
        os.environ["OLLAMA_API_BASE"] = base  # of which litellm asks what the model can do
    begin = (provider.upper(), *_ALSO.get(provider, ()))
    return {name for name in held if name.upper().startswith(begin)} | set(_wanted(model))


def _wanted(model: str) -> list[str]:
    """Keys without which litellm finds the model out of reach, one of them or all."""
    missing = litellm.validate_environment(model)["missing_keys"]
    return sorted(name for name in missing if is_key(name.encode()))


def speaker(model: str, held: Mapping[str, str], base: str | None) -> Speaker:
    """Asks the server at `base`, the provider's own where that is None."""
    wanted = _wanted(model)
    provider, _, name = model.partition("/")
    if provider == "ollama":  # whose other protocol knows no roles
        model = f"ollama_chat/{name}"
    os.environ.update(held)  # where litellm looks for them

    async def ask(asked: Asked) -> Reply:
        try:
            litellm.get_llm_provider(model)
        except litellm.BadRequestError:
            return fault("unknown-provider", f"litellm knows no provider {provider!r}") | UNSPENT
        if wanted and not held and base is None:
            message = f"{provider}/{name} needs a key, and {' or '.join(wanted)} is not set"
            return fault("no-key", message) | UNSPENT
        return openai_chat.read(
            await litellm.acompletion(
                model=model,
                messages=asked["messages"],
                api_base=base,
                timeout=asked["limit_s"],
                max_tokens=asked["most_tokens"],
                num_retries=0,
                max_retries=0,
                **openai_chat.options(asked, base is not None),
            )
        )

    return ask


def read_error(error: Exception) -> Reply:
    """What an error of litellm says, whose classes are openai's.

    What is wrong with an answer it often calls a fault of the connection, and statuses that it does not
    expect an error without one.
    """
    first, status = causes(error)[-1], getattr(error, "status_code", None)
    if isinstance(error, openai.APIConnectionError):  # which timeouts are too
        ours = type(first).__module__ in ("builtins", "json.decoder") and not isinstance(first, OSError)
        if ours and not isinstance(error, openai.APITimeoutError):
            return fault("malformed", f"the answer cannot be read: {type(first).__name__}: {first}")
    elif isinstance(status, int) and (isinstance(error, openai.APIStatusError) or 400 <= status < 500):
        return of_status(status, str(error), getattr(error, "litellm_response_headers", None) or {})
    return of_error(error, openai)
