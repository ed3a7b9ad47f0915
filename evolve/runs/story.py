"""The story of a run and of one candidate, as JSON data: folds over the events."""

from __future__ import annotations

from typing import Any

from evolve.ir.errors import EvolveError
from evolve.population.lineage import ancestors
from evolve.runs.effects import effect
from evolve.runs.evidence import evidence
from evolve.runs.folder import RunFolder
from evolve.runs.summary import RunView, as_document
from evolve.search.state import SearchState

_FAILED = ("miscompiled", "compile_failed", "incorrect", "quarantined")


def run_story(view: RunView, folder: RunFolder) -> dict[str, Any]:
    """The summary, the champions in order, why programs were refused, which failed after that and why, what
    each operator brought, and what the result rests on (`evidence`)."""
    state = view.state
    refusals: dict[str, int] = {}
    failures: list[dict[str, Any]] = []
    operators: dict[str, dict[str, int]] = {}
    for number, result in state.results.items():
        for diagnostic in result.diagnostics[:1]:
            code = str(diagnostic.get("code"))
            refusals[code] = refusals.get(code, 0) + 1
        if result.status in _FAILED:
            failures.append({"candidate": number, "status": result.status, "message": result.message})
        row = operators.setdefault(state.proposals[number].operator, {})
        row[result.status] = row.get(result.status, 0) + 1
    champions = [_line(state, number) for number in view.champions]
    return {
        **as_document(view, folder.name, folder.blobs),
        "champions": champions,
        "refusals": dict(sorted(refusals.items(), key=lambda item: (-item[1], item[0]))),
        "failures": failures,
        "operators": operators,
        "evidence": evidence(view),
        "cells": state.archive.occupied,
    }


def candidate_story(view: RunView, folder: RunFolder, number: int) -> dict[str, Any]:
    """One candidate: where it came from, its program, verdict, score, gap and code.

    Raises EvolveError `no-such-candidate`.
    """
    state, started = view.state, view.started
    assert state.baseline is not None and started is not None
    timing = {"timing": started.device.timing, "timed": started.workload_summary.get("timed", [])}
    if number == 0:
        blob = state.baseline.source or started.source
        base = state.baseline
        return {
            "run": folder.name,
            **_line(state, 0),
            **timing,
            "gap": base.gap,
            "detail": base.detail,
            "source": folder.blobs.get(blob),
        }
    if number not in state.proposals:
        hint = f"there are 0 (the baseline) to {len(state.proposals)}"
        raise EvolveError("no-such-candidate", f"there is no candidate {number}", file=folder.name, hint=hint)
    proposed = state.proposals[number]
    result = state.results.get(number)
    parents = {one: body.parents for one, body in state.proposals.items()}
    return {
        "run": folder.name,
        **_line(state, number),
        **timing,
        "note": proposed.note,
        "expected": proposed.expected,
        "effect": effect(state, number),
        "island": proposed.island,
        "template": proposed.template,
        "ancestors": [_line(state, one) for one in ancestors(number, parents)],
        "same_as": result.same_as if result else None,
        "verdict": result.verdict if result else None,
        "diagnostics": list(result.diagnostics) if result else [],
        "message": result.message if result else "",
        "gap": result.gap if result else {},
        "detail": result.detail if result else {},
        "source": folder.blobs.get(result.source) if result and result.source else None,
    }


def _line(state: SearchState, number: int) -> dict[str, Any]:
    if number == 0:
        assert state.baseline is not None
        base = state.baseline
        return {
            "candidate": 0,
            "program": "",
            "operator": "baseline",
            "parents": [],
            "status": "scored",
            "time_us": base.time_us,
            "fitness": base.fitness,
        }
    proposed, result = state.proposals[number], state.results.get(number)
    return {
        "candidate": number,
        "program": proposed.program,
        "operator": proposed.operator,
        "parents": list(proposed.parents),
        "status": result.status if result else "in work",
        "time_us": result.time_us if result else None,
        "fitness": result.fitness if result else None,
    }
