"""What the model is shown of a search: the values that the templates are filled with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evolve.agents.base import Attempt, Context, Parent

MOST_PROGRAMS = 4
"""Asked for at a time."""
FAR, NEAR = 0.5, 0.85
"""Below the one fraction of the speed of light structures are worth changing, above the other nothing is but
details."""
_SHOWN_SHARE = 0.02
_MOST_CAUSES = 6
_MOST_FACTS = 40
_MOST_TEXT = 400
_UNTOLD = frozenset(("kernel", "exact", "this_input", "depth", "contiguous"))


@dataclass(frozen=True)
class Detail:
    """How much is shown: programs that failed, results, other programs, and whether features are."""

    failed: int
    results: int
    others: int
    features: bool


DETAILS = (Detail(8, 8, 3, True), Detail(4, 4, 2, True), Detail(2, 2, 1, True), Detail(1, 1, 0, False))
"""From rich to short: a prompt that is too long is made again with the next."""


def view(context: Context, detail: Detail) -> dict[str, Any]:
    """The values of `propose.j2`."""
    parent = parent_of(context)
    shown = {parent.proposal, 0}
    others = [p for p in (context.best, *context.parents) if p.proposal not in shown]
    others = list({p.proposal: p for p in others}.values())[: detail.others]
    notes = [a for a in context.recent if a.note and a.status in ("scored", "incorrect")]
    failed = [a for a in context.recent if a.status not in ("scored", "duplicate", "prefiltered")]
    return {
        "kernel": context.summary.rstrip(),
        "device": str(getattr(context.target, "name", "the GPU")),
        "sizes": _sizes(context.workload),
        "numerics": context.numerics,
        "sol_us": _number(context.sol.get("time_us")),
        "sol_bound": context.sol.get("bound", "?"),
        "baseline": _program(context.baseline),
        "best": _program(context.best),
        "features": list(facts(context.features))[:_MOST_FACTS] if detail.features else [],
        "parent": _program(parent) | {"gap": list(losses(parent.gap))},
        "others": [_program(p) for p in others],
        "results": [_result(a) for a in _last(notes, detail.results)],
        "failed": [_failure(a) for a in _last(failed, detail.failed)],
        "boldness": boldness(context.best.fitness),
        "asked_before": context.ask > 0 and not context.recent,
        "budget_left": context.budget_left,
        "most": MOST_PROGRAMS,
    }


def parent_of(context: Context) -> Parent:
    """The program that the model is to improve: one drawn from the archive, before there is one the best."""
    return context.parents[0] if context.parents else context.best


def boldness(fitness: float) -> str:
    """How far to go, by how much is left to win."""
    if fitness < FAR:
        return "restructure"
    return "extend" if fitness < NEAR else "refine"


def losses(gap: Mapping[str, Any]) -> Iterator[str]:
    """A gap report (`sol.gap`) in lines: the limiter, then each cause with what addresses it."""
    limiter = gap.get("limiter")
    if limiter:
        yield f"limited by: {limiter}"
    told = gap.get("causes") or ()
    # A record of another version may hold something else.
    causes = [c for c in told if isinstance(c, Mapping) and float(c.get("share", 0.0)) >= _SHOWN_SHARE]
    for cause in causes[:_MOST_CAUSES]:
        seen = f" ({cause['evidence']})" if cause.get("evidence") else ""
        use = f" Try: {', '.join(cause['primitives'])}." if cause.get("primitives") else ""
        yield f"- {float(cause['share']):.0%} {cause.get('name')}{seen}: {cause.get('advice', '')}.{use}"


def reasons(diagnostics: Sequence[Mapping[str, Any]]) -> str:
    """Diagnostics as the model is told them, one a line: where, code, what, an example, the repair."""
    lines = []
    for one in diagnostics[:3]:
        place = f"line {one['line']}: " if one.get("line") else ""
        text = f"{place}{one.get('code', 'refused')}: {one.get('message', '')}"
        for name in ("witness", "repair"):
            if one.get(name):
                text += f"; {name}: {one[name]}"
        lines.append(_cut(text, 2 * _MOST_TEXT))
    return "\n".join(lines)


def facts(features: Mapping[str, Any]) -> Iterator[str]:
    """Features in lines: a number, a name or an entry of a list each; what is false or empty is left out."""
    for name, value in features.items():
        if name in _UNTOLD:
            continue
        if isinstance(value, list | tuple):
            for item in value:
                told = _entry(item) if isinstance(item, Mapping) else _text(item)
                yield f"{name}: {told}"
        elif told := (_entry(value) if isinstance(value, Mapping) else _text(value)):
            yield f"{name}: {told}"


def _entry(item: Mapping[str, Any]) -> str:
    told = ((name, _text(value)) for name, value in item.items() if name not in _UNTOLD)
    return ", ".join(f"{name} {text}" for name, text in told if text)


def _text(value: Any) -> str:
    match value:
        case None | False | "":
            return ""
        case True:
            return "yes"
        case int() | float():
            return _number(value)
        case Mapping():
            return " ".join(f"{name}={_number(v)}" for name, v in value.items())
        case list() | tuple():
            return " ".join(map(str, value))
        case _:
            return str(value)


def _sizes(workload: Mapping[str, Any]) -> str:
    sizes = workload.get("sizes")
    return ", ".join(f"{n} = {v}" for n, v in sizes.items()) if isinstance(sizes, Mapping) else ""


def _program(parent: Parent) -> dict[str, Any]:
    return {
        "number": parent.proposal,
        "program": _indented(parent.program),
        "us": _number(parent.time_us),
        "fitness": f"{parent.fitness:.3f}",
    }


def _result(attempt: Attempt) -> dict[str, Any]:
    scored = attempt.status == "scored"
    time = f"{_number(attempt.time_us)} us, {attempt.fitness:.3f} of the speed of light" if scored else ""
    return {"note": _cut(attempt.note, _MOST_TEXT), "outcome": time or attempt.status}


def _failure(attempt: Attempt) -> dict[str, Any]:
    why = reasons(attempt.diagnostics) or _cut(attempt.message, _MOST_TEXT)
    return {"program": _indented(attempt.program), "status": attempt.status.replace("_", " "), "why": why}


def _indented(program: str) -> str:
    return "\n".join(f"    {line}" for line in program.strip().splitlines())


def _last(items: Sequence[Attempt], count: int) -> Sequence[Attempt]:
    return items[-count:] if count else ()


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _cut(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
