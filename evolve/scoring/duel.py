"""Which of two modules is faster, from interleaved samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.scoring.audit import Doubt

MARGIN = 1.005
"""A challenger is better when the confidence interval of the ratio excludes 1 by more than 0.5 %."""
UNDECIDED = (
    "undecided: the SM clock moved during the samples, which were taken twice, and the first is not faster "
    "by more than that"
)
RESAMPLES = 500


@dataclass(frozen=True)
class Duel:
    """Interleaved medians of two modules, seconds summed over the timed sizes; is the first better?

    `wrong` is 0 or 1 where that one turned out to be wrong; then, and when it could not be timed, `message`
    says why and the times are 0.
    """

    first_s: float = 0.0
    second_s: float = 0.0
    better: bool = False
    detail: Mapping[str, Any] = field(default_factory=dict)
    wrong: int | None = None
    message: str = ""


def lost(failed: Doubt, by: int) -> Duel:
    """A duel that one side loses by being wrong; one that could not be judged decides nothing."""
    if failed.status != "incorrect":
        return Duel(message=failed.message)
    return Duel(better=by == 1, wrong=by, message=failed.message)


def decided(ratios: Sequence[tuple[float, float]], shifts: Sequence[float]) -> tuple[bool, str]:
    """Whether the first is better at all sizes, and why not where clocks that moved are the reason.

    `ratios` as `ratio_interval` gives them, `shifts` by which factor the clock moved meanwhile. Samples are
    interleaved, so most of it cancels; no more than the shift can be left of it.
    """
    if all(low > MARGIN * shift for (low, _), shift in zip(ratios, shifts, strict=True)):
        return True, ""
    return False, UNDECIDED if all(low > MARGIN for low, _ in ratios) else ""


def ratio_interval(a: NDArray[Any], b: NDArray[Any]) -> tuple[float, float]:
    """95 % bootstrap interval of median(b) / median(a): above 1 where a is faster."""
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(a), (RESAMPLES, len(a)))
    other = rng.integers(0, len(b), (RESAMPLES, len(b)))
    ratios = np.median(b[other], axis=1) / np.median(a[draws], axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)
