"""The stories of `evolve show`, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evolve.report.outline import outline
from evolve.report.table import STOPPED, funnel_text
from evolve.report.units import microseconds


def run_text(story: Mapping[str, Any]) -> str:
    """A run: what was searched, its champions one by one, refusals, operators."""
    device = story["device"]
    lines = [
        f"{story['kernel']} on {device['kind']}:{device['profile']}, times {device['timing']}",
        f"stopped: {STOPPED.get(story['stopped'], story['stopped'])}",
        f"funnel: {funnel_text(story['funnel'])}; {story['cells']} kinds of programs in the archive",
        f"baseline {microseconds(story['baseline']['time_us'])}, "
        f"{story['baseline']['fitness']:.3f} of the speed of light",
        "",
    ]
    for one in story["champions"]:
        lines += [_headline(one), *_indented(one["program"]), ""]
    if story["refusals"]:
        lines.append("refused: " + ", ".join(f"{count} {code}" for code, count in story["refusals"].items()))
    for operator, row in story["operators"].items():
        lines.append(f"{operator}: {funnel_text(row)}")
    return "\n".join(lines)


def candidate_text(story: Mapping[str, Any]) -> str:
    """A candidate: program, origin, verdict, gap, code."""
    lines = [_headline(story), *_indented(story["program"])]
    if story.get("note"):
        lines += ["", "note: " + story["note"]]
    for one in story.get("ancestors", ()):
        lines.append("descends from " + _headline(one))
    if story.get("same_as") is not None:
        lines.append(f"the same program as candidate {story['same_as']}")
    if story.get("verdict"):
        lines.append(f"verdict: {story['verdict']}")
    if story.get("message"):
        lines.append(story["message"])
    for name in ("diagnostics", "gap", "detail"):
        if story.get(name):
            lines += ["", f"{name}:", *outline(story[name], 1)]
    if story.get("source"):
        lines += ["", story["source"].rstrip()]
    return "\n".join(lines)


def _headline(one: Mapping[str, Any]) -> str:
    head = f"candidate {one['candidate']} ({one['operator']}"
    head += f" of {', '.join(map(str, one['parents']))})" if one["parents"] else ")"
    head += f": {one['status'].replace('_', ' ')}"
    if one["time_us"] is not None:
        head += f", {microseconds(one['time_us'])}, {one['fitness']:.3f} of the speed of light"
    return head


def _indented(program: str) -> list[str]:
    return [f"    {line}" for line in program.splitlines()]
