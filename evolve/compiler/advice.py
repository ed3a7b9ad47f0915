"""Repairs that are statements, tried before they are told: what is advised is legal.

bind(c, thread.x)     of 64 columns that are added up
help: block_reduce(c)     and not `or warp_reduce(c)`: a warp has 32 lanes
"""

from __future__ import annotations

import re
from collections.abc import Callable

from evolve.dsl.diagnostic import Diagnostic, RefusedError
from evolve.dsl.parser import parse_statement
from evolve.dsl.program import Statement
from evolve.dsl.registry import refusals
from evolve.ir.errors import EvolveError
from evolve.ir.kernel import Kernel
from evolve.transforms.apply import Applied, apply

_STATEMENT = r"[a-z_]+\((?:[^()]|\([^()]*\))*\)"
_ALTERNATIVES = re.compile(rf"{_STATEMENT}(?: or {_STATEMENT})*")


def tried(d: Diagnostic, refused: Statement, before: Applied, proves: Callable[[Kernel], bool]) -> str | None:
    """The reason's repair with those of its statements that are legal in place of the refused one, or ahead
    of it for conditions, else the code's general advice. Repairs in words stay as they are."""
    repair = d.repair
    if repair is None or not _ALTERNATIVES.fullmatch(repair):
        return repair
    statements = re.findall(_STATEMENT, repair)
    legal = [s for s in statements if _works(_with(s, refused), before, proves)]
    if legal:
        return " or ".join(legal)
    general = refusals().get(d.code)
    return general.repair if general else None


def _with(text: str, refused: Statement) -> tuple[str, ...]:
    """A condition is no other way of doing what was refused: that is done under it."""
    return (text, str(refused)) if text.startswith(("specialize(", "assume(")) else (text,)


def _works(steps: tuple[str, ...], before: Applied, proves: Callable[[Kernel], bool]) -> bool:
    kernel, names = before.kernel, before.names
    try:
        for text in steps:
            kernel, names = apply(kernel, parse_statement(text), names)
    except (RefusedError, EvolveError):
        return False
    return proves(kernel)
