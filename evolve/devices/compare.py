"""Comparing results with a reference: one rule for every device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def worst_error(got: NDArray[Any], want: NDArray[Any], tolerance: NDArray[Any]) -> float:
    """The largest |got - want| / tolerance, 0 for no elements.

    Equal values pass with any tolerance; NaN and infinities must match in place, else the result is
    infinite. Integers have tolerance 0. An infinite tolerance says that no value is wrong.
    """
    g, w = got.astype(np.float64).ravel(), want.astype(np.float64).ravel()
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        allowed = tolerance.astype(np.float64).ravel()
        same = (g == w) | (np.isnan(g) & np.isnan(w)) | np.isposinf(allowed)
        ratio = np.abs(g - w) / np.maximum(allowed, np.finfo(np.float64).tiny)
    ratio = np.where(same, 0.0, np.where(np.isfinite(ratio), ratio, np.inf))
    return float(ratio.max(initial=0.0))
