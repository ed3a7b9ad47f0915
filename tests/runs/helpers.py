"""Runs of the fake problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evolve.agents.base import Context, Proposal
from evolve.agents.random import RandomAgent
from evolve.events.schema import Settings
from evolve.runs.folder import RunFolder
from evolve.runs.session import Session, start
from evolve.search.problem import ProblemRequest
from tests.search.fake import FakeProblem

REQUEST = ProblemRequest(kernel_file="fake.cu", kernel_text="__global__ void fake() {}\n", device="auto")


class SketchAgent:
    """Walks and two templates: exercises the tuner, bad programs, and every rejection."""

    def propose(self, context: Context) -> Sequence[Proposal]:
        if context.ask == 0:
            return [
                Proposal("set(tile, ?[4, 7, 64, 11])\nset(width, ?[1, 2, 4])\n"),
                Proposal("set(tile, 13)\n"),
                Proposal("set(tile, 17)\n"),
                Proposal("not a statement\n"),
                Proposal("set(tile, 4)\nset(width, 1)\n"),
                Proposal("set(warps, 8)\nset(stage, 2)\n"),
                Proposal("set(stage, 2)\nset(warps, 8)\n"),
            ]
        return [*RandomAgent().propose(context), *RandomAgent().propose(context)]


def session(problem: FakeProblem | None = None, **changes: Any) -> Session:
    fields: dict[str, Any] = {
        "open_problem": lambda request: problem or FakeProblem(),
        "make_agent": lambda settings, prompts: SketchAgent(),
    }
    return Session(**(fields | changes))


def run(out: Path, *, budget: int = 40, problem: FakeProblem | None = None, **changes: Any) -> RunFolder:
    settings = changes.pop("settings", None) or Settings(budget=budget, seed=3, patience=budget)
    return start(REQUEST, settings, out, session(problem, **changes))


def after(count: int) -> Callable[[], bool]:
    """An `interrupted` that says yes from its call number `count` on."""
    calls = 0

    def interrupted() -> bool:
        nonlocal calls
        calls += 1
        return calls >= count

    return interrupted
