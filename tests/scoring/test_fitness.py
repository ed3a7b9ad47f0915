"""Times to a score, and what no correct run takes less than."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.scoring.fitness import beats_physics, fitness, floor_s
from evolve.scoring.task import Task
from evolve.sol.bound import Bound
from tests.scoring.measured_task import task
from tests.scoring.test_audit import BOUND


def bounded(*bounds: Bound) -> Task:
    """A task with these bounds."""
    found = replace(task())
    vars(found)["bounds"] = bounds
    return found


def test_the_floor_is_that_of_the_term_that_asks_most() -> None:
    """DRAM at 0.95 x 100 asks for more than fp32 at 0.92 x 102, though fp32 binds."""
    bound = replace(BOUND, hard_terms={"dram": 100e-6, "fp32": 102e-6}, hard_binding="fp32")
    assert floor_s(bound) == (pytest.approx(95e-6), "dram")
    assert floor_s(replace(BOUND, hard_terms={"dram": 100e-6, "fp32": 104e-6})) == (
        pytest.approx(95.68e-6),
        "fp32",
    )
    assert floor_s(replace(BOUND, hard_terms={})) == (0.0, "")


@pytest.mark.parametrize(("us", "believed"), [(95.1, True), (94.9, False)])
def test_estimates_are_held_to_the_same_floor_as_measurements(us: float, believed: bool) -> None:
    bound = replace(BOUND, hard_terms={"dram": 100e-6, "fp32": 102e-6}, hard_binding="fp32")
    why = beats_physics(bounded(bound), [us * 1e-6])
    assert (why is None) == believed
    assert believed or (why is not None and "n=100000" in why and "hard dram bound" in why)


def test_fitness_is_a_geometric_mean_over_the_timed_sizes() -> None:
    both = bounded(BOUND, BOUND)
    assert fitness(both, [110e-6, 440e-6]) == pytest.approx(0.5)
