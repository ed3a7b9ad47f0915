"""What a person is told of a refusal beyond its reason: where in the source, and what is legal instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from difflib import SequenceMatcher

from evolve.compiler.advice import tried
from evolve.compiler.locate import located
from evolve.dsl.diagnostic import Diagnostic
from evolve.dsl.parser import parse_statement
from evolve.dsl.program import Program, Statement
from evolve.ir.kernel import Kernel
from evolve.legality.repairs import repaired
from evolve.legality.verdict import Limits
from evolve.transforms.apply import Applied, apply, apply_program
from evolve.transforms.moves import MoveLimits, legal_moves

TRIED = 3
"""Moves near the refused statement that are proved, the nearest first."""


def explained(
    reasons: tuple[Diagnostic, ...],
    kernel: Kernel,
    program: Program,
    result: Kernel | None,
    limits: Limits,
    proves: Callable[[Kernel], bool],
) -> tuple[Diagnostic, ...]:
    """The reasons with places in the source and repairs.

    `kernel` is the lifted one, `result` what came of the program if anything did. The nearest legal
    alternative of a blamed statement, a move of the same primitive that `proves` accepts, is part of the
    repair.
    """
    blamed = dict.fromkeys(d.statement or 0 for d in reasons)
    befores = {n: apply_program(kernel, Program(program.statements[:n])) for n in blamed}
    instead = {n: _instead(program.statements[n], before, limits, proves) for n, before in befores.items()}
    out = []
    for d in reasons:
        n = d.statement or 0
        known = (befores[n].kernel, kernel) if result is None else (result, kernel)
        legal = tried(d, program.statements[n], befores[n], proves)
        placed = located(replace(d, repair=legal), program.statements[n], *known)
        out.append(_with_alternative(repaired(placed), instead[n]))
    return tuple(out)


def _instead(
    statement: Statement, before: Applied, limits: Limits, proves: Callable[[Kernel], bool]
) -> str | None:
    """The nearest move that is proved in place of a statement."""
    for move in nearest(statement, legal_moves(before.kernel, before.names, _move_limits(limits)))[:TRIED]:
        changed, _ = apply(before.kernel, parse_statement(move), before.names)
        if proves(changed):
            return move
    return None


def nearest(statement: Statement, moves: list[str]) -> list[str]:
    """Moves of the statement's primitive, those whose text is most like it first."""
    text = str(replace(statement, targets=()))
    alike = [m for m in moves if m.startswith(f"{statement.primitive}(") and m != text]
    return sorted(alike, key=lambda m: -SequenceMatcher(None, m, text).ratio())


def _move_limits(limits: Limits) -> MoveLimits:
    return MoveLimits(limits.threads_per_block, limits.shared_bytes, numerics=limits.numerics)


def _with_alternative(d: Diagnostic, instead: str | None) -> Diagnostic:
    if instead is None:
        return d
    if d.repair and d.repair.endswith("?"):
        advice = f"{d.repair} Or, legal here: "
    else:
        advice = f"{d.repair}; or, legal here: " if d.repair else "legal here: "
    return replace(d, repair=f"{advice}{instead}")
