"""What `evolve doctor --model` checks: key, reachability, latency, context, and what answers are held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from evolve.llm.client import Client

Probe: TypeAlias = "tuple[str, Callable[[], str], bool]"
"""As `cli.doctor` has them: a name, what finds out and says so or raises, and whether a run needs it."""
_LIMIT_S = 30.0
_TOKENS = 64
"""Of an answer to a probe."""


@contextmanager
def model_probes(text: str, api_base: str | None, context: int | None) -> Iterator[tuple[Probe, ...]]:
    """The checks of a model, in order; they may be made until the block ends.

    Raises EvolveError `unknown-model`, `usage`, `no-key` or `no-llm-extra`: what a run would raise at once.
    The keys leave this process's environment.
    """
    from evolve.ir.errors import EvolveError
    from evolve.llm.client import Client
    from evolve.llm.keys import has_key
    from evolve.llm.model import read_model
    from evolve.llm.probe import reach

    model = read_model(text, api_base)
    named = [] if model.key_name is None or not has_key(model.key_name) else [model.key_name]
    client = Client(model, _LIMIT_S, _TOKENS)
    where = model.api_base or "its own server"
    answered: list[float] = []

    def keys() -> str:
        found = named if model.key_name is not None else client.about()["keys"]
        missing = f"{model.key_name} is not" if model.key_name is not None else "no key is"
        return (
            f"{', '.join(found)} is set"
            if found
            else f"{missing} set, and a server of your own may want none"
        )

    def reached() -> str:
        answered.append(reach(client))
        return f"{where}, first answer after {answered[0]:.2f} s{_other_name(client)}"

    def then(find: Callable[[], str]) -> Callable[[], str]:
        """Asks only what has answered before, so that a server that hangs costs its time once."""

        def found() -> str:
            if not answered:
                raise EvolveError("not-asked", "not asked, since the model does not answer")
            return find()

        return found

    try:
        yield (
            ("model key", keys, True),
            ("model answers", reached, True),
            ("model context", then(lambda: _context(client, context)), True),
            ("model tokens", then(lambda: _tokens(client)), True),
            ("model grammar", then(lambda: _grammar(client)), False),
            ("model schema", then(lambda: _schema(client)), False),
        )
    finally:
        client.close()


def _other_name(client: Client) -> str:
    """Many servers answer whatever model they are asked for."""
    from evolve.llm.served import listed

    names, name = listed(client), client.model.name
    if not names or any(one in (name, f"{name}:latest") for one in names):
        return ""
    return f", by another name: it lists {', '.join(names[:3])}{', …' * (len(names) > 3)}, and no {name}"


def _context(client: Client, given: int | None) -> str:
    from evolve.agents.llm.hold import by_steps
    from evolve.agents.llm.tiers import tier_of
    from evolve.llm.served import context_of

    size, source = context_of(client, given)
    how = "one statement at a time" if by_steps("auto", size) else "whole programs"
    return f"{size} tokens ({source}): prompts of the tier {tier_of(size).name}, {how}"


def _tokens(client: Client) -> str:
    from evolve.llm.probe import scale_of

    scale, source = scale_of(client)
    return f"{scale:.2f} of the rule's count ({source})"


def _grammar(client: Client) -> str:
    from evolve.ir.errors import EvolveError
    from evolve.llm.probe import grammar_of

    field = grammar_of(client)
    if not field:
        raise EvolveError("no-grammar", "answers are held to none; what cannot be read is asked again")
    return f"answers are held to it (field `{field}`)"


def _schema(client: Client) -> str:
    from evolve.ir.errors import EvolveError
    from evolve.llm.probe import keeps_schema

    if not keeps_schema(client):
        raise EvolveError("no-schema", "answers are held to none (response_format, json_schema)")
    return "answers are held to it (response_format, json_schema)"
