"""Programs as JSON: the schema follows `dsl_spec/`, and nothing is lost on the way there and back."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from evolve.dsl.parser import parse
from evolve.dsl.registry import statements
from evolve.dsl.schema import as_document, from_document, program_schema
from evolve.ir.errors import EvolveError
from evolve.target.data import data_dir

PROGRAMS = [e.program for p in statements().values() for e in p.examples]
PROGRAMS += [p.read_text() for p in sorted((data_dir("kernels") / "programs").glob("*.dsl"))]
PROGRAMS += ["co, ci = split(c, ?[64, 128])\ntile([i, j], [?[8, 16], 32])\n"]


def fits(schema: dict[str, Any], value: Any, root: dict[str, Any]) -> bool:
    """Whether a value is valid: the keywords that `program_schema` uses, and no others."""
    if "$ref" in schema:
        return fits(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], value, root)
    for several, count in (("oneOf", 1), ("anyOf", None)):
        if several in schema:
            found = sum(fits(s, value, root) for s in schema[several])
            return found == count if count else found > 0
    if "const" in schema or "enum" in schema:
        return bool(value in schema.get("enum", [schema.get("const")]))
    kind = {"object": dict, "array": list, "string": str, "integer": int}[schema["type"]]
    if not isinstance(value, kind) or isinstance(value, bool):
        return False
    if isinstance(value, dict):
        known = schema["properties"]
        return (
            value.keys() <= known.keys()
            and set(schema["required"]) <= value.keys()
            and all(fits(known[k], v, root) for k, v in value.items())
        )
    if isinstance(value, list):
        sized = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        return sized and all(fits(schema["items"], x, root) for x in value)
    if isinstance(value, str):
        return re.fullmatch(schema.get("pattern", ".*"), value) is not None
    return bool(value >= schema.get("minimum", value))


@pytest.mark.parametrize("text", PROGRAMS, ids=range(len(PROGRAMS)))
def test_there_and_back(text: str) -> None:
    program, schema = parse(text), program_schema()
    document = json.loads(json.dumps(as_document(program)))
    assert from_document(document) == program
    assert fits(schema, document, schema)


def test_a_schema_for_each_primitive() -> None:
    schema = program_schema()
    assert schema["$defs"].keys() == statements().keys()
    for name, one in statements().items():
        arguments = schema["$defs"][name]["properties"]["arguments"]
        assert arguments["properties"].keys() == {p.name for p in one.parameters}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"statements": [{"primitive": "split"}]},
        {"statements": [{"primitive": "split", "arguments": {"loop": "c", "factor": True}}]},
        {"statements": [{"primitive": "split", "arguments": {"loop": "c", "factor": 1}}]},
        {"statements": [{"primitive": "fly", "arguments": {}}]},
        {"statements": [{"primitive": "bind", "arguments": {"loop": "c", "axis": "warp.x"}}]},
        {"statements": [{"primitive": "unroll", "arguments": {"loop": "c\nbind(c, grid.x)"}}]},
        [1],
    ],
)
def test_what_is_no_program_is_refused(document: Any) -> None:
    schema = program_schema()
    assert not fits(schema, document, schema)
    with pytest.raises(EvolveError) as refused:
        from_document(document)
    assert refused.value.code == "malformed-program"
