"""What of an array a kernel's accesses show, form by form: the extents, or why there are none.

Each row fails when one of the conditions is left out; see `benchmarks.prover.mutants`.
"""

from __future__ import annotations

import pytest

from evolve.frontend.lift import lift
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.printer import print_expr

KERNEL = """
__global__ void k(const float *x, float *y, int n%s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0.0f;
    %s
    y[i] = s;
}
"""
SHOWN = {
    "rows": ("int m", "for (int r=0;r<m;r++) for (int c=0;c<n;c++) s += x[r*n+c];", "m x n"),
    "triangle": ("int m", "for (int r=0;r<m;r++) for (int c=0;c<=r;c++) s += x[r*m+c];", "m x m"),
    "pitch": ("int m, int k", "for (int r=0;r<m;r++) for (int c=0;c<k;c++) s += x[r*n+c];", "m * n + k - n"),
    "inner_twice": (
        "int m",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) s += x[r*n+2*c];",
        "m * n + n + -1",
    ),
    "rows_of_half": (
        "int m",
        "for (int r=0;r<m;r++) for (int c=0;c<n/2;c++) s += x[r*(n/2)+c];",
        "m x n // 2",
    ),
    "rows_of_data": (
        "int m",
        "for (int r=0;r<m;r++) for (int c=0;c<n+m;c++) s += x[r*(n+m)+c];",
        "m x m + n",
    ),
    "rows_and_guard": (
        "int m, int k",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) if (r*n+c < k) s += x[r*n+c];",
        "min(m * n, k)",
    ),
    "deep_unused": (
        "int m, int k",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) for (int d=0;d<r;d++) s += x[r*n+c];",
        "m x n",
    ),
    "deep_unused_c": (
        "int m, int k",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) for (int d=0;d<c;d++) s += x[r*n+c];",
        "m x n",
    ),
    "turned": ("", "for (int c=0;c<n;c++) s += x[(c+5)%n];", "n"),
    "turned_rows": ("int m", "for (int c=0;c<n;c++) for (int d=0;d<4;d++) s += x[(c+5)%n*4+d];", "n * 4"),
    "down_rows": ("int m", "for (int r=0;r<m;r++) for (int c=0;c<n;c++) s += x[(m-1-r)*n+(n-1-c)];", "m x n"),
    "strided": ("int m", "for (int c=0;c<m;c++) s += x[c*n];", "m * n - n + 1"),
    "data_guard": ("const float *z", "for (int c=0;c<n;c++) if (z[c] > 3.f) s += x[c];", "n"),
    "data_guard_two_dims": (
        "const float *z, int m",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) if (z[c] > 3.f) s += x[r*n+c];",
        "m x n",
    ),
    "and_guard": (
        "int m, int k",
        "for (int c=0;c<n;c++) if (c < m && c < k) s += x[c];",
        "min(min(n, m), k)",
    ),
    "not_guard": ("int m, int k", "for (int c=0;c<n;c++) if (!(c < m)) s += x[c];", "n"),
    "eq_guard": ("int m, int k", "for (int c=0;c<n;c++) if (c == m) s += x[c];", "min(n, m + 1)"),
    "else_guard": ("int m, int k", "for (int c=0;c<n;c++) { if (c < m) s += 1.f; else s += x[c]; }", "n"),
    "min_end": ("int m", "for (int c=0;c<min(n,m);c++) s += x[c];", "min(n, m)"),
    "max_end": ("int m", "for (int c=0;c<max(n,m);c++) s += x[c];", "max(n, m)"),
    "div4": ("", "for (int c=0;c<n;c++) s += x[c/4];", "(n + 3) // 4"),
    "far_row": (
        "int m",
        "for (int r=0;r<m-1;r++) for (int c=20;c<n-20;c++) s += x[r*n+c];",
        "m * n - n + -20",
    ),
    "const_row": ("int m", "for (int r=0;r<m;r++) for (int c=0;c<60;c++) s += x[r*64+c];", "m * 64 + -4"),
    "gathered": ("const int *p", "for (int c=0;c<n;c++) s += x[p[c]];", "x_size"),
    "gathered_row": (
        "const int *p, int m",
        "for (int c=0;c<n;c++) for (int d=0;d<m;d++) s += x[p[c]*m+d];",
        "x_size x m",
    ),
    "csr": ("const int *p", "for (int c=p[i];c<p[i+1];c++) s += x[c];", "x_size"),
    "csr_end": ("const int *p", "for (int c=0;c<p[i];c++) s += x[c];", "p_max"),
    "data_long_rows": ("const int *p, int m", "for (int c=0;c<p[i];c++) s += x[i*m+c];", "m * n + p_max - m"),
    "masked": ("const unsigned int *p", "for (int c=0;c<n;c++) s += x[p[c]&255];", "256"),
    "shorter": ("int m", "for (int c=0;c<m-3;c++) s += x[c];", "m + -3"),
    "shorter_strided": ("int m", "for (int c=0;c<m-3;c++) s += x[c*n];", "m * n - n * 4 + 1"),
    "and_then": ("", "if (i > 0 && x[i-1] > 0.f) s = 1.f;", "n + -1"),
    "or_else": ("", "s = (i < 1 || x[i-1] > 0.f) ? 1.f : 0.f;", "n + -1"),
    "flag": ("int has", "if (has > 0) s = x[i];", "n"),
    "two_rows": (
        "int m, int k",
        "for (int c=0;c<m;c++) s += x[c*n+i]; for (int c=0;c<k;c++) s += x[c*n+i];",
        "max(m, k) x n",
    ),
    "clamped": ("int m", "for (int c=0;c<m;c++) s += x[min(c+i, n-1)];", "n"),
    "clamped_low": ("", "s = x[max(i-3, 0)];", "max(n + -4, 0) + 1"),
    "abs": ("", "for (int c=0;c<n;c++) s += x[abs(i-c)];", "n"),
    "turned_then": ("int m", "for (int c=0;c<n;c++) for (int d=0;d<m;d++) s += x[(c+d)%n];", "n"),
    "turned_back_2": ("int m", "for (int c=0;c<n;c++) s += x[(3*n-1-c)%n];", "n"),
    "plain_guard_gather": ("const int *p, int m", "for (int c=0;c<n;c++) if (p[c] > 0) s += x[c];", "n"),
    "two_slopes": (
        "int m",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) s += x[r*m + c*n];",
        "m * m + n * n - m - n + 1",
    ),
    "falling": ("int m", "for (int r=0;r<m;r++) for (int c=0;c<n;c++) s += x[m*n - 1 - r*n - c];", "m x n"),
    "gather_twice": ("const int *p", "for (int c=0;c<n;c++) s += x[2*p[c]];", "x_size * 2 + -1"),
    "gather_back": ("const int *p, int m", "for (int c=0;c<n;c++) s += x[p[c]] + x[m];", "m + 1"),
    "gather_pairs": (
        "const int *p, const int *q, int m",
        "for (int c=0;c<n;c++) s += x[p[c]*m + q[c]];",
        "m * x_size + x_size_2 - m",
    ),
    "gather_product": ("const int *p, int m", "for (int c=0;c<m;c++) s += x[p[0]*m + c];", "x_size x m"),
}
"""More parameters, what is summed up, and the extents of x."""
REFUSED = {
    "inner_as_long_as_outer": (
        "int m",
        "for (int r=0;r<m;r++) for (int c=0;c<r;c++) s += x[r*m+c];",
        "nothing shows that x has",
    ),
    "rows_and_guard_on_c": (
        "int m, int k",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) if (c < k) s += x[r*n+c];",
        "nothing shows that x has",
    ),
    "rows_and_guard_on_r": (
        "int m, int k",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) if (r < k) s += x[r*n+c];",
        "nothing shows that x has",
    ),
    "turned_twice": ("", "for (int c=0;c<n;c++) s += x[(2*c)%n];", "nothing shows that x has"),
    "turned_by_other": ("int m", "for (int c=0;c<n;c++) s += x[(c+5)%m];", "nothing shows that x has"),
    "turned_short": ("int m", "for (int c=0;c<m;c++) s += x[(c+5)%n];", "nothing shows that x has"),
    "turned_guarded": (
        "int m",
        "for (int c=0;c<n;c++) if (c<m) s += x[(c+5)%n];",
        "nothing shows that x has",
    ),
    "turned_inner": (
        "",
        "for (int c=0;c<n;c++) for (int d=0;d<c;d++) s += x[(c+5)%n];",
        "nothing shows that x has",
    ),
    "turned_and_plain": ("", "for (int c=0;c<n;c++) s += x[(c+5)%n + c];", "nothing shows that x has"),
    "turned_in_both": (
        "int m",
        "for (int c=0;c<n;c++) s += x[(c+5)%n*n + (c+7)%n];",
        "nothing shows that x has",
    ),
    "strided_guard": (
        "int m",
        "for (int c=0;c<m;c++) if (c*n < 7*m) s += x[c*n];",
        "nothing shows that x has",
    ),
    "strided_other_guard": (
        "int m, int k",
        "for (int c=0;c<m;c++) if (k > 3) s += x[c*n];",
        "nothing shows that x has",
    ),
    "float_guard": (
        "int m, float f",
        "for (int c=0;c<m;c++) if (f > 3.f) s += x[c*n];",
        "nothing shows that x has",
    ),
    "or_guard": (
        "int m, int k",
        "for (int c=0;c<n;c++) if (c < m || c < k) s += x[c];",
        "nothing shows that x has",
    ),
    "ne_guard": ("int m, int k", "for (int c=0;c<n;c++) if (c != m) s += x[c];", "nothing shows that x has"),
    "mod4": ("", "for (int c=0;c<n;c++) s += x[c%4];", "nothing shows that x has"),
    "div4_rows": (
        "int m",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) s += x[r*n + c/4];",
        "nothing shows that x has",
    ),
    "gathered_minus": (
        "const int *p, int m",
        "for (int c=0;c<n;c++) s += x[m - 1 - p[c]];",
        "proved to be within the dimensions",
    ),
    "masked_signed": (
        "const int *p",
        "for (int c=0;c<n;c++) s += x[p[c]&255];",
        "may hold negative integers",
    ),
    "square": ("", "s = x[i*i];", "proved to be within the dimensions"),
    "cube": ("int m", "for (int a=0;a<n;a++) for (int b=0;b<m;b++) s += x[a*b];", "nothing shows that x has"),
    "negative": ("", "s = x[i-1];", "proved to be within the dimensions"),
    "guard_deep_c": (
        "int m, int k",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) for (int d=0;d<c;d++) if (r*n+c < k) s += x[r*n+c];",
        "nothing shows that x has",
    ),
    "guard_deep_r": (
        "int m, int k",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) for (int d=0;d<r;d++) if (r*n+c < k) s += x[r*n+c];",
        "nothing shows that x has",
    ),
    "guard_squares": (
        "int m, int k",
        "for (int r=0;r<m;r++) for (int c=0;c<r;c++) if (r*r+c < k) s += x[r*r+c];",
        "nothing shows that x has",
    ),
    "guard_rows_from": (
        "int m, int k",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) if (r*n+c < k && r != 1) s += x[r*n+c];",
        "nothing shows that x has",
    ),
    "square_rows": (
        "int m, int k",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) if (r*r*n+c < k) s += x[r*r*n+c];",
        "proved to be within the dimensions",
    ),
    "square_inner": (
        "int m, int k",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) if (r*n+c*c < k) s += x[r*n+c*c];",
        "proved to be within the dimensions",
    ),
    "guard_twice": (
        "int m, int k",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) if (2*r*n+2*c < k) s += x[2*r*n+2*c];",
        "nothing shows that x has",
    ),
    "guard_other_pitch": (
        "int m, int k",
        "for (int r=0;r<m;r++) for (int c=0;c<k;c++) if (r*n+c < k*n) s += x[r*n+c];",
        "nothing shows that x has",
    ),
    "turned_then_d": (
        "int m",
        "for (int c=0;c<n;c++) for (int d=0;d<m;d++) if (d < c) s += x[(c+d)%n];",
        "nothing shows that x has",
    ),
    "written_only_no_fit": ("", "s = 1.f; y[i*i-5] = s;", "proved to be within the dimensions"),
    "turned_more": ("", "for (int c=0;c<n;c++) s += x[(c + c/2)%n];", "nothing shows that x has"),
    "turned_half": ("", "for (int c=0;c<n;c++) s += x[(c/2+5)%n];", "nothing shows that x has"),
    "turned_longer_and_unknown": (
        "int m",
        "float v = 0.f; for (int c=0;c<2*m;c++) { s += x[(c+5)%m]; v += 1.f; if (v < 3.f) s += x[c]; }",
        "nothing shows that x has",
    ),
    "guard_either": (
        "int m, int k, int j",
        "for (int c=0;c<m;c++) if (c*n < k || c < j) s += x[c*n];",
        "nothing shows that x has",
    ),
    "zigzag": (
        "int m",
        "for (int r=0;r<m;r++) for (int c=0;c<n;c++) s += x[r*c];",
        "nothing shows that x has",
    ),
    "quotient_and_unknown": (
        "",
        "float v = 0.f; for (int c=0;c<n+4;c++) { s += x[(c+1)/(n+4)]; v += 1.f; if (v < 3.f) s += x[c]; }",
        "nothing shows that x has",
    ),
    "rows_as_many_as_a_loop_says": (
        "int m",
        "for (int u=0;u<m;u++) for (int r=0;r<u;r++) for (int c=0;c<4;c++) if (r*4+c < n) s += x[r*4+c];",
        "nothing shows that x has",
    ),
    "gather_square": (
        "const int *p",
        "for (int c=0;c<n;c++) s += x[p[c]*p[c]];",
        "proved to be within the dimensions",
    ),
    "gather_from_the_end": (
        "const int *p",
        "for (int c=0;c<8;c++) s += x[7 - c] + x[p[c] % 8];",
        "may hold negative integers",
    ),
}
"""More parameters, what is summed up, and why there are no extents."""


def text(params: str, body: str) -> str:
    return KERNEL % (f", {params}" if params else "", body)


@pytest.mark.parametrize("name", SHOWN)
def test_the_extents_are_those_that_accesses_show(name: str) -> None:
    params, body, extents = SHOWN[name]
    kernel = lift("k.cu", None, text(params, body)).kernel
    assert " x ".join(print_expr(e) for e in kernel.buffer("x").extents) == extents


@pytest.mark.parametrize("name", REFUSED)
def test_what_shows_no_extents_is_refused(name: str) -> None:
    params, body, why = REFUSED[name]
    with pytest.raises(CannotLiftError, match=why):
        lift("k.cu", None, text(params, body))
