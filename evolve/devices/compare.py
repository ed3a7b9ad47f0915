"""Comparing results with a reference: one rule for every device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def worst_error(got: NDArray[Any], want: NDArray[Any], tolerance: NDArray[Any]) -> float:
    """The largest |got - want| / tolerance, 0 for no elements.

    Equal values pass with any tolerance; NaN and infinities must match in place, else the result is
    infinite. Integers have tolerance 0.
    """
    g, w = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        ratio = np.abs(g - w) / np.maximum(tolerance.astype(np.float64).ravel(), np.finfo(np.float64).tiny)
    ratio = np.where(same, 0.0, np.where(np.isfinite(ratio), ratio, np.inf))
    return float(ratio.max(initial=0.0))
