"""What is compared at small sizes."""

from __future__ import annotations

from collections.abc import Callable

from evolve.codegen.module import render
from evolve.scoring.measured import MeasuredScorer
from tests.devices.cuda.fake_cuda import Launch
from tests.scoring.measured_task import built, make, task, vecadd

__all__ = ["make"]
IDLE = 33


def idle(x: Launch) -> None:
    """Stores nothing at one of the sizes."""
    if x.args[3] != IDLE:
        vecadd(x)


def test_sizes_at_which_nothing_is_stored_check_nothing(make: Callable[..., MeasuredScorer]) -> None:
    original = render(task().original).original.kernel
    scorer = make(**{original: idle}, better=idle)
    better = built("better")
    found = scorer.small.check(better, [({"n": IDLE}, "normal")], False)
    assert found is not None and found.status == "quarantined"
    assert found.message == "not judged: no sizes were found at which variant 1 runs and stores anything"
    assert scorer.small.check(better, [({"n": IDLE}, "normal"), ({"n": 4099}, "normal")], False) is None
