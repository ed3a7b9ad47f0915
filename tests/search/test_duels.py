"""Who has to fight whom where times are measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from evolve.search.problem import Compiled, Score
from tests.search.fake import FakeProblem
from tests.search.test_stops import Fixed, search

EQUAL = [f"set(tile, {tile})\nset(stage, {stage})\n" for tile in (63, 65) for stage in (1, 3)]
FASTER = "set(tile, 64)\nset(stage, 2)\n"


@dataclass
class Unlucky(FakeProblem):
    """The first candidate's score is `slow` times its time; duels tell the truth."""

    timing: str = "measured"
    slow: float = 1.0

    def score(self, compiled: Compiled) -> Score:
        found = super().score(compiled)
        if self.scores > 1 or found.time_us is None:
            return found
        return replace(found, time_us=found.time_us * self.slow, fitness=found.fitness / self.slow)


@pytest.mark.parametrize("slow", [1.0, 1.01])
def test_equals_of_a_champion_with_an_unlucky_score_do_not_fight_it(slow: float, tmp_path: Path) -> None:
    """It beat the kernel as given, and showed its true time there."""
    view = search(tmp_path, Fixed(EQUAL), Unlucky(slow=slow), budget=4)
    assert view.state.scored == 4 and view.state.champion == 1
    assert view.state.compared == 1


def test_who_is_faster_than_the_champion_ever_was_leads(tmp_path: Path) -> None:
    view = search(tmp_path, Fixed([*EQUAL, FASTER]), Unlucky(slow=1.01), budget=5)
    assert view.state.champion == 5 and view.state.compared == 2
