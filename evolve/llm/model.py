"""What `--model` and `--api-base` name."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import ip_address
from urllib.parse import urlsplit

from evolve.ir.errors import EvolveError

KEY_OF = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""The variable of the environment that holds the key, for the protocols that have a client of their own."""
LITELLM = "litellm"
"""The client of all others."""
_OLLAMA = ("ollama", "ollama_chat")
_OLLAMA_BASE = "http://127.0.0.1:11434"
"""Where a server of one's own is if nothing else is said: it is asked what it can do like any other."""
_PROVIDER = re.compile("[a-z][a-z0-9_-]*")
PROVIDERS = (
    "such as openai/NAME, anthropic/NAME, or ollama/NAME and what else litellm knows; servers that speak "
    "OpenAI's chat protocol (vLLM, llama.cpp and others) are reached by "
    "openai/NAME --api-base http://HOST:PORT/v1"
)


@dataclass(frozen=True)
class Model:
    """`protocol/name`; `api_base` is the address of a server, None for the protocol's own."""

    protocol: str
    name: str
    api_base: str | None = None

    @property
    def text(self) -> str:
        """How `--model` spells it."""
        return f"{self.protocol}/{self.name}"

    @property
    def client(self) -> str:
        """The package that speaks to it."""
        return self.protocol if self.protocol in KEY_OF else LITELLM

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine, and no proxy leads to it."""
        host = urlsplit(self.api_base or "").hostname or ""
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def key_name(self) -> str | None:
        """The variable that holds the key; None where only litellm knows it."""
        return KEY_OF.get(self.protocol)

    def require_client(self) -> None:
        """Raises EvolveError `no-llm-extra` where the package is not installed."""
        if find_spec(self.client) is None:
            hint = f"pip install {self.client}, or pip install 'evolve[llm]'"
            raise EvolveError("no-llm-extra", f"{self.text} needs the package {self.client}", hint=hint)

    def require_key(self, there: bool) -> None:
        """Raises EvolveError `no-key` where none is there and the protocol's own server is asked."""
        if not there and self.api_base is None and self.key_name is not None:
            message = f"{self.text} needs a key, and {self.key_name} is not set"
            hint = f"export {self.key_name}=…, or name a server of your own with --api-base"
            raise EvolveError("no-key", message, hint=hint)


def read_model(text: str | None, api_base: str | None) -> Model:
    """The model that the options name. Raises EvolveError `unknown-model` or `usage`."""
    if not text:
        raise EvolveError("usage", "--agent llm needs --model", hint="such as --model openai/NAME")
    protocol, _, name = text.partition("/")
    if _PROVIDER.fullmatch(protocol) is None or not name.strip() or not text.isprintable():
        raise EvolveError("unknown-model", f"--model {text!r} is not PROVIDER/NAME", hint=PROVIDERS)
    if api_base is None and protocol in _OLLAMA:
        api_base = os.environ.get("OLLAMA_API_BASE") or _OLLAMA_BASE
    return Model(protocol, name, None if api_base is None else _address(api_base))


def _address(text: str) -> str:
    """An address that may stand in a log. Raises EvolveError `usage`; the message repeats no secret."""
    try:
        parts = urlsplit(text)
        port_is_right = parts.port is None or parts.port > 0
    except ValueError:
        port_is_right = False
    if not port_is_right or parts.scheme not in ("http", "https") or not parts.hostname:
        raise EvolveError("usage", "--api-base is an address such as http://127.0.0.1:8000/v1")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        message = "--api-base is recorded, so it holds no user, password or query"
        raise EvolveError("usage", message, hint="keys come from the environment")
    if not text.isprintable() or " " in text:
        raise EvolveError("usage", "--api-base has characters that no address has")
    return text
