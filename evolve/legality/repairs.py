"""The nearest change that would be legal, by code, where a check has nothing more exact to say."""

from __future__ import annotations

from dataclasses import replace

from evolve.dsl.diagnostic import Diagnostic
from evolve.dsl.registry import refusals


def repaired(d: Diagnostic) -> Diagnostic:
    """The diagnostic with a repair, its own if it has one."""
    known = refusals().get(d.code)
    return d if d.repair or known is None else replace(d, repair=known.repair)
