"""A scripted server and a client of it, for each package that speaks to models."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

import pytest

from evolve.llm.client import Client
from evolve.llm.faults import Fault
from evolve.llm.model import Model
from evolve.llm.request import Request
from tests.llm.server import Say, Scripted, serving

KEY = "sk-a-secret-of-some-length"
KEY_NAMES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "ollama": "OLLAMA_API_KEY"}
MESSAGES = [{"role": "user", "content": "hello"}]
HELLO = Request(MESSAGES)
LIMIT_S = 1.0


@dataclass
class Wire:
    """A server whose answer can be set, and a client of it."""

    client: Client
    server: Scripted
    say: Callable[[Say], None]


def needs_litellm() -> None:
    """Skips a test where it is not installed; `.ci/run` installs it."""
    if find_spec("litellm") is None:
        pytest.skip("litellm is not installed: pip install -e '.[llm]'")


@contextmanager
def wired(protocol: str) -> Iterator[Wire]:
    """A client by that protocol, which has had its first answer: that one pays for imports."""
    current = [Say()]
    if protocol not in ("openai", "anthropic"):
        needs_litellm()
    with serving(lambda number, request: current[0]) as server:
        os.environ[KEY_NAMES[protocol]] = KEY
        base = server.base if protocol == "openai" else server.root
        client = Client(Model(protocol, "scripted", base), LIMIT_S)
        try:
            assert KEY_NAMES[protocol] not in os.environ, "the client's process has it, and nobody else"
            _warm_up(client)
            yield Wire(client, server, lambda say: current.__setitem__(0, say))
        finally:
            client.close()


def _warm_up(client: Client) -> None:
    for _ in range(20):
        try:
            client.ask(HELLO)
        except Fault as fault:
            if fault.kind == "empty":
                return
