"""Worker processes: the same outcomes as evaluating here, in batches, whoever dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from evolve.ir.errors import EvolveError
from evolve.search import pool
from evolve.search.pool import PoolEvaluator
from evolve.search.problem import Compiled, Score
from evolve.search.workers import Evaluator, Outcome, SerialEvaluator
from tests.search.fake import FakeProblem, FakeProgram

TEXTS = [
    f"set(tile, {tile})\nset(width, {width})\n" for width in (1, 2) for tile in (64, 7, 11, 13, 32, 23, 16)
]


@dataclass
class StagedProblem(FakeProblem):
    """Scores in stages. `seen` is how many were looked at together; `warps` 5 kills in the last stage."""

    blind: bool = False

    def begin(self, compiled: Compiled) -> Score | Any:
        score = self.score(compiled)
        return (compiled, score) if score.status == "scored" else score

    def look(self, begun: Sequence[Any]) -> Sequence[Any]:
        if self.blind:
            raise EvolveError("nvdisasm-failed", "it did not decode the code")
        return [len(begun)] * len(begun)

    def conclude(self, begun: Any, seen: Any | None) -> Score:
        compiled, score = begun
        if dict(compiled.payload.settings).get("warps") == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return Score("scored", score.time_us, score.fitness, detail={"together": seen})


def outcomes(evaluator: Evaluator, texts: Sequence[str]) -> list[Outcome]:
    try:
        for number, text in enumerate(texts, start=1):
            evaluator.start(number, text)
        return [evaluator.finish(n, lambda module: False, lambda: None) for n in range(1, len(texts) + 1)]
    finally:
        evaluator.close()


def essence(found: Sequence[Outcome]) -> list[tuple[str, str | None, float]]:
    return [
        (o.compiled.verdict, o.score.status if o.score else None, o.score.fitness if o.score else 0.0)
        for o in found
    ]


@pytest.mark.parametrize("problem", [FakeProblem(), StagedProblem(), StagedProblem(blind=True)])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_pool_finds_what_this_process_finds(problem: FakeProblem, count: int) -> None:
    here = essence(outcomes(SerialEvaluator(problem), TEXTS))
    assert {status for _, status, _ in here} == {"scored", "compile_failed", "incorrect", None}
    assert essence(outcomes(PoolEvaluator(problem, count), TEXTS)) == here


def test_several_are_looked_at_together() -> None:
    texts = [f"set(tile, {64 + n})\n" for n in range(9)]
    found = outcomes(PoolEvaluator(StagedProblem(), 1), texts)
    together = [o.score.detail["together"] for o in found if o.score]
    assert together == [1, 4, 4, 4, 4, 4, 4, 4, 4]


def test_one_that_cannot_be_looked_at_spoils_no_other() -> None:
    found = outcomes(PoolEvaluator(StagedProblem(blind=True), 1), TEXTS)
    assert {o.score.detail["together"] for o in found if o.score and o.score.status == "scored"} == {None}


@pytest.mark.parametrize("culprit", ["set(tile, 19)\n", "set(warps, 5)\n"])
@pytest.mark.parametrize("place", range(6))
def test_only_the_program_that_ends_its_worker_pays(culprit: str, place: int) -> None:
    texts = [f"set(tile, {64 + n})\n" for n in range(6)]
    texts.insert(place, culprit)
    found = outcomes(PoolEvaluator(StagedProblem(), 1), texts)
    assert [n for n, o in enumerate(found) if o.fault] == [place]
    dead = found[place]
    said = dead.score.message if dead.score else str(dead.compiled.diagnostics)
    assert "SIGKILL" in said
    assert all(o.score and o.score.status == "scored" for n, o in enumerate(found) if n != place)


@dataclass
class SleepyProblem(FakeProblem):
    """`width` 29 never ends to compile, 31 to score."""

    def compile(self, program: FakeProgram) -> Compiled:
        self.sleep_if(program, 29)
        return FakeProblem.compile(self, program)

    def score(self, compiled: Compiled) -> Score:
        self.sleep_if(compiled.payload, 31)
        return FakeProblem.score(self, compiled)

    def sleep_if(self, program: FakeProgram, width: int) -> None:
        if dict(program.settings).get("width") == width:
            time.sleep(600)


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize(
    ("culprit", "status", "said"),
    [(29, None, "analysis"), (31, "quarantined", "not judged: it was given up")],
)
def test_what_takes_too_long_is_given_up_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, culprit: int, status: str | None, said: str, place: int
) -> None:
    monkeypatch.setattr(pool, "SCORE_LIMIT_S", 0.5)
    texts = [f"set(tile, {64 + n})\n" for n in range(6)]
    texts.insert(place, f"set(width, {culprit})\n")
    begin = time.monotonic()
    found = outcomes(PoolEvaluator(SleepyProblem(), 2), texts)
    assert time.monotonic() - begin < 60
    given_up = found.pop(place)
    assert (given_up.score.status if given_up.score else None) == status and not given_up.fault
    assert said in (given_up.score.message if given_up.score else given_up.compiled.diagnostics[0]["message"])
    assert all(o.score and o.score.status == "scored" for o in found)


def test_a_worker_that_nobody_listened_to_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is for one program, however long the parent was busy with something else."""
    monkeypatch.setattr(pool, "SCORE_LIMIT_S", 0.5)
    texts = [f"set(tile, {64 + n})\n" for n in range(4)]
    evaluator = PoolEvaluator(StagedProblem(), 1)
    try:
        for number, text in enumerate(texts, start=1):
            evaluator.start(number, text)
        time.sleep(1.0)
        found = [evaluator.finish(n, lambda module: False, lambda: None) for n in range(1, 5)]
    finally:
        evaluator.close()
    assert all(o.score and o.score.status == "scored" for o in found)


def test_twins_in_one_batch_are_scored_once() -> None:
    texts = ["set(tile, 64)\n", "set(tile, 32)\n", "set(tile, 32)\n", "set(tile, 16)\n"]
    found = outcomes(PoolEvaluator(StagedProblem(), 1), texts)
    assert [o.score is None for o in found] == [False, False, True, False]
