"""Sources whose obvious reading is not what C says: each is lifted as it computes, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evolve.frontend.lift import Lifted
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.printer import print_expr
from tests.frontend.differential import assert_same

Lift = Callable[..., Lifted]

HELPERS = """__device__ float bump(float *y, int i) { y[i] += 1.f; return y[i]; }
__device__ float total(const float*x, int m) { float s = 0; for (int j = 0; j < m; j++) s += x[j]; return s; }
__device__ float fill(float *t, float v) { t[0] = v; return v; }
"""
HEAD = """__global__ void k(float *y, const float *x, int n, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = 0;
"""

REFUSED = {
    "an inner loop steps the outer variable": (
        "for (int t = 0; t < m; ++t) for (int j = 0; j < 2; ++j, ++t) a += 1.f;", "for loop"
    ),
    "an inner loop steps the bound": (
        "int e = m; for (int t = 0; t < e; ++t) for (int j = 0; j < 1; ++j, --e) a += 1.f;", "for loop"
    ),
    "a subscript moved by an inner loop": (
        "int p = 0; for (int t = 0; t < n; ++t) for (int j = 0; j < m; ++j) { a += x[p]; p += 1; }",
        "subscript",
    ),
    "a pointer moved by an inner loop": (
        "const float *p = x; for (int t = 0; t < n; ++t) for (int j = 0; j < m; ++j) { a += *p; ++p; }",
        "variable p",
    ),
    "the counter of an inner loop after the outer": (
        "int j = 7; for (int t = 0; t < m; ++t) { for (j = 0; j < 3; ++j) a += 1.f; } a += j;", "variable j"
    ),
    "the counter of an inner loop in the next round": (
        "int j = 7; for (int t = 0; t < m; ++t) { a += j; for (j = 0; j < 3; ++j) a += 1.f; }", "variable j"
    ),
    "the counter of a loop under a condition": (
        "int j = 7; for (int t = 0; t < m; ++t) { if (m > 3) { for (j = 0; j < 3; ++j) a += 1.f; } a += j; }",
        "variable j",
    ),
    "minus an unsigned literal": ("unsigned u = -1u; a = u;", "unary -"),
    "compared as unsigned": (
        "unsigned u = m; for (int j = -2; j < u; ++j) a += 1.f;", "conversion in the loop's condition"
    ),
    "cast to unsigned": (
        "for (int j = -2; (unsigned)j < 5u; ++j) a += 1.f;", "conversion in the loop's condition"
    ),
    "compared as size_t": (
        "for (int j = i - 1; j < (size_t)n; ++j) a += 1.f;", "conversion in the loop's condition"
    ),
    "counting down against an unsigned": ("for (int j = m; j > 0u; --j) a += 1.f;", "for loop"),
    "accumulating into nothing": ("float b; for (int j = 0; j < m; ++j) b += x[j]; a = b;", "variable b"),
    "two writes in one expression": ("a = bump(y, i) * 10.f + bump(y, i);", "call of bump"),
    "a write in a conditional expression": ("a = m > 3 ? bump(y, i) : 0.f;", "call of bump"),
    "a write to a local array in an expression": (
        "float t[1]; t[0] = 1.f; a = t[0] * 2.f + fill(t, x[i]);", "call of fill"
    ),
    "a step of a variable that is used beside it": ("int p = 0; y[p++] = x[p];", "assignment"),
    "a step under a condition": ("int p = 0; a = m > 3 ? x[p++] : 0.f; a += x[p];", "assignment"),
    "a step behind an and": ("int p = 0; if (m > 3 && x[p++] > 0) a = 1.f;", "assignment"),
    "an array element set beside a use of it": ("a = (y[i] = x[i]) + y[i];", "assignment"),
    "a store where a condition chooses": ("y[m > 3 ? n - 1 - i : i] = 1.f;", "subscript"),
    "a pointer that data chooses": ("const float *p = x[i] > 0.f ? x : x + 1; a = *p;", "pointer p"),
    "a subscript that data chooses": ("int p = x[i] > 0.f ? 1 : 0; a = x[p];", "subscript"),
    "a bound that a condition chooses": (
        "int e = m > 3 ? m : 2 * m; for (int j = 0; j < e; ++j) a += x[j];", "loop bound"
    ),
    "an unsigned cursor that counts down": (
        "unsigned p = 2; for (int j = 0; j < m; ++j) { a += p; p -= 1; }", "operator +="
    ),
    "an unsigned step below zero": ("unsigned u = i; a = m > 3 ? x[u - 1] : 0.f;", "operator -"),
    "a loop over memory in a conditional expression": ("a = m > 3 ? total(x + n, m) : 0.f;", "call"),
}  # fmt: skip

SAME = {
    "a counter used by two loops": (
        "int j; for (j = 0; j < m; ++j) a += x[j]; for (j = m - 1; j >= 0; --j) a += x[j];"
    ),
    "a counter set again in each round": (
        "int j; for (int t = 0; t < m; ++t) for (j = 0; j < t; ++j) a += x[j];"
    ),
    "a cursor of its own in each round": (
        "for (int t = 0; t < m; ++t) { int p = t; for (int j = t; j < m; ++j) { a += x[p]; p += 1; } }"
    ),
    "a signed counter below an unsigned bound": "unsigned u = m; for (int j = 0; j < u; ++j) a += x[j];",
    "a value only under a condition": (
        "float last; for (int j = 0; j < m; ++j) { if (j > 0) a += last; last = x[j]; }"
    ),
    "a writing call as a statement": "y[i] = x[i]; float b = bump(y, i); a = b; bump(y, i); a += y[i];",
    "a call with a loop in an expression": "a = total(x, m) * 2.f + total(x, n);",
    "a bound of two conditions": "for (int j = 0; j < m && j < 5; ++j) a += x[j];",
    "assignments in a row": "float b, c; a = b = c = x[i]; a += b * c;",
    "assignments in a row, rounded on the way": "int b; a = b = 3.75f; a += b;",
    "assignments to elements in a row": (
        "float t[3]; t[0] = t[1] = t[2] = x[i]; t[1] += 1.f; a = t[0] + t[1] * 2.f + t[2] * 4.f;"
    ),
    "a sum and an assignment in one": "float b = x[i]; a += b = 2.f; a += b;",
    "a cursor stepped before it is used": "int p = -1; for (int j = 0; j < m; ++j) a += x[++p] * j;",
    "a step that the value passes through": "int p = 2; int q = (p += 1) * 2; a = p + q;",
    "steps in a declaration and in a sum": "int p = 0; float b = x[p++]; a = b + p; p--; a += p--; a += p;",
    "a subscript that wraps around": (
        "int l = i - 1; if (l < 0) l = n - 1; a = x[l] + x[i + 1 < n ? i + 1 : 0];"
    ),
    "an unsigned subscript that wraps around": (
        "unsigned u = i, last = n - 1; unsigned l = u == 0 ? last : u - 1;"
        " a = x[l] + (u > 0 ? x[u - 1] : 0.f);"
    ),
    "a chosen subscript in arithmetic": (
        "int k = m > 3 ? i : 2 * i; a = x[(k + 1) / 2] * k + (k > 2 ? 1.f : 0.f);"
    ),
    "two choices of one condition": (
        "int p = i > 0 ? i : n; int q = i > 0 ? 1 : 0; a = x[p - 1] * q + x[p - q];"
    ),
    "a chosen pointer": "const float *p = i > 0 ? x + i - 1 : x; a = *p + __ldg(p) + p[0];",
    "the row before": "if (i != 0) a = x[i - 1]; else a = 2.f;",
    "the first apart": "for (int j = 0; j < m; ++j) { if (j == 0) a += 1.f; else a += x[j - 1]; }",
    "a test before a read": "if (i > 0 && x[i - 1] > 0.f) a = 3.f; if (i == 0 || x[i - 1] < 0.f) a += 1.f;",
    "loops with hints": (
        "\n#pragma unroll 4\nfor (int j = 0; j < m; ++j) a += x[j];"
        "\n#pragma unroll\nfor (int j = 0; j < 3; ++j) if (j < m) [[likely]] { a += x[j]; }"
    ),
    "alternatives around a condition": "if (i == 0 || i == n - 1) { if (m > 3) a = 1.f; }",
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_refused(name: str, lift_text: Lift) -> None:
    body, construct = REFUSED[name]
    with pytest.raises(CannotLiftError) as caught:
        lift_text(f"{HELPERS}{HEAD}  {body}\n  y[i] = a + x[i];\n}}\n")
    assert caught.value.construct == construct
    assert caught.value.line == 8


@pytest.mark.parametrize("name", list(SAME))
def test_lifted_as_it_computes(name: str, lift_text: Lift, tmp_path: Path) -> None:
    lifted = lift_text(f"{HELPERS}{HEAD}  {SAME[name]}\n  y[i] = a + x[i];\n}}\n")
    sizes = tuple({"n": n, "m": m} for n, m in ((1, 1), (5, 3), (33, 7)))
    assert assert_same(lifted, sizes, cache_dir=tmp_path) == len(sizes)


def test_an_unsigned_cursor_stays_in_its_range(lift_text: Lift) -> None:
    body = "unsigned p = 4294967290u; for (int j = 0; j < m; ++j) { if (p < 5u) a += 1.f; p += 3; }"
    lifted = lift_text(f"{HELPERS}{HEAD}  {body}\n  y[i] = a + x[i];\n}}\n")
    assert [print_expr(f) for f in lifted.no_wrap] == ["m * 3 <= 8"]
