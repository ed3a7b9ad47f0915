"""Comparing results: one rule for every device."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evolve.devices.compare import worst_error


def test_error_is_counted_in_tolerances() -> None:
    want, tolerance = np.array([1.0, 2.0]), np.array([0.1, 0.1])
    assert worst_error(np.array([1.0, 2.05], np.float32), want, tolerance) == pytest.approx(0.5, rel=1e-5)
    assert worst_error(np.array([1.0, 2.3], np.float32), want, tolerance) == pytest.approx(3.0, rel=1e-5)


@pytest.mark.parametrize(
    ("got", "want"), [(math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0), (1.0, -math.inf)]
)
def test_nan_and_infinity_must_match_in_place(got: float, want: float) -> None:
    assert worst_error(np.array([got]), np.array([want]), np.array([1e30])) == math.inf


def test_equal_nan_and_infinity_pass_with_zero_tolerance() -> None:
    special = np.array([math.nan, math.inf, -math.inf, 0.0])
    assert worst_error(special, special, np.zeros(4)) == 0.0


def test_an_infinite_tolerance_accepts_anything_and_nan_nothing() -> None:
    got, want = np.array([math.nan, 3.0]), np.array([1.0, math.inf])
    assert worst_error(got, want, np.array([math.inf, math.inf])) == 0.0
    assert worst_error(got, want, np.array([math.nan, math.nan])) == math.inf
