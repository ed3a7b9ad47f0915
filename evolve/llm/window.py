"""What fits into the context of a model.

Tokens are counted by a rule, not by asking a server: a prompt is then a function of the search's state
alone, and costs no request. The rule is one token for each 4 letters begun of a word, for each digit, each
other visible character, each byte of a character beyond ASCII, and each run of white space other than one
blank. Characters alone would not do: to a small vocabulary programs have 1.5 of them a token, since each
digit is one, and prose has 3.8. What the rule is worth beside the count of such a vocabulary stands in
`benchmarks/results/prompt-sizes.json`. A server that counts (`/tokenize`) is asked once before a run
(`llm.probe`), for the `scale` between its count and the rule's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ASSUMED = 8192
"""The context of a server that does not tell, in tokens."""
LEAST = 1024
"""No prompt is made for less."""
ANSWER_SHARE = 4
"""At most a part in so many of the context is kept for the answer."""
_EACH, _ALL = 16, 32
"""What a chat template puts around each message, and around all."""
_PIECES = re.compile(r"[A-Za-z]+|\n *| {2,}|[^ ]")
_WORD = 4


def tokens(text: str) -> int:
    """How many tokens a text has at most, by the rule."""
    return sum(map(_cost, _PIECES.findall(text)))


def _cost(piece: str) -> int:
    if piece[0].isascii():
        return -(-len(piece) // _WORD) if piece[0].isalpha() else 1
    return len(piece.encode("utf-8", "replace"))


@dataclass(frozen=True)
class Window:
    """A context of so many tokens, of which `most_answer` are kept for an answer, but no more than a quarter.

    `scale` is a server's count of tokens over the rule's.
    """

    context: int = ASSUMED
    most_answer: int = 4096
    scale: float = 1.0

    @property
    def answer(self) -> int:
        """Tokens that an answer may have."""
        return max(1, min(self.most_answer, self.context // ANSWER_SHARE))

    @property
    def prompt(self) -> int:
        """Tokens that a prompt may have."""
        return self.context - self.answer

    def count(self, messages: Iterable[Mapping[str, str]]) -> int:
        """The tokens of a conversation."""
        said = [tokens(one["content"]) for one in messages]
        return round(self.scale * sum(said)) + _EACH * len(said) + _ALL

    def holds(self, messages: Iterable[Mapping[str, str]]) -> bool:
        """Whether a conversation leaves room for its answer."""
        return self.count(messages) <= self.prompt
