"""The display of a running search on standard error: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Protocol

from evolve.devices.grounds import unchecked
from evolve.events.schema import Asked, Body, Champion, Examined, Result
from evolve.report.examined import examined_lines
from evolve.report.progress import Progress
from evolve.report.table import STOPPED, funnel_text, restricted
from evolve.report.units import duration, harmless, microseconds
from evolve.runs.shapes import shapes_text
from evolve.search.problem import ProblemInfo
from evolve.search.state import FUNNEL

FAILED = ("miscompiled", "compile_failed", "incorrect", "quarantined")
"""What may become of a proved program that is not scored: rare, and each worth a line."""


class Display(Protocol):
    """Shows a search."""

    def announce(self, folder: Path, info: ProblemInfo) -> None:
        """Before the baseline runs: what was found and assumed."""
        ...

    def observe(self, body: Body, recorded: bool) -> None:
        """Every event."""
        ...

    def __enter__(self) -> Display: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def make_display(*, live: bool = True) -> Display:
    """The live display if standard error is a terminal that can move its cursor, else plain lines."""
    if live and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from evolve.report.live import LiveDisplay

        return LiveDisplay()
    return PlainDisplay()


def opening(folder: Path, info: ProblemInfo) -> list[str]:
    """The lines that say what is about to be searched, on what assumptions."""
    sizes, device = shapes_text(info.workload), info.device
    why = f" ({device.reason})" if device.reason else ""
    unsure = unchecked(device.timing, device.profile)
    lines = [
        f"kernel {info.entry} on {device.name}: times are {device.timing}{unsure}{why}",
        f"speed of light {microseconds(info.sol.time_us)}, bound by {info.sol.bound}",
        f"numerics: {info.numerics}",
    ]
    if sizes:
        lines.append(f"workload: {sizes}")
    return [*lines, *_assumed(info.assumptions), f"run folder: {folder}"]


def premises(numerics: str, assumptions: Iterable[str], program: str) -> list[str]:
    """What a proof of a program rests on, and which launches it is for."""
    return [f"numerics: {numerics}", *_assumed(assumptions), *(x.strip() for x in restricted(program))]


def _assumed(assumptions: Iterable[str]) -> list[str]:
    return [f"assumed: {one}" for one in assumptions]


def failure(result: Result) -> str:
    """Why a proved program has no score, in a line."""
    return f"candidate {result.proposal}: {result.status.replace('_', ' ')}: {result.message}"


def _standing(time_us: float, fitness: float) -> str:
    return f"{microseconds(time_us)}, {fitness:.3f} of the speed of light"


class PlainDisplay:
    """A line for each champion, each failure after the proof, and every tenth candidate."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._best_us: float | None = None

    def announce(self, folder: Path, info: ProblemInfo) -> None:
        """Prints the opening."""
        for line in opening(folder, info):
            self._say(line)

    def observe(self, body: Body, recorded: bool) -> None:
        """Prints what is worth a line."""
        progress, state = self._progress, self._progress.state
        progress.apply(body, recorded)
        if recorded or state.settings is None:
            return
        if body.kind == "baseline":
            self._say(f"baseline: {_standing(body.time_us, body.fitness)}")
        elif isinstance(body, Champion):
            self._say(f"candidate {body.proposal}: {_standing(body.time_us, body.fitness)}{self._gain(body)}")
            self._best_us = body.time_us
        elif isinstance(body, Result) and body.status in FAILED:
            self._say(failure(body))
        elif isinstance(body, Result) and body.status == "scored" and state.scored % 10 == 0:
            left = progress.time_left_s()
            rest = f"; about {duration(left)} left" if left else ""
            counts = funnel_text({stage: state.funnel[stage] for stage in FUNNEL if stage != "scored"})
            self._say(f"{state.scored} of {state.settings.budget} scored ({counts}){rest}")
        elif isinstance(body, Asked) and body.failed == "for-good":
            self._say(f"no longer asked: {body.why}")
        elif body.kind == "stopped":
            self._say(f"stopped: {STOPPED.get(body.reason, body.reason)}")
        elif isinstance(body, Examined):
            for line in examined_lines(body.model_dump()):
                self._say(line)

    def _gain(self, best: Champion) -> str:
        """By how much it is faster, where the rounded times do not show it."""
        before = self._best_us
        if before is None or microseconds(before) != microseconds(best.time_us):
            return ""
        return f" ({(before / best.time_us - 1.0) * 100.0:.2g} % faster)"

    def _say(self, line: str) -> None:
        print(harmless(line), file=sys.stderr, flush=True)

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        pass
