"""What a run may spend on its models, and what a request may take at most.

A request is made only if it fits beside what was spent and what those in flight may still take, each by the
rule's count of its prompt and its longest answer. One that is lost counts as that much, for a server may bill
it all the same. So a limit holds, as far as the rule counts no less than the server; what is left in the end
is less than one request may take. The few short requests that find out about a model before a run
(`llm.probe`) are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evolve.llm.faults import Fault


@dataclass(frozen=True)
class Price:
    """USD for a token, the highest that the model's table has for any length."""

    prompt: float
    completion: float

    def of(self, prompt: int, completion: int) -> float:
        """USD for so many tokens."""
        return prompt * self.prompt + completion * self.completion


def read_price(known: Mapping[str, Any]) -> Price | None:
    """From what `llm.client.Client.about` says, if the price is known."""
    prompt, completion = known.get("usd_a_prompt_token"), known.get("usd_a_completion_token")
    return None if prompt is None or completion is None else Price(prompt, completion)


class Purse:
    """Limits in tokens and USD, None being none; what was spent, and what is held for requests in flight."""

    def __init__(self, max_tokens: int | None = None, max_usd: float | None = None) -> None:
        self.max_tokens, self.max_usd = max_tokens, max_usd
        self.tokens, self.usd = 0, 0.0
        self._held_tokens, self._held_usd = 0, 0.0

    def spend(self, tokens: int, usd: float | None) -> None:
        """Counts what a request took."""
        self.tokens += tokens
        self.usd += usd or 0.0

    def hold(self, tokens: int, usd: float | None) -> bool:
        """Sets so much aside for a request; False where requests in flight have to come back first.

        Raises Fault `limit` where it is more than is left.
        """
        dear = usd or 0.0
        if self.max_tokens is not None:
            _fits(tokens, self.max_tokens, self.tokens, f"{tokens} tokens", f"--max-tokens {self.max_tokens}")
        if self.max_usd is not None:
            _fits(dear, self.max_usd, self.usd, f"{dear:.4f} USD", f"--max-usd {self.max_usd:g}")
        if self._over(tokens, dear):
            return False
        self._held_tokens += tokens
        self._held_usd += dear
        return True

    def release(self, tokens: int, usd: float | None) -> None:
        """What `hold` set aside."""
        self._held_tokens -= tokens
        self._held_usd -= usd or 0.0

    def _over(self, tokens: int, usd: float) -> bool:
        tokens += self.tokens + self._held_tokens
        usd += self.usd + self._held_usd
        return (self.max_tokens is not None and tokens > self.max_tokens) or (
            self.max_usd is not None and usd > self.max_usd and self._held_tokens > 0
        )


def _fits(asked: float, most: float, spent: float, what: str, limit: str) -> None:
    if spent + asked > most:
        said = f"{spent:.4f}" if isinstance(spent, float) else str(spent)
        raise Fault("limit", f"{limit} is reached: {said} were spent, and a request may take {what}")
