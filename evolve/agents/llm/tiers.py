"""How much a model is told, by the size of its context, and what is left out where that is too much.

A tier says where to begin. What does not fit is shortened one rule at a time, in this order, until it does:

1. features: the first 12 lines only; then two other programs
2. half as many failed programs, results and ideas that are still being tried, and half again, down to one
3. one other program, then none; then no features
4. pages of single primitives: none
5. the language: from all its pages to a sentence and a signature each, then to signatures alone
6. the two largest losses only
7. programs and the kernel: their first and last lines only, 40 of them, then 20
8. no failed programs and no results
9. the language: signatures of the ten statements that most programs begin with
10. no example, and nothing of the GPU, the contract and the rule for how bold to be but its outcome
11. the largest loss only, and 14 lines of programs and the kernel

If even that is too much, the kernel is too large for the model, and the run ends before anything is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

Language = Literal["full", "compact", "names", "basic"]


@dataclass(frozen=True)
class Detail:
    """How much is told: of the language, and how many programs that failed, results of hypotheses, other
    programs, lines of features, pages of primitives, losses, lines of a text, and programs asked for. `bare`:
    nothing but what cannot be done without."""

    language: Language
    failed: int
    results: int
    others: int
    facts: int
    pages: int
    losses: int
    lines: int
    programs: int
    bare: bool = False


@dataclass(frozen=True)
class Tier:
    """What is told to models from a context of `least` tokens on."""

    name: str
    least: int
    detail: Detail


TIERS = (
    Tier("large", 96_000, Detail("full", 16, 24, 5, 120, 0, 12, 400, 6)),
    Tier("medium", 24_000, Detail("compact", 8, 12, 4, 60, 6, 8, 200, 4)),
    Tier("small", 6_000, Detail("compact", 4, 6, 2, 40, 0, 6, 100, 4)),
    Tier("tiny", 0, Detail("names", 1, 2, 0, 0, 0, 3, 60, 1)),
)

_RULES: tuple[Callable[[Detail], Detail], ...] = (
    lambda d: replace(d, facts=min(d.facts, 12)),
    lambda d: replace(d, others=min(d.others, 2)),
    *(lambda d: replace(d, failed=-(-d.failed // 2), results=-(-d.results // 2)),) * 5,
    lambda d: replace(d, others=min(d.others, 1)),
    lambda d: replace(d, others=0),
    lambda d: replace(d, facts=0),
    lambda d: replace(d, pages=0),
    lambda d: replace(d, language="compact" if d.language == "full" else d.language),
    lambda d: replace(d, language="names"),
    lambda d: replace(d, losses=min(d.losses, 2)),
    lambda d: replace(d, lines=min(d.lines, 40)),
    lambda d: replace(d, lines=min(d.lines, 20)),
    lambda d: replace(d, failed=0, results=0),
    lambda d: replace(d, language="basic"),
    lambda d: replace(d, bare=True),
    lambda d: replace(d, lines=min(d.lines, 14), losses=min(d.losses, 1)),
)


def tier_of(context: int) -> Tier:
    """The tier of a context of so many tokens."""
    return next(tier for tier in TIERS if context >= tier.least)


def shortened(detail: Detail) -> Iterator[Detail]:
    """A detail as it is, then with one rule more each time."""
    yield detail
    for rule in _RULES:
        shorter = rule(detail)
        if shorter != detail:
            detail = shorter
            yield detail
