"""Contexts of a search as its prompts show them, made without one: the first of a run, and a later one.

The scores come from `benchmarks/results/prompt-scores.json`. The later one has every section of a prompt at
the limit of its tier: the prepared program is the one to improve, its beginnings stand for other programs,
for results and for programs that failed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from benchmarks.llm.scored import RESULT, problem_of
from evolve.agents.base import Attempt, Context, Parent
from evolve.population.rng import stream

MANY = 32
_REFUSED = {
    "code": "E-RACE",
    "line": 2,
    "message": "two threads of a block write the same element, and nothing orders them",
    "witness": "thread.x = 0 and thread.x = 1",
    "repair": "bind another loop to thread.x, or reduce with block_reduce",
}


@cache
def scores() -> Mapping[str, Any]:
    """The record of each kernel."""
    kernels: Mapping[str, Any] = json.loads(RESULT.read_text())["kernels"]
    return kernels


def first_context(name: str) -> Context:
    """What an agent is told when a run begins."""
    given = Parent(0, "", *_figures(scores()[name]["given"]))
    return _context(name, given, given)


def later_context(name: str) -> Context:
    """What it is told late in a run, at its longest."""
    record = scores()[name]
    given = Parent(0, "", *_figures(record["given"]))
    program = record["prepared"]["program"]
    fitness, us, gap = _figures(record["prepared"])
    best = Parent(90, program, fitness, us, gap)
    lines = program.splitlines(keepends=True)
    begun = ["".join(lines[: max(1, len(lines) - n)]) for n in range(MANY)]
    others = tuple(Parent(n, begun[n], fitness * 0.9, us / 0.9, gap) for n in range(1, 6))
    failed = tuple(Attempt(n, begun[n % 8], "illegal", 0.0, (_REFUSED,)) for n in range(MANY))
    results = tuple(
        Attempt(
            n, begun[n % 8], "scored", fitness, (), "",
            "keeps each row in registers, so that memory is read once instead of three times",
            us * (1 + n % 3), "1.8x faster, DRAM traffic halved", us * 2,
        )
        for n in range(1, MANY)
    )  # fmt: skip
    return _context(name, given, best, (best, *others), failed, results)


def _figures(record: Mapping[str, Any]) -> tuple[float, float, Mapping[str, Any]]:
    return record["fitness"], record["time_us"] or 0.0, record["gap"]


def _context(
    name: str,
    given: Parent,
    best: Parent,
    parents: tuple[Parent, ...] = (),
    recent: tuple[Attempt, ...] = (),
    hypotheses: tuple[Attempt, ...] = (),
) -> Context:
    info = _info(name)
    return Context(
        ask=len(recent),
        kernel=info.kernel,
        target=info.target,
        summary=info.summary,
        features=info.features,
        workload=info.workload,
        sol={"time_us": info.sol.time_us, "hard_time_us": info.sol.hard_time_us, "bound": info.sol.bound},
        numerics=info.numerics,
        baseline=given,
        best=best,
        parents=parents,
        recent=recent,
        budget_left=200 - 3 * len(recent),
        legal_moves=lambda text: (),
        rng=stream(0, "agent", 0),
        hypotheses=hypotheses,
    )


@cache
def _info(name: str) -> Any:
    return problem_of(name).info()
