"""`run`, `resume`, `report` and `verify` where the best program is examined: on a fake GPU problem."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from evolve.cli.main import main
from evolve.events.log import read_log
from evolve.search.problem import Compiled, Score
from tests.cli.helpers import kernel_file
from tests.search.fake import FakeProblem
from tests.search.test_pipeline import MeasuredProblem

RIGHT = {"verdict": "right", "speedup": 2.0, "fraction": 0.8}


@dataclass
class Examined(MeasuredProblem):
    """Measures and compares as the fake problem estimates. `secrets` are those it was examined with."""

    secret: int = 0x1F
    failures: tuple[str, ...] = ()
    secrets: list[int] = field(default_factory=list)

    def estimate(self, built: Compiled) -> tuple[Compiled, float | None]:
        return built, None

    def measure(self, built: Compiled, gpu: int = 0) -> Score:
        return FakeProblem.score(self, built)

    def explain_time(self, built: Compiled, score: Score) -> Score:
        return score

    def examine(self, built: Compiled, gpu: int = 0) -> Mapping[str, Any]:
        self.secrets.append(self.secret)
        return {
            "state": "failed" if self.failures else "passed",
            "failures": list(self.failures),
            "open_points": [],
            "held_out": [RIGHT],
            "perturbed": [],
            "sanitizer": {"state": "clean"},
            "secret": f"{self.secret:x}",
        }


class Problems:
    """Opens problems, and remembers the last."""

    def __init__(self) -> None:
        self.failures: tuple[str, ...] = ()
        self.secret = 0x1F
        self.last: Examined | None = None

    def open_problem(self, request: object) -> Examined:
        self.last = Examined(failures=self.failures, secret=self.secret)
        return self.last


@pytest.fixture
def problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Problems:
    kernel_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = Problems()
    module = ModuleType("evolve.search.task")
    module.__dict__["open_problem"] = found.open_problem
    monkeypatch.setitem(sys.modules, "evolve.search.task", module)
    return found


def call(*arguments: object) -> int:
    return main([str(one) for one in arguments])


def run() -> int:
    fixed = ("--kernel", "fake.cu", "--agent", "random", "--budget", "6", "--workers", "1", "--out", "here")
    return call("run", *fixed, "--json")


def kinds() -> list[str]:
    return [event.body.kind for event in read_log(Path("here/events.jsonl")).events]


def test_a_run_is_examined_once(problems: Problems, capfd: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    document = json.loads(capfd.readouterr().out)
    assert document["examined"]["state"] == "passed" and document["examined"]["secret"] == "1f"
    assert document["examined"]["candidate"] == document["best"]["candidate"]
    assert kinds()[-2:] == ["stopped", "examined"]
    assert call("resume", "here", "--workers", "1", "--json") == 0
    assert json.loads(capfd.readouterr().out) == document
    assert kinds().count("examined") == 1
    assert call("replay", "here") == 0


def test_a_run_killed_while_it_was_examined_is_examined_by_resume(
    problems: Problems, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    log = Path("here/events.jsonl")
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    assert kinds()[-1] == "stopped"
    capfd.readouterr()
    assert call("resume", "here", "--workers", "1", "--json") == 0
    assert json.loads(capfd.readouterr().out)["examined"]["state"] == "passed"
    assert kinds()[-1] == "examined"


def test_a_best_program_that_fails_is_an_exit_status(
    problems: Problems, capfd: pytest.CaptureFixture[str]
) -> None:
    problems.failures = ("n=5: 3 elements of y are wrong",)
    assert run() == 1
    captured = capfd.readouterr()
    assert json.loads(captured.out)["examined"]["failures"] == ["n=5: 3 elements of y are wrong"]
    assert "FAILED THE EXAMINATION" in captured.err
    assert call("report", "here") == 0
    assert "FAILED THE EXAMINATION" in capfd.readouterr().out


def test_verify_repeats_it_with_the_recorded_secret(
    problems: Problems, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    problems.secret = 1  # what another process would draw
    capfd.readouterr()
    assert call("verify", "here", "--json") == 0
    document = json.loads(capfd.readouterr().out)
    assert problems.last is not None
    assert document["holds"] and document["examined"]["state"] == "passed"
    assert problems.last.secrets == [0x1F] and document["examined"]["secret"] == "1f"
    assert call("verify", "here") == 0
    assert "examined after the search: right at 1 of 1" in capfd.readouterr().out
    problems.failures = ("n=5: 3 elements of y are wrong",)
    assert call("verify", "here") == 1
    text = capfd.readouterr().out
    assert "does NOT hold" in text and "3 elements of y are wrong" in text
