"""The factor in what a model expects, and the words for what came of it."""

from __future__ import annotations

import pytest

from evolve.llm.effects import calibration, compared, read_factor


@pytest.mark.parametrize(
    ("text", "factor"),
    [
        ("2x faster, DRAM traffic halved", 2.0),
        ("1.5x", 1.5),
        ("about 1.5× faster", 1.5),
        ("DRAM traffic 2x less, 1.3x faster", 1.3),
        ("2 to 4.5x faster", 3.0),
        ("1-4x", 2.0),
        ("speedup of 3", 3.0),
        ("speed-up of 3x over the parent", 3.0),
        ("30% faster", 1.3),
        ("+5%", 1.05),
        ("faster by 20 %", 1.2),
        ("50% less time", 2.0),
        ("the time drops by 20%", 1.25),
        ("from 250 us to 100 us", 2.5),
        ("twice as fast", 2.0),
        ("halves the time", 2.0),
        ("half the time", 2.0),
        ("no change", 1.0),
        ("10-fold faster", 10.0),
        ("1.8x fewer loads", None),
        ("2x less DRAM traffic", None),
        ("2x DRAM bandwidth", None),
        ("2x over the parent", 2.0),
        ("2x, half the loads", 2.0),
        ("2-3x fewer instructions", None),
        ("faster", None),
        ("", None),
        ("halves the DRAM traffic", None),
        ("fewer registers, 4x unrolled", None),
        ("5000000x", None),
        ("0x", None),
        ("100% less time", None),
        ("from 10 us to 0 us", None),
    ],
)
def test_factors(text: str, factor: float | None) -> None:
    assert read_factor(text) == (None if factor is None else pytest.approx(factor))


@pytest.mark.parametrize("text", ["1" * 100_000, "9.9 " * 50_000, "from " * 50_000, "speedup of " * 9_000])
def test_no_text_is_too_long(text: str) -> None:
    read_factor(text)


@pytest.mark.parametrize(
    ("expected", "actual", "words"),
    [
        (2.0, 1.1, "expected 2x, got 1.1x: far less"),
        (2.0, 1.7, "expected 2x, got 1.7x: less"),
        (2.0, 2.02, "expected 2x, got 2.02x: as expected"),
        (2.0, 5.0, "expected 2x, got 5x: more"),
        (1.2, 0.5, "expected 1.2x, got 0.5x: slower"),
        (1.0, 1.0, "expected 1x, got 1x: as expected"),
    ],
)
def test_words(expected: float, actual: float, words: str) -> None:
    assert compared(expected, actual) == words


def test_calibration_needs_two() -> None:
    assert calibration([(2.0, 1.0)]) == ""
    assert "Of 3 effects that were expected 1 came true; in the median" in calibration(
        [(2.0, 1.0), (2.0, 2.1), (4.0, 1.0)]
    )
    assert "0.5 times as fast" in calibration([(2.0, 1.0), (2.0, 2.1), (4.0, 1.0)])
