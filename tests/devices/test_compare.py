"""Comparing results: one rule for every device."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evolve.devices.compare import bounds, left_alone, poisoned, within, worst_error

TYPES = [np.float32, np.float64, np.int32, np.uint32, np.int64, np.uint64, np.bool_]


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


def test_bounds_accept_what_the_rule_accepts() -> None:
    """Neighbours of both edges in the output's type, and every special value, against `worst_error`."""
    rng = np.random.default_rng(3)
    want = np.concatenate([rng.standard_normal(2000), [math.nan, math.inf, -math.inf, 0.0, 3.5e38, 1e-46]])
    tolerance = np.abs(want) * 10.0 ** rng.uniform(-9, 1, want.size)
    tolerance[::7] = math.inf
    tolerance[::11] = 0.0
    low, high = bounds(want, tolerance, np.dtype(np.float32))
    up, down = np.float32(math.inf), np.float32(-math.inf)
    with np.errstate(over="ignore"):
        tried = (low, high, np.nextafter(low, down), np.nextafter(high, up), np.float32(want))
    for got in tried:
        one_by_one = [
            worst_error(g[None], w[None], t[None]) <= 1.0
            for g, w, t in zip(got, want, tolerance, strict=True)
        ]
        assert np.array_equal(within(got, low, high), one_by_one)


@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64, np.uint64])
def test_bounds_of_integers(kind: type) -> None:
    last = np.iinfo(kind).max
    want, tolerance = np.array([5.0, 5.0, 5.0, float(last)]), np.array([0.0, 1.6, math.inf, 0.0])
    low, high = bounds(want, tolerance, np.dtype(kind))
    assert low.tolist()[:3] == [5, 4, np.iinfo(kind).min] and high.tolist()[:3] == [5, 6, last]
    assert within(np.array([6, 6, 6, last], kind), low, high).tolist() == [False, True, True, True]


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_bounds_of_integers_that_float64_rounds(kind: type) -> None:
    """The reference holds a double: all integers that round to it are right, as for `worst_error`."""
    rng = np.random.default_rng(5)
    ends = np.iinfo(kind)
    exact = rng.integers(ends.min, ends.max, 500, kind, endpoint=True)
    exact[:4] = [2**53 + 1, 2**54 + 3, 2**60 + 12345, 7]
    want, zeros = exact.astype(np.float64), np.zeros(exact.size)
    low, high = bounds(want, zeros, np.dtype(kind))
    assert within(exact, low, high).all()
    assert low[3] == high[3] == 7
    for got in (exact - kind(4096), exact + kind(4096)):
        right = [
            worst_error(g[None], w[None], z[None]) <= 1.0 for g, w, z in zip(got, want, zeros, strict=True)
        ]
        assert np.array_equal(within(got, low, high), right)


@pytest.mark.parametrize("kind", TYPES)
def test_elements_left_alone_must_keep_their_poison(kind: type) -> None:
    word = 0xFFF81234
    got = np.resize(np.array([word], "<u4").view(np.uint8), 4 * np.dtype(kind).itemsize).view(kind)
    assert poisoned(got, word).all()
    low, high = bounds(np.ones(4), np.zeros(4), np.dtype(kind))
    left_alone(low, high, np.array([True, True, False, False]))
    got = got.copy()
    got[1] = got[3] = 1
    left = poisoned(got, word)
    right = within(got, low, high, left)
    assert right.tolist()[:2] == [True, False] and right[3]
    assert not right[2]


def test_poison_is_no_nan_that_was_written() -> None:
    word = 0xFFF81234
    got = np.array([word, 0x7FFFFFFF], np.uint32).view(np.float32)
    low, high = bounds(np.full(2, math.nan), np.zeros(2), np.dtype(np.float32))
    assert within(got, low, high, poisoned(got, word)).tolist() == [False, True]
