"""When to stop, how long a batch is, what counts as warm."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from evolve.devices.cuda.rules import STEADY, batch_launches, enough, relative_error, rotation
from evolve.devices.cuda.timing import warm


def test_relative_error_is_that_of_the_mean() -> None:
    x = [9.0, 10.0, 11.0, 10.0]
    assert relative_error(x) == pytest.approx(np.std(x, ddof=1) / math.sqrt(4) / 10.0)
    assert relative_error([1.0]) == math.inf


def test_stops_when_all_are_steady_and_not_before_enough_samples() -> None:
    steady = [100.0, 100.1] * 5
    noisy = [100.0, 150.0] * 5
    assert relative_error(steady) < STEADY < relative_error(noisy)
    assert enough([steady], 10, 200, 0.1, 2.0)
    assert not enough([steady[:9]], 10, 200, 0.1, 2.0)
    assert not enough([steady, noisy], 10, 200, 0.1, 2.0)


def test_stops_when_out_of_time_or_samples_but_never_without_any() -> None:
    noisy = [100.0, 150.0] * 5
    assert enough([noisy], 10, 200, 2.1, 2.0)
    assert enough([noisy], 10, 10, 0.1, 2.0)
    assert not enough([[], noisy], 10, 200, 100.0, 2.0)
    assert not enough([], 10, 200, 100.0, 2.0)


def test_warm_after_ten_launches_and_50_ms_or_two_long_ones() -> None:
    assert not warm(9, 0.06, 0.06) and not warm(1000, 0.04, 0.04) and warm(10, 0.01, 0.05)
    assert warm(2, 0.6, 0.0) and not warm(1, 10.0, 10.0)


@pytest.mark.parametrize(("us", "launches"), [(2.0, 100), (20.0, 10), (0.5, 128), (100.0, 8)])
def test_batches_last_200_us_within_limits(us: float, launches: int) -> None:
    assert batch_launches(us) == launches


@pytest.mark.parametrize("sets", [1, 2, 3])
def test_contents_move_over_places(sets: int) -> None:
    turns = [rotation(t, sets) for t in range(sets**2)]
    assert len(set(turns)) == sets**2
    for place in range(sets):
        seen = [content for p, content in turns if p == place]
        assert sets == 1 or all(a != b for a, b in pairwise(seen))
