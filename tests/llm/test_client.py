"""Asking a model through a real server on loopback: what is asked and answered, and where keys stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from evolve.ir.errors import EvolveError
from evolve.llm.client import Client
from evolve.llm.faults import Fault
from evolve.llm.model import Model, read_model
from evolve.llm.request import Answer, Request
from tests.llm.server import Say, serving
from tests.llm.wires import HELLO, KEY, MESSAGES, Wire, needs_litellm, wired


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with wired("openai") as made:
        yield made


def test_an_answer_with_what_it_cost(wire: Wire) -> None:
    wire.say(Say("a program"))
    answer = wire.client.ask(HELLO)
    assert isinstance(answer, Answer) and (answer.text, answer.cut) == ("a program", False)
    assert (answer.tokens.prompt, answer.tokens.completion, answer.tokens.cached) == (100, 10, 40)
    assert 0 < answer.seconds < 5
    assert wire.server.requests[-1] == {"model": "scripted", "messages": MESSAGES, "max_tokens": 4096}
    wire.say(Say("half a prog", finish="length"))
    assert wire.client.ask(HELLO).cut


@pytest.mark.parametrize("usage", ["null", "7", '{"prompt_tokens": -1, "completion_tokens": "many"}', "[]"])
def test_counts_that_are_none(wire: Wire, usage: str) -> None:
    wire.say(Say(raw=b'{"choices": [{"message": {"content": "x"}}], "usage": %s}' % usage.encode()))
    tokens = wire.client.ask(HELLO).tokens
    assert (tokens.prompt, tokens.completion, tokens.cached) == (None, None, None)


def test_a_server_that_repeats_the_key_does_not_get_it_into_the_answer(wire: Wire) -> None:
    wire.say(Say(f"your key is {KEY}."))
    assert wire.client.ask(HELLO).text == "your key is [key]."
    assert wire.server.keys[-1] == f"Bearer {KEY}"


def test_an_answer_that_nobody_waited_for_is_passed_over(wire: Wire) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    wire.say(Say("the first", wait_s=0.3))
    with pytest.raises(KeyboardInterrupt):
        wire.client.ask(HELLO, stop)
    wire.say(Say("the second"))
    assert wire.client.ask(HELLO).text == "the second"


def test_requests_in_flight_together(wire: Wire) -> None:
    """Answered while others wait, whatever their order; one that is dropped is not waited for."""
    wire.say(Say("slow", wait_s=0.6))
    slow, dropped = wire.client.begin(HELLO), wire.client.begin(HELLO)
    before = len(wire.server.requests)
    while len(wire.server.requests) < before + 2 and not wire.client.ready(slow):
        time.sleep(0.01)
    wire.say(Say("fast"))
    wire.client.drop(dropped)
    begun = time.monotonic()
    assert wire.client.ask(HELLO).text == "fast" and not wire.client.ready(slow)
    answer = wire.client.answer(slow)
    assert answer.text == "slow" and answer.seconds >= 0.6 and time.monotonic() - begun < 0.9
    assert not wire.client._until and not wire.client._replies


def test_what_a_request_asks_for(wire: Wire) -> None:
    wire.say(Say("{}"))
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    wire.client.ask(Request(MESSAGES, 'root ::= "a"', schema, 7, 0.25, ("\n",), 11))
    asked = wire.server.requests[-1]
    assert asked.pop("response_format")["json_schema"] == {"name": "answer", "schema": schema, "strict": True}
    assert asked == {
        "model": "scripted",
        "messages": MESSAGES,
        "max_tokens": 7,
        "temperature": 0.25,
        "stop": ["\n"],
        "seed": 11,
        "grammar": 'root ::= "a"',
    }


def test_a_client_library_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it does: here its whole process stands still."""
    with serving(lambda number, request: Say("yes")) as server:
        client = Client(Model("openai", "x", server.base), 0.5)
        try:
            while not client._up:
                with suppress(Fault):
                    client.ask(HELLO)
            monkeypatch.setattr("evolve.llm.client._GRACE_S", 0.2)
            monkeypatch.setattr("evolve.llm.client._LATE_S", 0.2)
            os.kill(client._courier.pid, signal.SIGSTOP)
            begun = time.monotonic()
            with pytest.raises(Fault) as caught:
                client.ask(HELLO)
            assert caught.value.kind == "client-died" and 0.7 <= time.monotonic() - begun < 5.0
        finally:
            client.close()


def test_a_request_long_over_its_time_takes_no_other_with_it() -> None:
    with wired("openai") as wire:
        wire.say(Say("slow", wait_s=0.5))
        lost, other = wire.client.begin(HELLO), wire.client.begin(HELLO)
        wire.client._until[lost] = time.monotonic() - 1.0
        while not wire.client.ready(lost):
            time.sleep(0.01)
        with pytest.raises(Fault) as caught:
            wire.client.answer(lost)
        assert (caught.value.kind, caught.value.unspent) == ("timeout", False)
        assert wire.client.answer(other).text == "slow"
        assert not wire.client._until and not wire.client._replies and not wire.client._late


def test_a_request_is_sent_without_waiting_for_a_busy_courier() -> None:
    with wired("openai") as wire:
        long = "long " * 200_000
        os.kill(wire.client._courier.pid, signal.SIGSTOP)
        begun = time.monotonic()
        first = wire.client.begin(Request([{"role": "user", "content": long}]))
        second = wire.client.begin(HELLO)
        assert not wire.client.ready(first) and time.monotonic() - begun < 1.0
        os.kill(wire.client._courier.pid, signal.SIGCONT)
        wire.say(Say("yes"))
        assert wire.client.answer(first).text == wire.client.answer(second).text == "yes"
        assert sorted(len(one["messages"][0]["content"]) for one in wire.server.requests[-2:]) == [
            5,
            1_000_000,
        ]


@pytest.mark.parametrize(
    ("model", "told"), [("bedrock", ""), ("mistral", f"Bearer {KEY}"), ("ollama", f"Bearer {KEY}")]
)
def test_pages_are_asked_for_with_no_other_secret_of_a_provider(model: str, told: str) -> None:
    needs_litellm()
    with serving(lambda number, request: Say(), pages={"/props": Say(raw=b"{}")}) as server:
        os.environ[f"{model.upper()}_API_KEY" if told else "AWS_SECRET_ACCESS_KEY"] = KEY
        client = Client(Model(model, "x", server.base), 20.0)
        try:
            client.look("/props")
            assert server.keys == [told]
        finally:
            client.close()


def test_pages_of_a_server() -> None:
    pages = {
        "/props": Say(raw=b'{"n_ctx": 4096}'),
        "/api/show": Say(raw=b'{"context": 2048}'),
        "/text": Say(raw=b"hello"),
        "/big": Say(raw=b'"' + b"x" * (1 << 21) + b'"'),
        "/away": Say(status=302, headers=(("Location", "/props"),)),
    }
    with serving(lambda number, request: Say(), pages=pages) as server:
        os.environ["OPENAI_API_KEY"] = KEY
        client = Client(Model("openai", "x", server.base), 20.0)
        try:
            assert client.look("/props") == {"n_ctx": 4096}
            assert client.look("/api/show", {"model": "x"}) == {"context": 2048}
            assert server.looks == [("/props", {}), ("/api/show", {"model": "x"})]
            assert server.keys == [f"Bearer {KEY}"] * 2
            found = {
                "/none": "unknown-model",
                "/text": "malformed",
                "/big": "malformed",
                "/away": "bad-request",
            }
            for path, kind in found.items():
                with pytest.raises(Fault) as caught:
                    client.look(path)
                assert caught.value.kind == kind, path
            server.stop()
            with pytest.raises(Fault) as caught:
                client.look("/props")
            assert (caught.value.kind, "refused" in caught.value.message) == ("unreachable", True)
        finally:
            client.close()


def test_several_models_each_have_their_key() -> None:
    with serving(lambda number, request: Say("yes")) as server:
        os.environ["OPENAI_API_KEY"] = KEY
        clients = Client.several([Model("openai", name, server.base) for name in "ab"], 20.0)
        try:
            assert "OPENAI_API_KEY" not in os.environ
            for client in clients:
                client.ask(HELLO)
        finally:
            for client in clients:
                client.close()
        assert [request["model"] for request in server.requests] == ["a", "b"]
        assert server.keys == [f"Bearer {KEY}"] * 2


def test_a_server_that_is_not_there_and_a_client_that_died() -> None:
    with serving(lambda number, request: Say()) as server:
        gone = server.base
    client = Client(Model("openai", "scripted", gone), 20.0)
    try:
        with pytest.raises(Fault) as caught:
            client.ask(HELLO)
        assert caught.value.kind == "unreachable" and "refused" in caught.value.message.lower()
        ticket = client.begin(HELLO)
        client._courier.kill()
        client._courier.wait()
        assert client.ready(ticket)
        with pytest.raises(Fault):
            client.answer(ticket)
        for _ in range(2):
            with pytest.raises(Fault) as caught:
                client.ask(HELLO)
            assert caught.value.kind == "client-died" and caught.value.for_good
    finally:
        client.close()
        client.close()


@pytest.mark.parametrize(
    ("model", "base", "code"),
    [
        (None, None, "usage"),
        ("gpt-5", None, "unknown-model"),
        ("Anthropic/claude", None, "unknown-model"),
        ("anthropic/", None, "unknown-model"),
        ("openai/", None, "unknown-model"),
        ("openai/a\nb", None, "unknown-model"),
        ("openai/x", "localhost:8000", "usage"),
        ("openai/x", "ftp://host/v1", "usage"),
        ("openai/x", "http://host:port/v1", "usage"),
        ("openai/x", "http://user:secret@host/v1", "usage"),
        ("openai/x", "http://host/v1?key=secret", "usage"),
        ("openai/x", "http:///v1", "usage"),
    ],
)
def test_names_that_are_none(model: str | None, base: str | None, code: str) -> None:
    with pytest.raises(EvolveError) as caught:
        read_model(model, base)
    assert caught.value.code == code and "secret" not in str(caught.value)


def test_openais_own_server_wants_a_key_and_ones_own_does_not() -> None:
    with pytest.raises(EvolveError) as caught:
        read_model("openai/x", None).require_key(False)
    assert caught.value.code == "no-key" and "OPENAI_API_KEY" in str(caught.value)
    read_model("openai/x", None).require_key(True)
    read_model("openai/x", "http://10.0.0.1/v1").require_key(False)
    assert read_model("openai/org/x", "http://[::1]:8000/v1").is_local
    assert not read_model("openai/x", "https://example.com/v1").is_local


def test_a_server_of_ollamas_is_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is asked for the context it serves; a table, or a guess, has more, and a prompt would be cut."""
    monkeypatch.delenv("OLLAMA_API_BASE", raising=False)
    found = read_model("ollama/qwen3", None)
    assert found.api_base == "http://127.0.0.1:11434" and found.is_local
    monkeypatch.setenv("OLLAMA_API_BASE", "http://10.0.0.1:80")
    assert read_model("ollama_chat/qwen3", None).api_base == "http://10.0.0.1:80"
    assert read_model("ollama/qwen3", "http://10.0.0.2").api_base == "http://10.0.0.2"
    assert read_model("gemini/x", None).api_base is None


LOOK = """
import os, re, sys
from pathlib import Path
from evolve.llm.client import Client
from evolve.llm.model import Model

client = Client(Model("openai", "x", "http://127.0.0.1:9/v1"), 5.0)
sought = re.compile(rb"sk-never-forke[d]")  # which is not what it finds

def copies():
    memory, found = open("/proc/self/mem", "rb", 0), 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights = line.split()[:2]
        start, end = (int(x, 16) for x in place.split("-"))
        if "r" in rights and "[v" not in line:
            memory.seek(start)
            found += len(sought.findall(memory.read(end - start)))
    return found

if os.fork() == 0:
    environ = Path("/proc/self/environ").read_bytes()
    right = not sought.search(environ) and b"KEEP=yes" in environ and os.environ["KEEP"] == "yes"
    right = right and not any("API_KEY" in name for name in os.environ)
    os._exit(copies() if right else 99)
status = os.waitstatus_to_exitcode(os.wait()[1])
client.close()
sys.exit(status)
"""


def test_no_copy_of_a_key_is_in_a_process_forked_later() -> None:
    """Neither in the environment that it has and the system shows, nor anywhere in its memory."""
    keys = {"OPENAI_API_KEY": "sk-never-forked-1", "OTHER_API_KEY": "sk-never-forked-2"}
    done = subprocess.run([sys.executable, "-c", LOOK], env={**os.environ, **keys, "KEEP": "yes"}, timeout=60)
    assert done.returncode == 0


def test_the_search_for_copies_finds_one() -> None:
    kept = LOOK.replace("client = ", "kept = os.environb[b'OPENAI_API_KEY'] + b'!'\nclient = ")
    env = {**os.environ, "OPENAI_API_KEY": "sk-never-forked-1"}
    done = subprocess.run([sys.executable, "-c", kept], env={**env, "KEEP": "yes"}, timeout=60)
    assert done.returncode >= 1 and done.returncode != 99
