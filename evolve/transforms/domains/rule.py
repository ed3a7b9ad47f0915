"""What a rule is, and the table of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from evolve.dsl.registry import Domain
from evolve.transforms.view import View

Chosen: TypeAlias = Mapping[str, str]
"""Arguments of the move that are settled already, by parameter."""
Rule: TypeAlias = Callable[[View, Domain, Chosen], Iterator[str]]

RULES: dict[str, Rule] = {}


def rule(f: Rule) -> Rule:
    """Registers a rule by its function's name."""
    RULES[f.__name__] = f
    return f
