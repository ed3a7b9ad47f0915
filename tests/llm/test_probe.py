"""What servers of several kinds are found to be, through real ones on loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from evolve.ir.errors import EvolveError
from evolve.llm.client import Client
from evolve.llm.faults import Fault
from evolve.llm.model import Model
from evolve.llm.probe import GRAMMAR_FIELDS, Probe, probe, reach, scale_of
from evolve.llm.request import Answer, Request
from evolve.llm.served import context_of
from evolve.llm.window import tokens
from tests.llm.server import Greeting, Say, serving

SHOWN = {"model_info": {"general.architecture": "llama", "llama.context_length": 131072}}
PAGES: dict[str, tuple[dict[str, Any], int | None, int | None]] = {
    # what the server has at its paths, what --context says, and what is found
    "nothing": ({}, None, 8192),
    "nothing, told": ({}, 3000, 3000),
    "llama.cpp": ({"/props": {"default_generation_settings": {"n_ctx": 4096}}}, None, 4096),
    "llama.cpp, told less": ({"/props": {"default_generation_settings": {"n_ctx": 4096}}}, 2048, 2048),
    "llama.cpp, told more": ({"/props": {"default_generation_settings": {"n_ctx": 4096}}}, 9999, 4096),
    "llama.cpp's models": ({"/v1/models": {"data": [{"id": "x", "meta": {"n_ctx": 2048}}]}}, None, 2048),
    "vLLM": (
        {"/v1/models": {"data": [{"id": "y", "max_model_len": 1}, {"id": "x", "max_model_len": 32768}]}},
        None,
        32768,
    ),
    "another model's": (
        {"/v1/models": {"data": [{"id": "y", "max_model_len": 9000}, {"id": "z"}]}},
        None,
        8192,
    ),
    "Ollama, loaded": ({"/api/ps": {"models": [{"name": "x:latest", "context_length": 16384}]}}, None, 16384),
    "Ollama, set": ({"/api/show": SHOWN | {"parameters": 'stop  "<s>"\nnum_ctx   6000'}}, None, 6000),
    "Ollama, by default": ({"/api/show": SHOWN}, None, 4096),
    "nonsense": ({"/props": [1], "/v1/models": {"data": 7}, "/api/ps": "no", "/api/show": None}, None, 8192),
    "lies": (
        {
            "/props": {"default_generation_settings": {"n_ctx": -1}},
            "/v1/models": {"data": [{"id": "x", "max_model_len": "many"}]},
        },
        None,
        8192,
    ),
    "too small": ({"/props": {"default_generation_settings": {"n_ctx": 512}}}, None, None),
}


class Told:
    """A client whose server has these pages; chat answers come from a function."""

    def __init__(self, pages: Mapping[str, Any], say: Any = lambda request: "ready") -> None:
        self.model = Model("openai", "x", "http://127.0.0.1:1/v1")
        self.grammar_field = "grammar"
        self.pages, self.say = pages, say

    def ask(self, request: Request, wait: Any = None) -> Answer:
        return Answer(self.say(request), False, None, 0.1)  # type: ignore[arg-type]

    def look(self, path: str, body: Any = None, wait: Any = None) -> Any:
        if path not in self.pages:
            raise Fault("unknown-model", "HTTP 404")
        page = self.pages[path]
        return page(body) if callable(page) else page


@pytest.mark.parametrize("name", PAGES)
def test_contexts(name: str) -> None:
    pages, given, expected = PAGES[name]
    if expected is None:
        with pytest.raises(EvolveError) as caught:
            context_of(Told(pages), given)
        assert caught.value.code == "model-failed" and "512" in str(caught.value)
        return
    found, source = context_of(Told(pages), given)
    assert found == expected
    assert ("assumed" in source) == (expected == 8192)
    assert (source == "--context") == (given == expected)


def test_a_server_that_counts_tokens_sets_the_scale_by_its_larger_count() -> None:
    def count(body: Mapping[str, Any]) -> Any:
        text = body["content"]
        return {"tokens": [0] * int(tokens(text) * (0.9 if text.startswith("A program") else 0.7))}

    assert scale_of(Told({"/tokenize": count})) == (pytest.approx(0.9, abs=0.01), "/tokenize")
    assert scale_of(Told({"/tokenize": {"tokens": []}})) == (1.0, "the rule")
    assert scale_of(Told({})) == (1.0, "the rule")
    assert scale_of(Told({"/tokenize": {"tokens": [1]}}))[0] == 0.5, "within limits"


@contextmanager
def client_of(hello: Greeting, pages: Mapping[str, Say] | None = None) -> Iterator[Client]:
    with serving(lambda number, request: Say("no"), hello=hello, pages=pages) as server:
        client = Client(Model("openai", "x", server.base), 60.0)
        try:
            yield client
        finally:
            client.close()


def held(field: str, *, schema: bool) -> Greeting:
    """A server that keeps to a grammar of one word in this field, and perhaps to a schema of one property."""

    def say(request: dict[str, Any]) -> Say:
        form = request.get("response_format")
        if schema and form is not None:
            ((name, kind),) = form["json_schema"]["schema"]["properties"].items()
            return Say(json.dumps({name: kind["enum"][0]}))
        told = request.get(field)
        grammar = told["grammar"] if isinstance(told, dict) else told
        found = re.fullmatch(r'root ::= "(\w+)"', grammar or "")
        return Say(found[1] if found else "ready")

    return say


@pytest.mark.parametrize("field", GRAMMAR_FIELDS)
def test_the_field_that_a_server_reads_is_found(field: str) -> None:
    pages = {"/props": Say(raw=b'{"default_generation_settings": {"n_ctx": 4096}}')}
    with client_of(held(field, schema=field == "ebnf"), pages) as client:
        found = probe(client)
        assert client.grammar_field == field
        word = client.ask(Request([{"role": "user", "content": "one word: ready"}], 'root ::= "again"'))
    assert word.text == "again"
    assert (found.grammar, found.schema_kept) == (field, field == "ebnf")
    assert (found.context, found.context_from, found.scale_from) == (4096, "/props", "the rule")
    assert isinstance(found, Probe) and 0 < found.seconds < 60


def test_pages_that_are_none_are_passed_over() -> None:
    """Nested deeper than can be read, late, or cut short: the next page counts."""
    pages = {
        "/props": Say(raw=b"[" * 200_000),
        "/v1/models": Say(raw=b'{"data": [', length=500),
        "/api/ps": Say(raw=b"<html>", content_type="text/html"),
        "/api/show": Say(raw=b'{"parameters": "num_ctx 5000"}'),
    }
    with client_of(lambda request: Say("ready"), pages) as client:
        assert context_of(client) == (5000, "/api/show")


def test_a_server_that_only_repeats_or_refuses_is_held_to_nothing() -> None:
    """Nor is one whose answer says the word among others."""

    def say(request: dict[str, Any]) -> Say:
        if "grammar" in request:
            return Say(f"I was told {request['grammar']}")
        if len(request.keys() - {"model", "messages", "max_tokens"}):
            return Say("unknown field", status=400)
        return Say("ready")

    with client_of(say) as client:
        found = probe(client)
    assert (found.grammar, found.schema_kept) == ("", False)
    assert client.grammar_field == "grammar"


def test_what_is_not_there_is_said_once() -> None:
    gone = client_of(lambda request: Say("no such model", status=404))
    with gone as client, pytest.raises(EvolveError) as caught:
        reach(client)
    assert caught.value.code == "model-failed" and "no such model" in str(caught.value)
