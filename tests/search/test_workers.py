"""Evaluating programs: which errors cost a program and which pause the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evolve.dsl.parser import parse
from evolve.ir.errors import EvolveError
from evolve.search.problem import Comparison, Compiled
from evolve.search.workers import ABOUT_THE_MACHINE, SerialEvaluator, explain_text
from tests.runs.helpers import run
from tests.search.fake import FakeProblem


class Failing(FakeProblem):
    """Cannot compare programs."""

    error: Exception = EvolveError("baseline-failed", "the kernel as given fails at its timed size")

    def compare(self, first: Compiled, second: Compiled) -> Comparison:
        raise self.error


def failing(error: Exception) -> Failing:
    problem = Failing(timing="measured")
    problem.error = error
    return problem


def compared(error: Exception) -> Comparison:
    return SerialEvaluator(failing(error)).compare("set(tile, 4)\n", "")


def test_a_comparison_that_fails_leaves_the_challenger_no_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVOLVE_DEBUG", raising=False)
    told = compared(EvolveError("baseline-failed", "it is wrong"))
    assert not told.better and told.detail == {"error": "baseline-failed: it is wrong"}
    assert "KeyError" in compared(KeyError("a bug")).detail["error"]
    monkeypatch.setenv("EVOLVE_DEBUG", "1")
    with pytest.raises(KeyError):
        compared(KeyError("a bug"))


@pytest.mark.parametrize("code", sorted(ABOUT_THE_MACHINE))
def test_a_comparison_without_the_machine_is_none(code: str) -> None:
    with pytest.raises(EvolveError, match="gone"):
        compared(EvolveError(code, "it is gone"))


def test_a_run_ends_by_its_rules_though_no_comparison_can_be_made(tmp_path: Path) -> None:
    run(tmp_path / "run", budget=10, problem=failing(Failing.error))
    log = (tmp_path / "run" / "events.jsonl").read_text()
    assert '"stopped"' in log and '"champion"' not in log
    assert "the kernel as given fails" in log


def test_a_program_that_cannot_be_read_is_refused_with_what_to_write_instead() -> None:
    class Unread(FakeProblem):
        def parse(self, text: str) -> Any:
            return parse(text)

    (told,) = explain_text(Unread(), "vectorise(c, 4)").diagnostics
    assert (told["code"], told["line"], told["repair"]) == ("malformed-program", 1, "did you mean vectorize?")
