"""Applies a program, places barriers, proves the result and packs it as a guarded module."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from evolve.compiler.explain import explained
from evolve.dsl.diagnostic import Diagnostic, RefusedError
from evolve.dsl.program import Program
from evolve.ir.expr import Expr, conjunction
from evolve.ir.flags import taken_ahead
from evolve.ir.kernel import Kernel, Module, Original, Variant
from evolve.ir.launches import launches
from evolve.ir.ordered import uncontracted
from evolve.ir.printer import print_flagged
from evolve.ir.stmt import Block, For, Stmt
from evolve.ir.types import LoopKind
from evolve.ir.visit import rewrite, variables
from evolve.legality.barriers import place
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits, Status, Verdict
from evolve.transforms.apply import Applied, apply_program


@dataclass(frozen=True)
class Source:
    """What a program starts from: the lifted kernel, the text it was lifted from, and its no-wrap facts."""

    kernel: Kernel
    original: Original
    no_wrap: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Compiled:
    """`module` and `kernel` (barriers placed) are None unless the verdict is PROVED."""

    program: Program
    verdict: Verdict
    module: Module | None = None
    kernel: Kernel | None = None


def compile_program(source: Source, program: Program, limits: Limits, *, blame: bool = False) -> Compiled:
    """Compiles a program without holes. The empty program is the original kernel alone.

    With `blame`, a program whose result is refused has its prefixes proved again, longest first, to
    name the statement after which each reason is there to stay, and reasons have their places in the source:
    slower, for people and models.
    """
    if not program.statements:
        proved = Verdict(Status.PROVED, (), "symbolic", (), ())
        return Compiled(program, proved, _module(source, ()))
    try:
        applied = apply_program(source.kernel, program)
    except RefusedError as e:
        return Compiled(program, _told(source, program, _refused(e.diagnostic), None, limits, blame))
    kernel, verdict = _proved(source, applied.kernel, limits)
    if verdict.status is not Status.PROVED:
        if blame:
            verdict = _blamed(source, program, applied, verdict, limits)
            verdict = _told(source, program, verdict, kernel, limits, blame)
        return Compiled(program, verdict)
    # Index arithmetic that wraps around depending on an implied size is undefined behaviour of the source.
    asked = tuple(f for f in source.no_wrap if not variables(f) & kernel.implied)
    guard = conjunction((*kernel.assumptions, *asked))
    flagged = taken_ahead(source.kernel, (kernel,))
    verdict = replace(verdict, premises=(*verdict.premises, *map(print_flagged, flagged)))
    # Proved as the source's own expressions: a product that rounds by itself is one.
    emitted = uncontracted(kernel) if limits.numerics == "exact" else kernel
    variant = Variant(guard, launches(emitted), flagged)
    return Compiled(program, verdict, _module(source, (variant,)), kernel)


def _told(
    source: Source, program: Program, verdict: Verdict, result: Kernel | None, limits: Limits, blame: bool
) -> Verdict:
    """With `blame`, the verdict with places in the source and what would be legal instead."""
    if not blame:
        return verdict

    def proves(kernel: Kernel) -> bool:
        return _proved(source, kernel, limits)[1].proved

    reasons = explained(verdict.diagnostics, source.kernel, program, result, limits, proves)
    return replace(verdict, diagnostics=reasons)


def finish(kernel: Kernel) -> Kernel:
    """The kernel ready to be proved: loops left unbound run serially, barriers are placed."""

    def serial(s: Stmt) -> Stmt | None:
        if isinstance(s, For) and s.kind is LoopKind.PARALLEL:
            return replace(s, kind=LoopKind.SERIAL)
        return None

    body: Block = rewrite(kernel.body, serial)
    return place(replace(kernel, body=body))


def _proved(source: Source, kernel: Kernel, limits: Limits) -> tuple[Kernel, Verdict]:
    ready = finish(kernel)
    return ready, prove(source.kernel, ready, limits)


def _blamed(source: Source, program: Program, applied: Applied, verdict: Verdict, limits: Limits) -> Verdict:
    """Each reason blamed on the statement without which it was not there."""
    found = dict.fromkeys(range(len(verdict.diagnostics)), 0)
    left = set(found)
    for number in range(len(program.statements) - 1, 0, -1):
        _, before = _proved(source, applied.steps[number - 1], limits)
        new = {i for i in left if _is_new(verdict.diagnostics[i], before)}
        found |= dict.fromkeys(new, number)
        left -= new
        if not left:
            break
    reasons = ((d, found[i]) for i, d in enumerate(verdict.diagnostics))
    return replace(verdict, diagnostics=tuple(d.at(n, program.statements[n].line) for d, n in reasons))


def _is_new(reason: Diagnostic, before: Verdict) -> bool:
    """Whether an earlier verdict has reasons of the same kind, if any, only against other arrays.

    One that has none of the kind may not have come to look for them, if it left out the last check.
    """
    looked = "flow" in {run.name for run in before.checks}
    alike = [_against(d) for d in before.diagnostics if d.code == reason.code]
    return (looked or bool(alike)) and _against(reason) not in alike


def _against(d: Diagnostic) -> str:
    """The array of the statement that a reason begins with."""
    named = re.match(r"`(\w+)\[", d.message)
    return named[1] if named else ""


def _refused(diagnostic: Diagnostic) -> Verdict:
    return Verdict(Status.REFUTED, (diagnostic,), "symbolic", (), ())


def _module(source: Source, variants: tuple[Variant, ...]) -> Module:
    k = source.kernel
    return Module(variants, source.original, k.params, k.buffers, k.scalars)
