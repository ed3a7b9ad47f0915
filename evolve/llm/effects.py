"""The effect that a model expects of a program, as a factor, and what came of it.

A factor is the time of the program that was to be improved over the time of the new one: 2 is twice as fast.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import exp, log, sqrt
from statistics import median

_LEAST, _MOST = 0.01, 1000.0
_MOST_TEXT = 400
_NUMBER = r"(\d{1,6}(?:\.\d{1,6})?)"
_TO = r"\s*(?:-|–|to)\s*"
_TIMES = r"\s*(?:x\b|×|times\b|-?fold\b)"
_GAIN = r"\s*(?:as fast|faster|quicker|speed-?up|speedup|better|improvement)"
_TIME = r"(?:time|runtime|latency|duration|microseconds|us\b)"
_NO_OTHER = (
    r"(?!\s+(?!(?:faster|the|of|than|over|as|on|in|and|or|if|when|since|because|from|against)\b)[a-z])"
)
"""After a bare factor: no word that makes it one of something else, such as traffic."""
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (rf"{_NUMBER}{_TIMES}?{_TO}{_NUMBER}{_TIMES}{_GAIN}", "range"),
        (rf"{_NUMBER}{_TIMES}{_GAIN}", "factor"),
        (rf"speed-?up (?:of |by )?(?:about |~|up to )?{_NUMBER}{_TIMES}?(?![\d.]*\s*%)", "factor"),
        (rf"{_NUMBER}\s*%{_GAIN}", "percent"),
        (rf"faster by (?:about |~)?{_NUMBER}\s*%", "percent"),
        (rf"{_NUMBER}\s*%\s*(?:less|lower|shorter|of the)?\s*{_TIME}", "less"),
        (rf"{_TIME}[^.;,\d]{{0,30}}by (?:about |~)?{_NUMBER}\s*%", "less"),
        (rf"from {_NUMBER}\s*(?:us|µs|μs)?{_TO}{_NUMBER}\s*(?:us|µs|μs)", "times"),
        (
            r"twice as fast|hal(?:f|v\w+) the (?:time|runtime)|(?:time|runtime)(?: is)? halved",
            "2",
        ),
        (rf"^\W*{_NUMBER}{_TIMES}?{_TO}{_NUMBER}{_TIMES}{_NO_OTHER}", "range"),
        (rf"^\W*(?:about |roughly |up to )?{_NUMBER}{_TIMES}{_NO_OTHER}", "factor"),
        (rf"^\W*(?:about |roughly |up to )?\+?{_NUMBER}\s*%\W*$", "percent"),
        (r"no change|same (?:speed|time)|unchanged", "1"),
    )
)


def read_factor(text: str) -> float | None:
    """The factor that a text states, such as 2 of `2x faster, DRAM traffic halved`; None where it has none.

    A range counts as its geometric mean. What is said of traffic, instructions or registers is none.
    """
    text = text[:_MOST_TEXT]
    for pattern, kind in _RULES:
        found = pattern.search(text)
        if found is None:
            continue
        numbers = [float(group) for group in found.groups()]
        factor = _factor(kind, numbers)
        return factor if factor is not None and _LEAST <= factor <= _MOST else None
    return None


def _factor(kind: str, numbers: Sequence[float]) -> float | None:
    match kind, numbers:
        case "range", (low, high):
            return sqrt(low * high)
        case "factor", (one,):
            return one
        case "percent", (one,):
            return 1.0 + one / 100.0
        case "less", (one,):
            return 100.0 / (100.0 - one) if one < 100.0 else None
        case "times", (before, after):
            return before / after if after else None
        case _:
            return float(kind)


def compared(expected: float, actual: float) -> str:
    """What came of an expectation, in words.

    >>> compared(2.0, 1.1)
    'expected 2x, got 1.1x: far less'
    """
    return f"expected {expected:.3g}x, got {actual:.3g}x: {_words(expected, actual)}"


def _words(expected: float, actual: float) -> str:
    """By the share of the expected gain that came, on a logarithmic scale."""
    if actual < 0.98 <= expected:
        return "slower"
    if abs(log(actual / expected)) < 0.05:
        return "as expected"
    if actual > expected:
        return "more"
    return "less" if expected > 1.0 and log(max(actual, 1.0)) >= 0.5 * log(expected) else "far less"


def calibration(pairs: Sequence[tuple[float, float]]) -> str:
    """What the expectations (expected, actual) were worth, in a sentence; '' for fewer than two."""
    if len(pairs) < 2:
        return ""
    came = sum(actual >= 0.95 * expected for expected, actual in pairs)
    off = exp(median(log(actual / expected) for expected, actual in pairs))
    return (
        f"Of {len(pairs)} effects that were expected {came} came true; in the median programs were "
        f"{off:.2g} times as fast as expected."
    )
