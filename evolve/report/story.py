"""The stories of `evolve show`, for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from evolve.report.arms import arm_lines
from evolve.report.conversation import effect_lines, ledger_lines, probed_lines
from evolve.report.examined import examined_lines
from evolve.report.figures import division, facts, gains, listed, number, resources, table, times
from evolve.report.table import STOPPED, funnel_text
from evolve.report.timing import timing_lines
from evolve.report.units import microseconds

_MOST_FAILURES = 12
_OPERATORS = {"answer": "the agent's changes to good programs"}
"""What does not say what it means."""


def run_text(story: Mapping[str, Any]) -> str:
    """A run: what was searched, its champions one by one, refusals, what was not scored, operators."""
    device = story["device"]
    lines = [
        f"{story['kernel']} on {device['kind']}:{device['profile']}, times {device['timing']}",
        f"stopped: {STOPPED.get(story['stopped'], story['stopped'])}",
        f"funnel: {funnel_text(story['funnel'])}; the best of {story['cells']} kinds are kept to go on with",
        f"baseline {microseconds(story['baseline']['time_us'])}, "
        f"{story['baseline']['fitness']:.3f} of the speed of light",
        *probed_lines(story.get("probed") or ()),
        *arm_lines(story.get("arms") or ()),
        *ledger_lines(story.get("models") or ()),
        *(f"no longer asked: {why}" for why in (story.get("given_up") or {}).values()),
        *examined_lines(story.get("examined")),
        "",
    ]
    for one in story["champions"]:
        lines += [_headline(one), *_indented(one["program"].splitlines()), ""]
    if story["refusals"]:
        codes = ", ".join(f"{count} {code}" for code, count in story["refusals"].items())
        lines.append(f"why programs were illegal: {codes}")
    failures = story["failures"]
    for one in failures[:_MOST_FAILURES]:
        lines.append(f"candidate {one['candidate']}: {one['status'].replace('_', ' ')}: {one['message']}")
    if len(failures) > _MOST_FAILURES:
        lines.append(f"and {len(failures) - _MOST_FAILURES} more; `show --json` has all")
    if story["operators"]:
        lines.append("how programs were made, and what became of them:")
    for operator, row in story["operators"].items():
        lines.append(f"    {_OPERATORS.get(operator, operator)}: {funnel_text(row)}")
    lines += effect_lines(story.get("effects") or ())
    return "\n".join(lines)


def candidate_text(story: Mapping[str, Any]) -> str:
    """A candidate: program, origin, verdict, checks, figures, code."""
    lines = [_headline(story), *_indented(story["program"].splitlines())]
    if story.get("note"):
        lines += ["", "note: " + story["note"]]
    if story.get("expected"):
        lines.append("expected: " + story["expected"])
        if story.get("effect"):
            lines.append(f"it is {story['effect']:.3g} times as fast as what it was to improve")
    for one in story.get("ancestors", ()):
        lines.append("descends from " + _headline(one))
    if story.get("same_as") is not None:
        lines.append(f"the same program as candidate {story['same_as']}, which has the result")
    gap, detail = table(story.get("gap")), table(story.get("detail"))
    said = [*_outcome(story, detail), *figure_lines(gap, detail, story.get("timing"), story.get("timed"))]
    lines += ["", *said] if said else []
    if story.get("source"):
        lines += ["", story["source"].rstrip()]
    return "\n".join(lines)


def _outcome(story: Mapping[str, Any], detail: Mapping[str, Any]) -> list[str]:
    """The verdict with its conditions, why it is not scored, what was executed."""
    lines = []
    if story.get("verdict"):
        lines.append(f"verdict: {story['verdict']}")
        for at, condition in enumerate(listed(detail.get("conditions")), start=1):
            lines.append(f"    variant {at} runs where {condition}; elsewhere the original does")
    for one in story.get("diagnostics") or ():
        lines += _indented(diagnostic_lines(one))
    if story.get("message"):
        lines.append(f"{story['status'].replace('_', ' ')}: {story['message']}")
    runs, worst = number(detail.get("runs_checked")), number(detail.get("worst_error"))
    if runs is not None:
        error = "" if worst is None else f"; the largest error is {worst:.2g} of what is allowed"
        lines.append(f"checked: {runs:.0f} runs against the float64 reference{error}")
    return lines


def figure_lines(
    gap: Mapping[str, Any], detail: Mapping[str, Any], timing: str | None, timed: Any
) -> list[str]:
    """Times, resources, where the time goes, what could be gained. `timed`: the timed sizes."""
    lines: list[str] = []
    bound, by = number(gap.get("bound_s")), gap.get("bound_by")
    if bound is not None:
        near = "" if not isinstance(gap.get("limiter"), str) else f"; limited by {gap['limiter']}"
        shapes = len(listed(timed))
        which = f" of the first of {shapes} launches (so is all below but times)" if shapes > 1 else ""
        lines.append(f"speed of light{which}: {microseconds(bound * 1e6)}, bound by {by}{near}")
    sections = (
        (
            f"times ({timing or '?'})",
            times(detail, listed(timed)) if len(listed(detail.get("times_us"))) else (),
        ),
        ("how it was timed", timing_lines(detail, listed(timed))),
        ("where the time goes (by the model)", division(detail)),
        (f"what could be gained (of the {timing or '?'} time)", gains(gap)),
        ("what the model saw", facts(detail)),
        ("doubts", (str(x) for x in listed(gap.get("doubts")))),
    )
    needs = resources(detail)
    if needs:
        lines.append(f"needs: {needs}")
    for title, found in sections:
        body = list(found)
        if body:
            lines += [f"{title}:", *_indented(body)]
    return lines


def diagnostic_lines(diagnostic: Mapping[str, Any]) -> list[str]:
    """Why a program was refused, in lines: where, what, an example, what to do."""
    found = table(diagnostic)
    place = f"line {found['line']}: " if found.get("line") else ""
    lines = [f"{place}{found.get('code')}: {found.get('message')}"]
    for name in ("witness", "repair"):
        if found.get(name) is not None:
            lines.append(f"    {name}: {found[name]}")
    return lines


def _headline(one: Mapping[str, Any]) -> str:
    head = f"candidate {one['candidate']} ({one['operator']}"
    head += f" of {', '.join(map(str, one['parents']))})" if one["parents"] else ")"
    head += f": {one['status'].replace('_', ' ')}"
    if one["time_us"] is not None:
        timing = f" ({one['timing']})" if one.get("timing") else ""
        head += f", {microseconds(one['time_us'])}{timing}, {one['fitness']:.3f} of the speed of light"
    return head


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
