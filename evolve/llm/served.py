"""What a model's server says of itself, on the pages that the servers of this kind have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from evolve.ir.errors import NegativeAnswerError
from evolve.llm.faults import Fault
from evolve.llm.model import Model
from evolve.llm.request import Answer, Request, Wait
from evolve.llm.window import ASSUMED, LEAST

_MOST_CONTEXT = 100_000_000
_SERVED_BY_OLLAMA = 4096
"""The context that Ollama serves where neither the model nor the user says another."""


class Asked(Protocol):
    """The client of a model. See `llm.client.Client`."""

    model: Model
    grammar_field: str

    def ask(self, request: Request, wait: Wait = ...) -> Answer:
        """The answer to a request. Raises Fault."""
        ...

    def look(self, path: str, body: Mapping[str, Any] | None = ..., wait: Wait = ...) -> Any:
        """The JSON at a path of the server's root. Raises Fault."""
        ...

    def about(self) -> Mapping[str, Any]:
        """What is known of the model without asking its server."""
        ...


def listed(client: Asked) -> list[str]:
    """The models that a server of one's own says it has; none where it does not say."""
    page = None if client.model.api_base is None else read_page(client, "/v1/models", None)
    return [name for one in _list(at(page, "data")) if isinstance(name := at(one, "id"), str)]


def context_of(client: Asked, given: int | None = None) -> tuple[int, str]:
    """The context in tokens, and who says so.

    Raises NegativeAnswerError `model-failed` where it is too small for any prompt.
    """
    found = next(_told(client), None) if client.model.api_base is not None else _listed(client)
    if found is not None and (given is None or found[0] <= given):
        context, source = found
    elif given is not None:
        context, source = given, "--context"
    else:
        context, source = ASSUMED, "assumed: the server does not say, nor does --context"
    if context < LEAST:
        message = f"{client.model.text} has a context of {context} tokens ({source}), and {LEAST} are needed"
        raise NegativeAnswerError("model-failed", message, hint="serve it with a larger context")
    return context, source


def _told(client: Asked) -> Iterator[tuple[int, str]]:
    """What the pages of a server say, the surest first."""
    name = client.model.name
    for path, body, read in (
        ("/props", None, _of_llama_cpp),
        ("/v1/models", None, _of_models),
        ("/api/ps", None, _of_running),
        ("/api/show", {"model": name}, _of_ollama),
    ):
        page = read_page(client, path, body)
        size = None if page is None else _size(read(page, name))
        if size is not None:
            yield size, path


def _listed(client: Asked) -> tuple[int, str] | None:
    size = _size(client.about().get("max_input_tokens"))
    return None if size is None else (size, "litellm's table")


def read_page(client: Asked, path: str, body: Mapping[str, Any] | None) -> Any:
    try:
        return client.look(path, body)
    except Fault as fault:
        if fault.kind == "client-died":
            raise
        return None
    except (ValueError, RecursionError):  # nested as no page is
        return None


def _size(value: Any) -> int | None:
    right = isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST_CONTEXT
    return value if right else None


def _of_llama_cpp(page: Any, name: str) -> Any:
    """`n_ctx` is that of one slot, which is what a request gets."""
    return at(page, "default_generation_settings", "n_ctx")


def _of_models(page: Any, name: str) -> Any:
    """vLLM and SGLang say `max_model_len`, llama.cpp `meta.n_ctx`, others `context_length`."""
    entries = [one for one in _list(at(page, "data")) if isinstance(one, dict)]
    named = [one for one in entries if one.get("id") == name] or (entries if len(entries) == 1 else [])
    for one in named:
        for found in (one.get("max_model_len"), at(one, "meta", "n_ctx"), one.get("context_length")):
            if found is not None:
                return found
    return None


def _of_running(page: Any, name: str) -> Any:
    """Ollama's list of what is loaded, with the context that it was loaded with."""
    for one in _list(at(page, "models")):
        if name in (at(one, "name"), at(one, "model"), str(at(one, "name")).removesuffix(":latest")):
            return at(one, "context_length")
    return None


def _of_ollama(page: Any, name: str) -> Any:
    """What the model's own parameters set; else what is served by default, or less if it cannot take that."""
    for line in str(at(page, "parameters") or "").splitlines():
        key, _, value = line.strip().partition(" ")
        if key == "num_ctx" and value.strip().isdecimal():
            return int(value.strip()[:12])
    told = at(page, "model_info")
    sizes = (
        [v for k, v in told.items() if str(k).endswith(".context_length")] if isinstance(told, dict) else []
    )
    return next((min(size, _SERVED_BY_OLLAMA) for size in map(_size, sizes) if size is not None), None)


def at(page: Any, *keys: str) -> Any:
    """What a page has there; pages need not be what they should be."""
    for key in keys:
        page = page.get(key) if isinstance(page, dict) else None
    return page


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
