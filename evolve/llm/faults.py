"""What can go wrong with a request to a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "timeout",
    "unreachable",
    "rate-limited",
    "server-error",
    "malformed",
    "empty",
    "refusal",
    "wrong-key",
    "no-key",
    "no-quota",
    "unknown-model",
    "unknown-provider",
    "bad-request",
    "limit",
    "client-died",
    "given-up",
]
KINDS: tuple[str, ...] = get_args(Kind)

AGAIN = frozenset(("timeout", "unreachable", "rate-limited", "server-error", "malformed", "empty"))
"""What may be gone the next time."""
FOR_GOOD = frozenset(("wrong-key", "no-key", "no-quota", "unknown-model", "unknown-provider", "client-died"))
"""What no waiting mends: somebody has to do something."""

HELP = {
    "timeout": "the server may be overloaded; --model-timeout gives it longer",
    "unreachable": "is the server running, and the address right?",
    "wrong-key": "set the key of the environment that belongs to this server",
    "no-key": "export the key, or name a server of your own with --api-base",
    "no-quota": "the account has nothing left to spend",
    "limit": "evolve resume RUN --max-tokens N --max-usd X goes on with more",
    "unknown-model": "ask the server which models it has (GET /v1/models)",
}
"""What a person can do, where that is known."""


@dataclass(frozen=True)
class Tokens:
    """As the server counts them; None where it does not say."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None


NONE = Tokens()


class Fault(Exception):  # noqa: N818  (the model's or the network's, and the run goes on)
    """A request without a usable answer. `after_s`: how long the server wants to be left alone; `tokens`,
    `seconds` and `usd` are what it cost all the same, as far as that is known; `unspent`: the server was not
    reached, or did nothing for it, so it cost nothing. Of any other a server may bill what was generated."""

    def __init__(
        self,
        kind: str,
        message: str,
        after_s: float = 0.0,
        tokens: Tokens = NONE,
        seconds: float = 0.0,
        usd: float | None = None,
        unspent: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind if kind in KINDS else "malformed"
        self.message = message
        self.after_s = after_s
        self.tokens, self.seconds, self.usd = tokens, seconds, usd
        self.unspent = unspent

    @property
    def again(self) -> bool:
        """Whether trying again may help."""
        return self.kind in AGAIN

    @property
    def for_good(self) -> bool:
        """Whether every later request will fail the same way."""
        return self.kind in FOR_GOOD

    @property
    def hint(self) -> str | None:
        """What a person can do."""
        return HELP.get(self.kind)
