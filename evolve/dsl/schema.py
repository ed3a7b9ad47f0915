"""Programs as JSON: a schema made from `dsl_spec/`, and the way there and back.

    {"statements": [{"primitive": "split", "arguments": {"loop": "c", "factor": 64}, "results": ["k", "v"]}]}

A loop, buffer, word or condition is a string, a list an array, a hole `{"hole": [64, 128]}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, assert_never

from evolve.dsl.parser import MAX_HOLES, MAX_STATEMENTS, parse
from evolve.dsl.program import Hole, ListValue, Name, Operation, Program, Statement, Value, print_value
from evolve.dsl.registry import Parameter, Primitive, statements
from evolve.ir.errors import EvolveError

Json: TypeAlias = dict[str, Any]

_NAME = {"type": "string", "pattern": r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*$"}
_TARGET = {"type": "string", "pattern": r"^[A-Za-z_][A-Za-z0-9_]*$"}


def program_schema() -> Json:
    """The JSON schema (draft 2020-12) of a program."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A transform program",
        "type": "object",
        "properties": {
            "statements": {
                "type": "array",
                "maxItems": MAX_STATEMENTS,
                "items": {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in statements()]},
            }
        },
        "required": ["statements"],
        "additionalProperties": False,
        "$defs": {name: _statement(one) for name, one in statements().items()},
    }


def from_document(document: Any) -> Program:
    """The program of a JSON document.

    Raises EvolveError `malformed-program` for one that is no program: not of the schema's form, or refused by
    the parser.
    """
    try:
        lines = [_line(one) for one in document["statements"]]
    except (KeyError, TypeError, AttributeError) as e:
        raise EvolveError(
            "malformed-program", f"not a program as JSON: {e}", hint="evolve dsl --schema"
        ) from None
    return parse("".join(f"{line}\n" for line in lines))


def as_document(program: Program) -> Json:
    """A program as JSON."""
    return {"statements": [_document(s) for s in program.statements]}


def _statement(one: Primitive) -> Json:
    least, most = one.results
    properties: Json = {
        "primitive": {"const": one.name},
        "arguments": {
            "type": "object",
            "properties": {p.name: _argument(p) for p in one.parameters},
            "required": [p.name for p in one.parameters if p.is_required],
            "additionalProperties": False,
        },
    }
    if most:
        properties["results"] = {"type": "array", "items": _TARGET, "minItems": least, "maxItems": most}
    return {
        "description": " ".join(one.meaning.split()),
        "type": "object",
        "properties": properties,
        "required": ["primitive", "arguments"],
        "additionalProperties": False,
    }


def _argument(p: Parameter) -> Json:
    match p.type:
        case "int":
            return _or_hole(_integer(p))
        case "ints":
            return {"type": "array", "items": _or_hole(_integer(p))}
        case "choice":
            return _or_hole({"enum": list(p.choices)})
        case "loops":
            return {"anyOf": [_NAME, {"type": "array", "items": _NAME, "minItems": 1}]}
        case "condition":
            return {"type": "string", "description": "such as: cols % 128 == 0 and rows <= 65535"}
        case _:
            return dict(_NAME)


def _integer(p: Parameter) -> Json:
    return {"type": "integer"} if p.minimum is None else {"type": "integer", "minimum": p.minimum}


def _or_hole(value: Json) -> Json:
    choices = {"type": "array", "items": value, "minItems": 1, "maxItems": MAX_HOLES}
    hole = {
        "type": "object",
        "properties": {"hole": choices},
        "required": ["hole"],
        "additionalProperties": False,
    }
    return {"anyOf": [value, hole]}


def _line(one: Any) -> str:
    results = ", ".join(_text(x) for x in one.get("results", ()))
    arguments = ", ".join(f"{_text(name)}={_text(value)}" for name, value in one["arguments"].items())
    call = f"{_text(one['primitive'])}({arguments})"
    return f"{results} = {call}" if results else call


def _text(value: Any) -> str:
    """A value of a document in the language's spelling. Raises TypeError on what it has no value for."""
    match value:
        case bool():
            raise TypeError(f"{value} is neither a number nor a name")
        case int():
            return str(value)
        case str() if "\n" not in value and "#" not in value:
            return value
        case list():
            return f"[{', '.join(map(_text, value))}]"
        case {"hole": list(choices)}:
            return f"?[{', '.join(map(_text, choices))}]"
        case _:
            raise TypeError(f"{value!r} is no value")


def _document(s: Statement) -> Json:
    spec = statements()[s.primitive]
    positional = [p.name for p in spec.parameters if p.is_positional]
    given: Mapping[str, Value] = dict(zip(positional, s.args, strict=True)) | dict(s.keywords)
    out: Json = {"primitive": s.primitive, "arguments": {n: _value(v) for n, v in given.items()}}
    return out | ({"results": list(s.targets)} if s.targets else {})


def _value(v: Value) -> Any:
    match v:
        case int():
            return v
        case Name():
            return v.text
        case Operation():
            return print_value(v)
        case ListValue():
            return [_value(x) for x in v.items]
        case Hole():
            return {"hole": [_value(x) for x in v.choices]}
        case _:
            assert_never(v)
