"""What a model and its server can do, found out by tiny requests before a run.

Whether it answers, and how fast; how large its context is, as far as the server says; how its count of
tokens compares with the rule's; and whether it keeps to a grammar or a schema. The last is asked for a word
made up on the spot: the question names another one, so only an answer that was constrained is that word.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from evolve.dsl.reference import compact_reference
from evolve.dsl.registry import statements
from evolve.ir.errors import EvolveError, NegativeAnswerError
from evolve.llm.faults import AGAIN, Fault
from evolve.llm.model import PROVIDERS, Model
from evolve.llm.patience import Patience
from evolve.llm.request import Answer, Request, Wait
from evolve.llm.window import ASSUMED, LEAST, tokens

GRAMMAR_FIELDS = ("grammar", "structured_outputs", "guided_grammar", "ebnf")
"""Where servers take a grammar: llama.cpp, vLLM and its older versions, SGLang."""
_HELLO = [{"role": "user", "content": "Answer with the one word: ready"}]
_USABLE = frozenset(("empty", "refusal"))
"""What a model may say to that and still be of use."""
_TRIES = Patience(attempts=3, first_s=0.5, most_s=5.0)
_WORD = "bcdfghjkmpqvwxz"
_MOST_WORD, _MOST_THOUGHT = 32, 1024
"""Tokens of an answer that is a word: of a server of one's own, and of one whose models may think first."""
_LEAST_SCALE, _MOST_SCALE = 0.5, 4.0
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


@dataclass(frozen=True)
class Probe:
    """What was found.

    `context` is in tokens, and `context_from` says who said so; `scale` is the server's count of tokens over
    the rule's (`llm.window`), 1 where it does not count; `grammar` is the field in which the server takes a
    grammar, '' where it keeps to none; `schema_kept`, whether it keeps to a JSON schema; `seconds` is how
    long the first answer took.
    """

    model: str
    seconds: float
    context: int
    context_from: str
    scale: float
    scale_from: str
    grammar: str
    schema_kept: bool


def probe(client: Asked, given: int | None = None) -> Probe:
    """Finds out. `given` is what `--context` says: no larger context is used.

    Leaves the client with the field for grammars. Raises NegativeAnswerError `model-failed` where the server,
    the key or the model is not what it should be.
    """
    seconds = reach(client)
    context, context_from = context_of(client, given)
    scale, scale_from = scale_of(client)
    return Probe(
        model=client.model.text,
        seconds=round(seconds, 3),
        context=context,
        context_from=context_from,
        scale=round(scale, 3),
        scale_from=scale_from,
        grammar=grammar_of(client),
        schema_kept=keeps_schema(client),
    )


def reach(client: Asked) -> float:
    """The seconds that a first answer took.

    Raises NegativeAnswerError `model-failed`, and EvolveError `unknown-model` where nobody can be asked.
    """

    def ask() -> float:
        try:
            return client.ask(Request(_HELLO)).seconds
        except Fault as fault:
            if fault.kind in _USABLE:
                return fault.seconds
            raise

    try:
        return _TRIES.ask(ask)
    except Fault as fault:
        if fault.kind == "unknown-provider":
            raise EvolveError("unknown-model", fault.message, hint=PROVIDERS) from None
        where = client.model.api_base or "its own server"
        message = f"{client.model.text} at {where} does not answer: {fault.kind}: {fault.message}"
        hint = _key_hint(client) if fault.kind == "wrong-key" else fault.hint
        hint = hint or ("try again later" if fault.kind in AGAIN else None)
        raise NegativeAnswerError("model-failed", message, hint=hint) from None


def _key_hint(client: Asked) -> str:
    names: list[str] = []
    with suppress(Fault):
        names = client.about().get("keys") or []
    if names:
        return f"is what {' and '.join(names)} holds this server's key?"
    return f"no key is set: export {client.model.key_name or 'the one that belongs to this server'}"


def listed(client: Asked) -> list[str]:
    """The models that a server of one's own says it has; none where it does not say."""
    page = None if client.model.api_base is None else _page(client, "/v1/models", None)
    return [name for one in _list(_at(page, "data")) if isinstance(name := _at(one, "id"), str)]


# ---- the context


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
        page = _page(client, path, body)
        size = None if page is None else _size(read(page, name))
        if size is not None:
            yield size, path


def _listed(client: Asked) -> tuple[int, str] | None:
    size = _size(client.about().get("max_input_tokens"))
    return None if size is None else (size, "litellm's table")


def _page(client: Asked, path: str, body: Mapping[str, Any] | None) -> Any:
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
    return _at(page, "default_generation_settings", "n_ctx")


def _of_models(page: Any, name: str) -> Any:
    """vLLM and SGLang say `max_model_len`, llama.cpp `meta.n_ctx`, others `context_length`."""
    entries = [one for one in _list(_at(page, "data")) if isinstance(one, dict)]
    named = [one for one in entries if one.get("id") == name] or (entries if len(entries) == 1 else [])
    for one in named:
        for found in (one.get("max_model_len"), _at(one, "meta", "n_ctx"), one.get("context_length")):
            if found is not None:
                return found
    return None


def _of_running(page: Any, name: str) -> Any:
    """Ollama's list of what is loaded, with the context that it was loaded with."""
    for one in _list(_at(page, "models")):
        if name in (_at(one, "name"), _at(one, "model"), str(_at(one, "name")).removesuffix(":latest")):
            return _at(one, "context_length")
    return None


def _of_ollama(page: Any, name: str) -> Any:
    """What the model's own parameters set; else what is served by default, or less if it cannot take that."""
    for line in str(_at(page, "parameters") or "").splitlines():
        key, _, value = line.strip().partition(" ")
        if key == "num_ctx" and value.strip().isdecimal():
            return int(value.strip()[:12])
    told = _at(page, "model_info")
    sizes = (
        [v for k, v in told.items() if str(k).endswith(".context_length")] if isinstance(told, dict) else []
    )
    return next((min(size, _SERVED_BY_OLLAMA) for size in map(_size, sizes) if size is not None), None)


def _at(page: Any, *keys: str) -> Any:
    """What a page has there; pages need not be what they should be."""
    for key in keys:
        page = page.get(key) if isinstance(page, dict) else None
    return page


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# ---- tokens


def scale_of(client: Asked) -> tuple[float, str]:
    """The server's count of tokens over the rule's, the larger of those of prose and of programs."""
    if client.model.api_base is None:
        return 1.0, "the rule"
    programs = "\n".join(example.program for one in statements().values() for example in one.examples)
    scales = []
    for text in (compact_reference(), programs):
        # llama.cpp reads `content`, vLLM `model` and `prompt`.
        page = _page(client, "/tokenize", {"content": text, "prompt": text, "model": client.model.name})
        found = _at(page, "tokens")
        if not isinstance(found, list) or not found:
            return 1.0, "the rule"
        scales.append(len(found) / tokens(text))
    return min(max(*scales, _LEAST_SCALE), _MOST_SCALE), "/tokenize"


# ---- what answers are held to


def grammar_of(client: Asked) -> str:
    """The field in which the server takes a grammar and keeps to it; '' if it does not."""
    if client.model.api_base is None:
        return ""
    for field in GRAMMAR_FIELDS:
        client.grammar_field = field
        word = _word()
        if _obeys(client, Request(_HELLO, grammar=f'root ::= "{word}"'), word.__eq__):
            return field
    client.grammar_field = GRAMMAR_FIELDS[0]
    return ""


def keeps_schema(client: Asked) -> bool:
    """Whether answers are held to a JSON schema."""
    word = _word()
    schema = {
        "type": "object",
        "properties": {"word": {"type": "string", "enum": [word]}},
        "required": ["word"],
        "additionalProperties": False,
    }

    def right(text: str) -> bool:
        with suppress(ValueError, RecursionError):
            return bool(json.loads(text) == {"word": word})
        return False

    return _obeys(client, Request(_HELLO, schema=schema), right)


def _obeys(client: Asked, request: Request, right: Callable[[str], bool]) -> bool:
    try:
        most = _MOST_THOUGHT if client.model.api_base is None else _MOST_WORD
        return right(client.ask(replace(request, most_tokens=most)).text.strip())
    except Fault as fault:
        if fault.kind == "client-died":
            raise
        return False


def _word() -> str:
    return "".join(secrets.choice(_WORD) for _ in range(7))
