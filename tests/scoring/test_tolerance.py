"""Inputs with a pattern: rounding errors that add up instead of cancelling."""

from __future__ import annotations

import numpy as np
import pytest

from evolve.codegen.reference_runtime import TOLERANCE_FACTOR
from evolve.scoring.tolerance import PATTERNED, tolerance_factor
from evolve.workload.model import FAMILIES
from tests import kernels_ir

UNIT = 2.0**-24


def allowed(factor: float, terms: int, total: float) -> float:
    """As `ev_total` counts a sum of positive terms, times the factor."""
    return factor * UNIT * max(1.0, terms**0.5 / 8) * total


@pytest.mark.parametrize("terms", [64, 259, 4096])
def test_a_sum_of_equal_terms_in_order_is_honest(terms: int) -> None:
    factors = [
        tolerance_factor(kernels_ir.softmax(), {"rows": 4, "cols": terms}, f) for f in ("normal", "spikes")
    ]
    assert factors[0] == TOLERANCE_FACTOR < factors[1]
    worst = 0.0
    for term in np.linspace(0.5, 1.0, 200, dtype=np.float32):
        total = np.cumsum(np.full(terms, term), dtype=np.float32)[-1]  # one after the other
        exact = float(term) * terms
        error = abs(float(total) - exact)
        worst = max(worst, error / allowed(factors[0], terms, exact))
        assert error <= allowed(factors[1], terms, exact)
    if terms >= 259:
        assert worst > 1.0  # what is right for independent errors is too little


def test_one_more_is_allowed_only_where_there_is_a_pattern() -> None:
    assert set(FAMILIES) > PATTERNED
    for family in FAMILIES:
        many = tolerance_factor(kernels_ir.softmax(), {"rows": 4, "cols": 8192}, family)
        # n times the unit roundoff, as ev_total's sqrt(n) / 8 and this factor multiply to.
        assert many == pytest.approx(8192**0.5 * 8 if family in PATTERNED else TOLERANCE_FACTOR)
        assert tolerance_factor(kernels_ir.vecadd(), {"n": 100}, family) == TOLERANCE_FACTOR
