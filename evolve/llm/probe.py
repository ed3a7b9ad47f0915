"""What a model and its server can do, found out by tiny requests before a run.

Whether it answers, and how fast; how large its context is, as far as the server says; how its count of
tokens compares with the rule's; and whether it keeps to a grammar or a schema. The last is asked for a word
made up on the spot: the question names another one, so only an answer that was constrained is that word.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from evolve.dsl.reference import compact_reference
from evolve.dsl.registry import statements
from evolve.ir.errors import EvolveError, NegativeAnswerError
from evolve.llm.faults import AGAIN, Fault
from evolve.llm.model import PROVIDERS
from evolve.llm.patience import Patience
from evolve.llm.request import Request
from evolve.llm.served import Asked, at, context_of, read_page
from evolve.llm.window import tokens

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


# ---- tokens


def scale_of(client: Asked) -> tuple[float, str]:
    """The server's count of tokens over the rule's, the larger of those of prose and of programs."""
    if client.model.api_base is None:
        return 1.0, "the rule"
    programs = "\n".join(example.program for one in statements().values() for example in one.examples)
    scales = []
    for text in (compact_reference(), programs):
        # llama.cpp reads `content`, vLLM `model` and `prompt`.
        page = read_page(client, "/tokenize", {"content": text, "prompt": text, "model": client.model.name})
        found = at(page, "tokens")
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
