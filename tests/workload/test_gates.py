"""Inferred sizes lie inside the conditions on sizes that a kernel makes."""

from __future__ import annotations

import pytest

from evolve.frontend.lift import lift
from evolve.ir.errors import EvolveError
from evolve.workload.gates import gates, inside, works
from evolve.workload.infer import infer
from evolve.workload.resolve import resolve

SUM = """__global__ void k(float *y, const float *x, int n, int m) {{
  {before}
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n{beside}) {{ float s = 0.0f; for (int j = 0; j < m; j++) s += x[i * m + j]; y[i] = s; }}
}}"""
COPY = """__global__ void k(float *y, const float *x, int n, int mode) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {{ {body} }}
}}"""


@pytest.mark.parametrize(
    ("before", "beside", "m"),
    (
        ("if (m != 1000) return;", "", 1000),
        ("if (m > 4000) return;", "", 4000),
        ("if (m >= 4000) return;", "", 3999),
        ("", " && m < 16", 15),
        ("", " && m == 7", 7),
        ("if (m % 96 != 0) return;", "", 8160),
        ("if (m < 10000) return;", "", 10000),
        ("", "", 8192),
    ),
)
def test_timed_and_check_sizes_are_inside(before: str, beside: str, m: int) -> None:
    lifted = lift("k.cu", None, SUM.format(before=before, beside=beside))
    made = infer(lifted)
    assert made.timed[0]["m"] == m
    assert 2**25 <= made.timed[0]["n"] * m <= 2**28
    found = gates(lifted.kernel)
    assert works(found, made.timed[0])
    assert sum(works(found, s) for s in made.check) >= min(4, len(made.check) - 1)


def test_one_size_bound_by_a_divisor_keeps_it() -> None:
    text = """__global__ void k(float *y, const float *x, int n) { if (n % 1000 != 0) return;
      int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }"""
    assert infer(lift("k.cu", None, text)).timed[0]["n"] == 134217000


@pytest.mark.parametrize(
    ("body", "mode"),
    (
        ("if (mode == 12) y[i] = x[i];", 12),
        ("if (mode == 12) y[i] = x[i]; else y[i] = 2.0f * x[i];", 3),
        ("y[i] = x[i]; if (mode == 12) y[i] = 0.0f;", 3),
    ),
)
def test_an_argument_that_is_no_size_too_but_only_where_nothing_else_runs(body: str, mode: int) -> None:
    assert infer(lift("k.cu", None, COPY.format(body=body))).timed[0]["mode"] == mode


def test_conditions_that_nothing_satisfies_change_nothing() -> None:
    text = SUM.format(before="if (m > 5 && m < 7) return; if (m != 6) return;", beside="")
    lifted = lift("k.cu", None, text)
    sizes = {"n": 8, "m": 8}
    assert inside(gates(lifted.kernel), sizes, ()) == sizes


def test_given_sizes_at_which_nothing_is_stored_are_refused() -> None:
    lifted = lift("k.cu", None, SUM.format(before="if (m != 1000) return;", beside=""))
    with pytest.raises(EvolveError) as caught:
        resolve(lifted, override="[[timed]]\nn = 64\nm = 999\n", override_file="w.toml")
    error = caught.value
    assert (error.code, error.file) == ("nothing-to-do", "w.toml")
    assert "timed sizes 1" in error.message and error.hint == "it does where m == 1000"
    assert resolve(lifted, override="[[timed]]\nn = 64\nm = 1000\n").timed[0]["m"] == 1000
