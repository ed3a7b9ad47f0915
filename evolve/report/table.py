"""The final table of a run, from the document that `run --json` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evolve.report.arms import arm_lines
from evolve.report.conversation import effect_lines, ledger_lines, probed_lines
from evolve.report.examined import examined_lines
from evolve.report.units import duration, microseconds
from evolve.runs.best import LEAST_GAIN
from evolve.runs.shapes import shapes_text
from evolve.search.problem import TextFound

_SPECIALIZED = re.compile(r"(?:specialize|assume)\((.*)\)").fullmatch
STOPPED = {
    "budget": "the budget is spent",
    "speed_of_light": "nothing is left to win",
    "stagnation": "nothing better for long",
    "exhausted": "no new programs were found",
    "ended": "who proposed has ended it",
    "interrupted": "interrupted",
    "running": "not ended, or killed",
    "error: limit-reached": "a limit on tokens or USD is reached",
}


def final_table(document: Mapping[str, Any], folder: Path) -> str:
    """Baseline, best, speed of light, what binds, the funnel, where the files are; plain text."""
    device, sol, best = document["device"], document["sol"], document["best"]
    baseline, budget, timing = document["baseline"], document["budget"], device["timing"]
    rows = [
        ("", f"time ({timing})", "of SOL", "speedup"),
        ("baseline", microseconds(baseline["time_us"]), f"{baseline['fitness']:.3f}", "1.00x"),
        (
            f"best, candidate {best['candidate']}" if best["candidate"] else "best: the baseline",
            microseconds(best["time_us"]),
            f"{best['fitness']:.3f}",
            f"{best['speedup']:.2f}x" if best["speedup"] is not None else "-",
        ),
        ("speed of light", microseconds(sol["time_us"]), "1.000", f"bound: {sol['bound']}"),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    at = shapes_text(document["workload"])
    lines = [f"{document['kernel']} on {device['kind']}:{device['profile']}{', ' + at if at else ''}", ""]
    for name, time_us, fitness, speedup in rows:
        line = f"  {name:<{widths[0]}}  {time_us:>{widths[1]}}  {fitness:>{widths[2]}}  {speedup}"
        lines.append(line.rstrip())
    reason = STOPPED.get(document["stopped"], document["stopped"])
    lines += [
        "",
        f"  scored {budget['scored']} of {budget['limit']} in {duration(document['wall_s'])}; {reason}",
        f"  funnel: {funnel_text(document['funnel'])}",
        *_filtered(document.get("prefilter")),
        *_no_gain(best),
        *restricted(best["program"]),
        *_text(best.get("text")),
        *_refuted(document.get("refuted")),
        *_miscompiled(document["funnel"].get("miscompiled", 0)),
        *(f"  {line}" for line in probed_lines(document.get("probed") or ())),
        *(f"  {line}" for line in arm_lines(document.get("arms") or ())),
        *(f"  {line}" for line in ledger_lines(document.get("models") or ())),
        *([f"  what was said: evolve show {folder.name} --prompts"] if document.get("models") else ()),
        *(f"  {line}" for line in effect_lines(document.get("effects") or ())),
        *(f"  no longer asked: {why}" for why in (document.get("given_up") or {}).values()),
        *(f"  {line}" for line in examined_lines(document.get("examined"))),
        f"  files: {folder / 'best.cu'}, {folder / 'best.dsl'}, {folder / 'events.jsonl'}",
    ]
    return "\n".join(lines)


def _filtered(balance: Mapping[str, Any] | None) -> Iterator[str]:
    """What the pre-filter saved and cost, where it skipped anything."""
    if balance and balance["skipped"]:
        yield f"  {balance['text']}"


def _text(found: Mapping[str, Any] | None) -> Iterator[str]:
    """What reading the text back came to, a line of it named as it is in best.cu."""
    if found:
        at = f"line {found['line']} of best.cu: " if found["line"] else ""
        yield f"  text: {TextFound(found['status'], at + found['reason']).said}"


def _refuted(leads: Mapping[str, Any] | None) -> Iterator[str]:
    """That a faster program is not shipped, whose text does something else than what was proved."""
    if leads:
        found = leads["text"]
        said = TextFound(found["status"], found["reason"], found["line"]).said
        yield f"  NOT SHIPPED: candidate {leads['candidate']}, {microseconds(leads['time_us'])}; text: {said}"


def _miscompiled(number: int) -> Iterator[str]:
    """That the tool itself is at fault, which no result of it makes up for."""
    if number:
        programs = "1 program was" if number == 1 else f"{number} programs were"
        yield f"  ERROR OF EVOLVE: {programs} proved, emitted as something else, set aside: please report it"


def _no_gain(best: Mapping[str, Any]) -> Iterator[str]:
    """That the files hold the kernel as given, since the best program is no faster."""
    if best["speedup"] is not None and best["speedup"] < LEAST_GAIN:
        yield "  no gain: best.cu is the kernel as given"


def restricted(program: str) -> Iterator[str]:
    """That the best program is for some parameters only: a caller with others gets nothing from it."""
    needed = [x[1] for x in map(_SPECIALIZED, map(str.strip, program.splitlines())) if x]
    if needed:
        condition = " and ".join(needed)
        yield f"  for launches with {condition}: others run the kernel as given (--workload sets sizes)"


def funnel_text(funnel: Mapping[str, int]) -> str:
    """The funnel in one line, stages that nothing fell into left out."""
    stages = [f"{count} {stage.replace('_', ' ')}" for stage, count in funnel.items() if count]
    return ", ".join(stages) or "nothing proposed"
