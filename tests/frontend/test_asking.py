"""How far arrays go that are read under conditions on memory: no farther than these conditions let."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evolve.frontend.lift import Lifted
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.printer import print_expr

Lift = Callable[..., Lifted]
TEXT = """
__global__ void k(const float *w, const int *idx, const int *at, const float *v, const unsigned *u, float *y,
                  int n, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int t = idx[i];
        y[i] = %s ? w[i + 1] : 0.0f;
    }
}
"""
LENGTHS = {
    "t > i && t < n": "n",
    "t >= 0 && t + i < n - 1": "n",
    "t > i && t < n + 1": "n + 1",
    "t > 3": "n + 1",
    "t == i": "n + 1",
    "t == i || t < 0": "n + 1",
    "t > i && at[i] < n": "n + 1",
    "v[i] > 0.5f": "n + 1",
    "v[i] > 0.5f && t > 3": "n + 1",
    "v[i] > 0.5f && v[i] > 0.5f": "n + 1",
    "u[i] > 7u": "n + 1",
    "t < m": "n + 1",
    "isnan(v[i])": "n + 1",
    "!isfinite(v[i])": "n + 1",
    "isinf(v[i]) && t > 3": "n + 1",
}
NEVER = ("t > i && t < i", "t > 3 && !(t > 3)", "v[i] > 0.5f && !(v[i] > 0.5f)", "u[i] < 0u")
NOTHING = (
    "v[i] > 0.5f && v[i] < 0.25f",
    "v[i] * v[i] < -1.0f",
    "v[i] > INFINITY",
    "t > 2147483647",
    "t > i && t * t < i",
    "t > 3 && idx[n - 1 - i] < 2",
    "fabsf(v[i]) > INFINITY",
    "isinf(v[i]) && isfinite(v[i])",
)


@pytest.mark.parametrize("condition", LENGTHS)
def test_an_array_is_as_long_as_its_conditions_let(condition: str, lift_text: Lift) -> None:
    try:
        kernel = lift_text(TEXT % condition).kernel
    except CannotLiftError as refusal:
        assert LENGTHS[condition] == "n" and "nothing shows that w has" in refusal.message
        return
    assert [print_expr(e) for e in kernel.buffer("w").extents] == [LENGTHS[condition]]


@pytest.mark.parametrize("condition", NEVER)
def test_of_what_is_known_never_to_be_read_a_note_says_what_is_assumed(
    condition: str, lift_text: Lift
) -> None:
    notes = lift_text(TEXT % condition).notes
    assert "w has n + 1 elements also where the kernel touches none of them" in notes


@pytest.mark.parametrize("condition", NOTHING)
def test_what_may_never_be_read_shows_nothing(condition: str, lift_text: Lift) -> None:
    with pytest.raises(CannotLiftError, match="nothing shows that w has"):
        lift_text(TEXT % condition)


def test_rows_of_different_lengths(lift_text: Lift) -> None:
    text = """
    __global__ void k(const float *w, const int *length, float *y, int n, int m) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) {
            float s = 0.0f;
            for (int j = 0; j < m; j++) s += j < length[i] ? w[i * m + j] : 0.0f;
            y[i] = s;
        }
    }"""
    assert [print_expr(e) for e in lift_text(text).kernel.buffer("w").extents] == ["n", "m"]
