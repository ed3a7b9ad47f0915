"""Holding an answer to its form: by a grammar where the server takes one, else by a JSON schema, else not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from evolve.dsl.grammar import DONE, answer_grammar, step_grammar, vocabulary
from evolve.ir.kernel import Kernel
from evolve.llm.probe import Probe

Answers = Literal["auto", "steps", "programs"]
"""What a model is asked for: statements one by one, whole programs, or what its context allows."""
Hold = Literal["grammar", "schema", ""]
"""What a server can do: hold an answer to a grammar, to a schema of JSON, or to nothing."""
LEAST_FOR_PROGRAMS = 6000
"""Tokens of context below which a model is not told enough of the language to write in it."""
MOST_STATEMENTS = 24
"""Of a program that a grammar holds."""
_TEXT = {"type": "string"}


def hold_of(probe: Probe | None) -> Hold:
    """What a server can do, as far as it was tried."""
    if probe is None:
        return ""
    return "grammar" if probe.grammar else "schema" if probe.schema_kept else ""


def by_steps(answers: Answers, context: int) -> bool:
    """Whether a model with a context of so many tokens is asked for one statement at a time."""
    return answers == "steps" or (answers == "auto" and context < LEAST_FOR_PROGRAMS)


def hold_programs(hold: Hold, kernel: Kernel, most: int) -> dict[str, Any]:
    """Fields of `Request` for an answer with at most so many programs about a kernel."""
    if hold == "grammar":
        return {"grammar": answer_grammar(vocabulary(kernel), most, MOST_STATEMENTS)}
    if hold == "schema":
        lines = {"type": "array", "items": _TEXT}
        one = _object({"hypothesis": _TEXT, "expected": _TEXT, "program": lines})
        return {"schema": _object({"programs": {"type": "array", "items": one}})}
    return {}


def hold_step(hold: Hold, moves: Sequence[str], ends: bool) -> dict[str, Any]:
    """Fields of `Request` for an answer that is one of these statements, or `done` where that `ends` it."""
    said = (*moves, DONE) if ends else tuple(moves)
    if hold == "grammar":
        return {"grammar": step_grammar(said)}
    if hold == "schema":
        return {"schema": _object({"move": {"enum": list(said)}})}
    return {}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
