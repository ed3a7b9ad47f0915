"""When there are samples enough, how long a batch is, and which inputs a launch finds where."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from statistics import mean, stdev

STEADY = 0.005
"""Relative standard error at which sampling stops."""
BATCH_US = 200.0
BATCH_LAUNCHES = (8, 128)


def relative_error(samples: Sequence[float]) -> float:
    """Standard error of the mean over the mean, infinite for fewer than two."""
    if len(samples) < 2:
        return float("inf")
    return float(stdev(samples) / (len(samples) ** 0.5 * mean(samples)))


def enough(
    samples: Sequence[Sequence[float]], least: int, most: int, spent_s: float, budget_s: float
) -> bool:
    """The stop rule: every sequence steady after `least` samples, or out of time, or `most` samples."""
    if not samples or any(not s for s in samples):
        return False
    if spent_s > budget_s or min(map(len, samples)) >= most:
        return True
    return all(len(s) >= least and relative_error(s) < STEADY for s in samples)


def batch_launches(us: float) -> int:
    """How many launches of a sequence that takes so long make a batch of 200 us, within limits."""
    low, high = BATCH_LAUNCHES
    return min(high, max(low, ceil(BATCH_US / max(us, 0.1))))


def rotation(turn: int, sets: int) -> tuple[int, int]:
    """Which place a turn uses, and whose contents lie there: every pair comes up in sets^2 turns."""
    return turn % sets, (turn + turn // sets) % sets
