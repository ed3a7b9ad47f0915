"""What the model is shown of a search: the values that the templates are filled with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from evolve.agents.base import Attempt, Context, Parent
from evolve.agents.llm.lines import (
    MOST_TEXT,
    addressed,
    block,
    causes,
    cut,
    facts,
    headline,
    losses,
    number,
    reasons,
)
from evolve.agents.llm.tiers import Detail
from evolve.dsl.reference import compact_reference, full_reference, names_reference, page
from evolve.dsl.registry import statements
from evolve.llm.effects import calibration, compared, read_factor
from evolve.target.profile import Profile

FAR, NEAR = 0.5, 0.85
"""Below the one fraction of the speed of light structures are worth changing, above the other nothing is but
details."""
_SCORED, _TOLD = "scored", ("incorrect", "miscompiled", "compile_failed", "quarantined")
"""Beside a time, what a hypothesis may have come to; what was refused is told with the reason."""
_QUIET = frozenset((_SCORED, "duplicate", "prefiltered"))
_COMMENT = "#"
BASIC = (
    *("split", "reorder", "bind", "vectorize", "unroll", "specialize"),
    *("stage", "accumulate_in_register", "warp_reduce", "block_reduce"),
)
"""The statements that a model with room for no more is told of."""
_LANGUAGE: Mapping[str, Callable[[], str]] = {
    "full": full_reference,
    "compact": compact_reference,
    "names": names_reference,
    "basic": lambda: names_reference(BASIC),
}
Item = TypeVar("Item")


def rules(detail: Detail) -> dict[str, Any]:
    """The values of `system.j2`: the same throughout a run, unless a prompt had to be shortened."""
    return {
        "reference": _reference(detail.language),
        "brief": detail.language in ("names", "basic"),
        "bare": detail.bare,
        "most": detail.programs,
    }


@cache
def _reference(language: str) -> str:
    return _LANGUAGE[language]()


def view(context: Context, detail: Detail) -> dict[str, Any]:
    """The values of `propose.j2`."""
    parent = parent_of(context)
    shown = {parent.proposal, 0}
    others = [p for p in (context.best, *context.parents) if p.proposal not in shown]
    others = list({p.proposal: p for p in others}.values())[: detail.others]
    failed = [a for a in context.recent if a.status not in _QUIET]
    return {
        "kernel": block(context.summary, detail.lines),
        "device": cut(str(getattr(context.target, "name", "the GPU")), MOST_TEXT),
        "machine": machine(context.target),
        "sizes": _sizes(context.workload),
        "numerics": context.numerics,
        "sol_us": number(context.sol.get("time_us")),
        "sol_bound": context.sol.get("bound", "?"),
        "baseline": _program(context.baseline, detail),
        "best": _program(context.best, detail),
        "features": list(facts(context.features))[: detail.facts],
        "parent": _program(parent, detail) | {"gap": list(losses(parent.gap, detail.losses))},
        "pages": list(_pages(parent.gap, detail.pages)),
        "others": [_program(p, detail) | {"losses": _in_short(p.gap)} for p in others],
        "results": _last(list(_results(context.hypotheses)), detail.results),
        "calibration": calibration([(e, a) for e, a in map(_factors, context.hypotheses) if e and a]),
        "repeated": sum(a.status == "duplicate" for a in context.hypotheses),
        "waiting": [cut(a.note or a.program, MOST_TEXT) for a in _last(context.waiting, detail.results)],
        "failed": [_failure(a, detail) for a in _instructive(failed, detail.failed)],
        "boldness": boldness(parent.fitness),
        "far": FAR,
        "near": NEAR,
        "asked_before": context.beside > 0 or (context.ask > 0 and not context.recent),
        "budget_left": context.budget_left,
        "most": detail.programs,
        "bare": detail.bare,
    }


def machine(target: Profile | None) -> str:
    """What a GPU has that programs are made for, in a sentence; '' where it is not known."""
    if target is None:
        return ""
    limits, memory = target.limits, target.memory
    return (
        f"It has {target.sms} multiprocessors, each with room for {limits.threads_per_sm} threads and "
        f"{limits.registers_per_sm} registers; a block may have {limits.threads_per_block} threads and "
        f"{memory.shared_bytes_per_block_optin} bytes of shared memory."
    )


def parent_of(context: Context) -> Parent:
    """The program that the model is to improve: one drawn from the archive, before there is one the best."""
    return context.parents[0] if context.parents else context.best


def boldness(fitness: float) -> str:
    """How far to go, by how much is left to win."""
    if fitness < FAR:
        return "restructure"
    return "extend" if fitness < NEAR else "refine"


def refused(programs: Sequence[tuple[str, str]], lines: int = 100) -> dict[str, Any]:
    """The values of `repair.j2`: programs with why they are refused."""
    return {"refused": [{"program": block(text, lines), "why": why} for text, why in programs]}


def step_view(
    context: Context, program: str, moves: Sequence[str], ends: bool = True, lines: int = 40
) -> dict[str, Any]:
    """The values of `step.j2`: the kernel, what it loses, the program so far, the statements that may follow,
    and whether it may end.

    `lines` is how many lines of the kernel are shown at most. What changes from step to step comes last, so
    that a server may keep what it has read.
    """
    fitness = f"As given it is at {context.baseline.fitness:.3f} of the speed of light."
    return {
        "kernel": block(context.summary, lines),
        "sizes": _sizes(context.workload),
        "limits": fitness,
        "gap": list(losses(context.baseline.gap, 3)),
        "program": block(program, lines, comments=_COMMENT),
        "moves": [cut(move, MOST_TEXT) for move in moves],
        "ends": ends,
    }


def _sizes(workload: Mapping[str, Any]) -> str:
    sizes = workload.get("sizes")
    told = ", ".join(f"{n} = {v}" for n, v in sizes.items()) if isinstance(sizes, Mapping) else ""
    return cut(told, MOST_TEXT)


def _program(parent: Parent, detail: Detail) -> dict[str, Any]:
    return {
        "number": parent.proposal,
        "program": block(parent.program, detail.lines, comments=_COMMENT),
        "us": number(parent.time_us),
        "fitness": f"{parent.fitness:.3f}",
    }


def _in_short(gap: Mapping[str, Any]) -> str:
    told = ", ".join(f"{float(c['share']):.0%} {c.get('name')}" for c in causes(gap)[:2])
    return f"{headline(gap).partition(' (')[0]}; {told}" if told else ""


def _pages(gap: Mapping[str, Any], most: int) -> Iterator[str]:
    """What there is to know of the primitives that address the largest losses."""
    known = statements()
    for name in [name for name in addressed(gap) if name in known][:most]:
        yield page(known[name])


def _results(hypotheses: Sequence[Attempt]) -> Iterator[dict[str, str]]:
    """Each hypothesis with the effect that was expected and the one that came, oldest first.

    Of the fillings of one program's holes the fastest counts.
    """
    best: dict[int, Attempt] = {}
    for one in hypotheses:
        key = one.template or one.proposal
        before = best.get(key)
        if before is None or _rank(one) > _rank(before):
            best[key] = one
    for one in best.values():
        if one.status == _SCORED or one.status in _TOLD:
            yield {"note": cut(one.note, MOST_TEXT), "outcome": _outcome(one)}


def _rank(attempt: Attempt) -> tuple[bool, float]:
    return attempt.status == _SCORED, attempt.fitness


def _outcome(attempt: Attempt) -> str:
    expected, actual = _factors(attempt)
    said = f"expected {cut(attempt.expected, MOST_TEXT)}"
    if actual is None:
        return f"{said}, got {attempt.status.replace('_', ' ')}"
    text = f"{said}, got {actual:.3g}x" if expected is None else compared(expected, actual)
    return f"{text} ({number(attempt.time_us)} us, {attempt.fitness:.3f} of the speed of light)"


def _factors(attempt: Attempt) -> tuple[float | None, float | None]:
    """What was expected and what came, as factors of speed, where there are any."""
    scored = attempt.status == _SCORED and attempt.time_us and attempt.against_us
    actual = attempt.against_us / attempt.time_us if scored else None  # type: ignore[operator]
    return read_factor(attempt.expected), actual


def _instructive(failed: Sequence[Attempt], count: int) -> list[Attempt]:
    """So many of them, oldest first: the latest of each reason, then the latest others."""
    of_reason = {_reason(one): at for at, one in enumerate(failed)}
    order = [*sorted(of_reason.values(), reverse=True), *reversed(range(len(failed)))]
    chosen = list(dict.fromkeys(order))[:count]
    return [failed[at] for at in sorted(chosen)]


def _reason(attempt: Attempt) -> str:
    return next((str(one.get("code")) for one in attempt.diagnostics), attempt.status)


def _failure(attempt: Attempt, detail: Detail) -> dict[str, Any]:
    why = reasons(attempt.diagnostics) or cut(attempt.message, MOST_TEXT)
    program = block(attempt.program, detail.lines, comments=_COMMENT)
    return {"program": program, "status": attempt.status.replace("_", " "), "why": why}


def _last(items: Sequence[Item], count: int) -> Sequence[Item]:
    return items[-count:] if count else ()
