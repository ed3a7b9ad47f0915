"""Builders beside a process for each GPU: the same outcomes as here, whoever dies, and duels meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from evolve.ir.errors import EvolveError
from evolve.search import pipeline as pipelined
from evolve.search import pool
from evolve.search.pipeline import AT_HAND, PipelineEvaluator
from evolve.search.prefilter import Decision
from evolve.search.problem import Comparison, Compiled, Score, TextFound
from evolve.search.workers import Measuring, SerialEvaluator
from tests.search.fake import FakeProblem, FakeProgram
from tests.search.test_pool import TEXTS, essence, outcomes


@dataclass
class MeasuredProblem(FakeProblem):
    """`warps` 5 ends the GPU's process, 6 is an error about the machine, 7 is found wrong in a duel."""

    timing: str = "measured"
    slow_s: float = 0.0

    def build(self, compiled: Compiled) -> Score | Any:
        score = FakeProblem.score(self, compiled)
        return compiled if score.status in ("scored", "incorrect") else score

    def estimate(self, built: Any) -> tuple[Any, float | None]:
        settings = dict(built.payload.settings)
        if settings.get("width") == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        return built, float(settings["tile"])

    def measure(self, built: Any, gpu: int = 0) -> Score:
        time.sleep(self.slow_s)
        match dict(built.payload.settings).get("warps"):
            case 5:
                os.kill(os.getpid(), signal.SIGKILL)
            case 6:
                raise EvolveError("gpu-failed", "it fell off the bus")
        score = FakeProblem.score(self, built)
        return Score(score.status, score.time_us, score.fitness, detail={"gpu": gpu, "pid": os.getpid()})

    def explain_time(self, built: Any, score: Score) -> Score:
        if dict(built.payload.settings).get("width") == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(score, gap={"explained_by": os.getpid()})

    def score(self, compiled: Compiled) -> Score:
        built = self.build(compiled)
        return built if isinstance(built, Score) else self.measure(built)

    def duel(self, first: Any, second: Any, gpu: int = 0) -> Comparison:
        if dict(second.payload.settings).get("warps") == 7:
            return Comparison(0.0, 0.0, True, wrong=1, message="y[3] is wrong")
        return FakeProblem.compare(self, first, second)

    def examine(self, built: Any, gpu: int = 0) -> Any:
        return {"program": repr(built.payload.settings), "pid": os.getpid()}

    def close(self) -> None:
        pass


assert isinstance(MeasuredProblem(), Measuring)


@contextmanager
def pipeline(problem: MeasuredProblem, gpus: int = 1) -> Iterator[PipelineEvaluator]:
    with closing(PipelineEvaluator(problem, 2, gpus)) as made:
        yield made


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("builders", [1, 3])
def test_the_pipeline_finds_what_this_process_finds(builders: int, gpus: int) -> None:
    problem = MeasuredProblem()
    here = essence(outcomes(SerialEvaluator(problem), TEXTS))
    assert {status for _, status, _ in here} == {"scored", "compile_failed", "incorrect", None}
    assert essence(outcomes(PipelineEvaluator(problem, builders, gpus), TEXTS)) == here


def test_what_a_text_is_refuted_for_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        MeasuredProblem,
        "read_back",
        lambda self, compiled: TextFound(
            "REFUTED" if dict(compiled.payload.settings)["tile"] == 65 else "UNKNOWN", "another loop", 7
        ),
    )
    found = outcomes(PipelineEvaluator(MeasuredProblem(), 2, 1), [f"set(tile, {64 + n})\n" for n in range(3)])
    assert [o.score and o.score.status for o in found] == ["scored", "miscompiled", "scored"]
    assert found[1].score is not None and "line 7: another loop" in found[1].score.message


def test_each_gpu_has_one_process_and_all_of_them_work() -> None:
    texts = [f"set(tile, {64 + n})\n" for n in range(12)]
    found = outcomes(PipelineEvaluator(MeasuredProblem(slow_s=0.02), 2, 2), texts)
    told = {(o.score.detail["gpu"], o.score.detail["pid"]) for o in found if o.score}
    assert len(told) == 2 and {gpu for gpu, _ in told} == {0, 1} and os.getpid() not in {p for _, p in told}


@pytest.mark.parametrize("place", range(5))
def test_only_the_candidate_that_ends_its_gpus_process_pays(place: int) -> None:
    texts = [f"set(tile, {64 + n})\n" for n in range(5)]
    texts.insert(place, "set(tile, 64)\nset(warps, 5)\n")
    found = outcomes(PipelineEvaluator(MeasuredProblem(), 2, 1), texts)
    assert [n for n, o in enumerate(found) if o.fault] == [place]
    dead = found[place].score
    assert dead is not None and dead.status == "quarantined" and "SIGKILL" in dead.message
    assert all(o.score and o.score.status == "scored" for n, o in enumerate(found) if n != place)


def test_an_error_about_the_machine_is_raised() -> None:
    with pytest.raises(EvolveError) as error:
        outcomes(PipelineEvaluator(MeasuredProblem(), 1, 1), ["set(tile, 64)\nset(warps, 6)\n"])
    assert error.value.code == "gpu-failed" and "bus" in error.value.message


def test_what_waits_for_a_gpu_is_estimated_and_the_pre_filter_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipelined, "ESTIMATE_S", 0.01)
    texts = [f"set(tile, {64 + n})\n" for n in range(24)]
    asked: dict[int, float | None] = {}

    def admit(proposal: int, estimated_us: float | None) -> Decision:
        asked[proposal] = estimated_us
        return Decision("skip" if proposal % 2 else "audit", "slow")

    with pipeline(MeasuredProblem(slow_s=0.05)) as evaluator:
        for n, text in enumerate(texts, start=1):
            evaluator.start(n, text)
        scores = [
            evaluator.finish(n, lambda m: False, lambda: None, admit).score for n in range(1, len(texts) + 1)
        ]
    assert 0 < len(asked) <= len(texts) - AT_HAND, "what a GPU can take at once is not estimated"
    for n, score in enumerate(scores, start=1):
        assert score is not None
        told = score.detail["prefilter"]["action"]
        assert told == ("measure" if n not in asked else "skip" if n % 2 else "audit")
        assert score.status == ("prefiltered" if told == "skip" else "scored")
        assert n not in asked or score.detail["estimated_us"] == asked[n] == 64.0 + n - 1


def test_what_leads_is_explained_where_there_is_no_gpu() -> None:
    texts = ["set(tile, 16)\n", "set(tile, 8)\n", "set(tile, 32)\n"]
    with pipeline(MeasuredProblem()) as evaluator:
        found = []
        for n, text in enumerate(texts, start=1):
            evaluator.start(n, text)
            found.append(evaluator.finish(n, lambda m: False, lambda: None).score)
        builders = {one.process.pid for one in evaluator._workers}
    assert [bool(score and score.gap) for score in found] == [True, False, True]
    assert {score.gap["explained_by"] for score in found if score and score.gap} <= builders


def test_what_a_gpu_takes_sooner_is_not_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelined, "ESTIMATE_S", 100.0)
    found = outcomes(
        PipelineEvaluator(MeasuredProblem(slow_s=0.02), 2, 1), [f"set(tile, {64 + n})\n" for n in range(16)]
    )
    assert all(o.score and "estimated_us" not in o.score.detail for o in found)


def test_a_builder_that_dies_over_what_the_model_says_costs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelined, "ESTIMATE_S", 0.01)
    texts = [f"set(tile, {64 + n})\nset(width, 9)\n" for n in range(12)]
    found = outcomes(PipelineEvaluator(MeasuredProblem(slow_s=0.05), 2, 1), texts)
    assert {o.score.status for o in found if o.score} == {"scored"} and len(found) == 12


def test_baseline_duel_and_examination_are_the_first_gpus_while_others_work() -> None:
    problem = MeasuredProblem(slow_s=0.05)
    with pipeline(problem, 2) as evaluator:
        assert evaluator.baseline().status == "scored"
        texts = [f"set(tile, {64 + n})\n" for n in range(6)]
        for n, text in enumerate(texts, start=1):
            evaluator.start(n, text)
        duel = evaluator.compare(texts[0], "")
        assert duel.better and duel.first_us < duel.second_us
        assert evaluator.examine(texts[0])["pid"] not in (None, os.getpid())
        wrong = evaluator.compare(texts[0], "set(warps, 7)\n")
        assert (wrong.better, wrong.wrong, wrong.message) == (True, 1, "y[3] is wrong")
        for n in range(1, 7):
            found = evaluator.finish(n, lambda m: False, lambda: None)
            assert found.score and found.score.status == "scored"


def test_a_gpus_process_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelined, "GPU_LIMIT_S", 0.5)
    with pipeline(MeasuredProblem()) as evaluator:
        pid = evaluator._gpus[0].process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        for n in (1, 2):
            evaluator.start(n, f"set(tile, {64 + n})\n")
        first, second = (evaluator.finish(n, lambda m: False, lambda: None) for n in (1, 2))
        statuses = [o.score.status for o in (first, second) if o.score]
    assert sorted(statuses) == ["quarantined", "scored"] and not first.fault and not second.fault
    hung = next(o.score for o in (first, second) if o.score and o.score.status == "quarantined")
    assert "given up after 0.5 s" in hung.message


def test_a_gpus_process_that_died_while_idle_is_replaced() -> None:
    with pipeline(MeasuredProblem()) as evaluator:
        first = evaluator.examine("set(tile, 64)\n")["pid"]
        os.kill(first, signal.SIGKILL)
        time.sleep(0.1)
        assert evaluator.examine("set(tile, 64)\n")["pid"] != first


@pytest.mark.parametrize("done", [1, 2])
def test_what_a_gpus_process_said_before_it_died_is_heard_whoever_notices_the_death(done: int) -> None:
    """The search thinks meanwhile; then it sends something, and the pipe is broken."""
    texts = [*(f"set(tile, {64 + n})\n" for n in range(done)), "set(tile, 70)\nset(warps, 5)\n"]
    with pipeline(MeasuredProblem()) as evaluator:
        evaluator.start(9, "set(tile, 16)\n")
        evaluator.finish(9, lambda m: False, lambda: None)
        gpu = evaluator._gpus[0]
        for n, text in enumerate(texts):
            evaluator._texts[n], evaluator._plain[n], evaluator._decided[n] = text, Compiled("PROVED"), {}
            evaluator._send(0, n, ("measure", evaluator._of(text)))
        gpu.process.join(timeout=10)
        assert gpu.process.exitcode == -signal.SIGKILL
        assert evaluator.compare("set(tile, 64)\n", "").first_us
        found = [evaluator.finish(n, lambda m: False, lambda: None) for n in range(len(texts))]
    assert [o.fault for o in found] == [*([False] * done), True]
    assert all(o.score and o.score.status == "scored" for o in found[:done])


@dataclass
class MortalProblem(MeasuredProblem):
    """Its duels end the GPU's process while the file counts less than `deaths`."""

    counter: str = ""
    deaths: int = 0

    def duel(self, first: Any, second: Any, gpu: int = 0) -> Comparison:
        with open(self.counter, "a+") as file:
            file.write("x")
            died = file.tell()
        if died <= self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().duel(first, second, gpu)


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_duel_that_its_process_dies_in_is_fought_again_and_then_left(deaths: int, tmp_path: Path) -> None:
    """An error about the machine would stop the run here, and again at the same duel when it is resumed."""
    with pipeline(MortalProblem(counter=str(tmp_path / "duels"), deaths=deaths)) as evaluator:
        evaluator.start(1, "set(tile, 64)\n")
        duel = evaluator.compare("set(tile, 64)\n", "")
        after = evaluator.finish(1, lambda m: False, lambda: None).score
    assert after is not None and after.status == "scored"
    assert duel.better == (deaths == 1) and ("error" in duel.detail) == (deaths == 2)
    if deaths == 2:
        assert "died twice (signal SIGKILL)" in duel.detail["error"]


def test_nothing_is_left_running() -> None:
    with pipeline(MeasuredProblem(), 2) as evaluator:
        pids = [one.process.pid for one in evaluator._gpus]
    for pid in pids:
        assert pid is not None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@dataclass
class SleepyProblem(MeasuredProblem):
    """`warps` 29 never ends to compile, 31 to build, 8 (the fastest) to explain."""

    def compile(self, program: FakeProgram) -> Compiled:
        self.sleep_if(program, 29)
        return FakeProblem.compile(self, program)

    def build(self, compiled: Compiled) -> Score | Any:
        self.sleep_if(compiled.payload, 31)
        return super().build(compiled)

    def explain_time(self, built: Any, score: Score) -> Score:
        self.sleep_if(built.payload, 8)
        return super().explain_time(built, score)

    def sleep_if(self, program: FakeProgram, warps: int) -> None:
        if dict(program.settings).get("warps") == warps:
            time.sleep(600)


@pytest.mark.parametrize(
    ("warps", "verdict", "status"),
    [
        (29, "UNKNOWN", None),
        (31, "PROVED", "compile_failed"),
        (8, "PROVED", "scored"),
    ],
)
def test_a_builder_that_does_not_come_back_is_given_up(
    monkeypatch: pytest.MonkeyPatch, warps: int, verdict: str, status: str | None
) -> None:
    """What hangs while it is translated pays; what hangs in the model goes on without."""
    monkeypatch.setattr(pool, "BUILD_LIMIT_S", 0.5)
    texts = [f"set(tile, {64 + n})\n" for n in range(8)]
    texts.insert(0, f"set(tile, 64)\nset(warps, {warps})\n")
    begin = time.monotonic()
    found = outcomes(PipelineEvaluator(SleepyProblem(), 2, 1), texts)
    assert 0.5 < time.monotonic() - begin < 60
    one = found.pop(0)
    assert not one.fault and one.compiled.verdict == verdict
    assert (one.score.status if one.score else None) == status
    if verdict == "UNKNOWN":
        assert one.compiled.diagnostics[0]["code"] == "E-TIME"
    elif status == "compile_failed":
        assert one.score is not None and "given up after 0.5 s of compiling" in one.score.message
    assert all(o.score and o.score.status == "scored" for o in found)
