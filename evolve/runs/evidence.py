"""What a run's result rests on: what was given, assumed, proved, checked, timed. A fold over its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evolve.runs.summary import RunView, shipped_text


def evidence(view: RunView) -> dict[str, Any]:
    """JSON data about the best program, or the baseline where nothing is better.

    given     kernel file, its kernel, hash of its text, seed, agent, version of the tool
    assumed   sentences, as when the run began
    numerics  the contract
    proved    the verdict, and the condition under which each variant runs (else the original does);
              `premises`: what the proof rests on besides; `text`: what reading the CUDA text back came to,
              None where nobody did
    checked   runs of the CUDA text under checks, their sizes, families of inputs, the largest error in
              tolerances; `original`: the same of the kernel as given
    timed     measured or estimated, on what, at which sizes; `detail`: how, where measured
    examined  the examination after a measured search, None without one
    """
    started, state = view.started, view.state
    assert started is not None and state.baseline is not None
    result = state.results.get(view.shipped)
    workload = started.workload_summary
    return {
        "candidate": view.shipped,
        "given": {
            "kernel_file": started.kernel_file,
            "kernel": started.entry,
            "sha256": started.source,
            "seed": started.settings.seed,
            "agent": started.settings.agent,
            "tool_version": started.tool_version,
        },
        "assumed": list(started.assumptions),
        "numerics": started.numerics,
        "proved": {
            "verdict": result.verdict if result else None,
            "conditions": result.detail.get("conditions", []) if result else [],
            "premises": result.detail.get("premises", []) if result else [],
            "text": shipped_text(view),
        },
        "checked": {
            **_checked(result.detail if result else state.baseline.detail),
            "original": _checked(state.baseline.detail),
            "families": workload.get("families", []),
        },
        "timed": {
            **started.device.model_dump(),
            "sizes": workload.get("timed", []),
            "detail": _measured(result.detail if result else state.baseline.detail),
        },
        "sol": started.sol.model_dump(),
        "examined": view.examined.model_dump(mode="json") if view.examined else None,
    }


def _measured(detail: Mapping[str, Any]) -> dict[str, Any]:
    names = ("samples_us", "timing", "families_not_judged_timed")
    return {name: detail[name] for name in names if name in detail}


def _checked(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "runs": detail.get("runs_checked"),
        "worst_error": detail.get("worst_error"),
        "shapes": detail.get("shapes_checked", []),
    }
