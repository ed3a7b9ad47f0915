"""What picks a variant and launches it: what is wrong in it is found."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from evolve.ir.expr import conjunction
from evolve.ir.printer import print_expr
from evolve.ir.scope import conjuncts
from evolve.validation.launching import validate_launcher
from evolve.validation.validate import validate
from evolve.validation.verdict import TextVerdict
from tests.validation.suite import Made, launcher, made

B, S, A = "spmv-balance", "template stencil 2", "attention"
EDITS: tuple[tuple[str, str, str], ...] = (
    (S, "cols_ % 4 == 0 && ", ""),
    (S, "cols_ % 4 == 0", "cols_ % 2 == 0"),
    (S, "cols_ % 4 == 0", "cols_ % 8 == 0"),
    (S, "rows_ <= 131070", "rows_ <= 131072"),
    (S, "rows_ <= 131070", "cols_ <= 131070"),
    (S, "rows_ <= 131070", "rows_ < 131070"),
    (S, "rows_ <= 131070 && ", ""),
    (S, "rows_ >= 1 && ", ""),
    (S, "rows_ >= 1", "rows_ >= 0"),
    (S, "cols_ >= 1 && rows_ >= 1", "(cols_ >= 1 || rows_ >= 1)"),
    (S, "(unsigned long long)x % 16 == 0 && ", ""),
    (S, "(unsigned long long)x % 16", "(unsigned long long)x % 8"),
    (S, "(unsigned long long)x % 16", "(unsigned long long)y % 16"),
    (S, " && apart(x, 4LL * rows_ * cols_, y, 4LL * rows_ * cols_)", ""),
    (S, "apart(x, 4LL * rows_ * cols_", "apart(x, 4LL * rows_"),
    (S, "apart(x, 4LL * rows_ * cols_", "apart(x, 4 * rows * cols"),
    (S, "apart(x, 4LL", "apart(y, 4LL"),
    (S, "a + a_size <= b ||", "a + a_size <= b &&"),
    (S, "long long rows_ = rows", "long long rows_ = cols"),
    (S, "const long long rows_ = rows", "const int rows_ = rows"),
    (S, "if ((cols_ + 4) / 8 > 0 && rows_ / 2 > 0) stencil_v1", "if ((cols_ + 4) / 8 > 0) stencil_v1"),
    (S, "rows_ / 2 > 0) stencil_v1", "rows_ / 2 > 1) stencil_v1"),
    (S, "dim3((unsigned int)((cols_ + 4) / 8)", "dim3((unsigned int)(cols_ / 8)"),
    (
        S,
        "dim3((unsigned int)((cols_ + 4) / 8), (unsigned int)(rows_ / 2))",
        "dim3((unsigned int)(rows_ / 2))",
    ),
    (S, ", (unsigned int)(rows_ / 2)), dim3", "), dim3"),
    (S, "dim3(2), 0, stream>>>(x, y", "dim3(4), 0, stream>>>(x, y"),
    (S, ">>>(x, y, rows, cols);\n        return", ">>>(x, y, cols, rows);\n        return"),
    (S, ">>>(x, y, rows, cols);\n        return", ">>>(x, y, rows + 1, cols);\n        return"),
    (S, ", 0, stream>>>(x, y, rows, cols);\n        return", ", 0, 0>>>(x, y, rows, cols);\n        return"),
    (S, "stencil_v1<<<", "stencil_original<<<"),
    (S, "        return cudaGetLastError();\n    }", "    }"),
    (S, "stencil_original<<<dim3((unsigned int)((cols_ * rows_ + 255) / 256))", "stencil_original<<<dim3(1)"),
    (S, "    if ((cols_ * rows_ + 255) / 256 > 0) stencil_original", "    if (false) stencil_original"),
    (A, "seq_ % 128 == 0 && ", ""),
    (A, "(double)seq_ * 64 <= 9.0e+18", "(double)seq_ * 64 <= 9.9e+18"),
    (A, "allowed(attention_v1, 101376)", "allowed(attention_v1, 101300)"),
    (A, " && allowed(attention_v1, 101376)", ""),
    (A, "== cudaSuccess) return true;", "!= cudaSuccess) return true;"),
    (A, ", 101376, stream>>>", ", 101300, stream>>>"),
    (A, "dim3(8, 16), 101376", "dim3(16, 8), 101376"),
    (
        A,
        ">>>(Q, K, V, O, scale, heads, seq);\n        return",
        ">>>(K, Q, V, O, scale, heads, seq);\n return",
    ),
    (A, ">>>(Q, K, V, O, scale, heads, seq);\n        return", ">>>(Q, K, V, O, 1.0f, heads, seq);\n return"),
    (A, "apart(V, 4LL * heads_ * seq_ * 64, O", "apart(K, 4LL * heads_ * seq_ * 64, O"),
    (B, "(4LL * rows_ + 255) / 256 * 256, stream", "4LL * rows_, stream"),
    (B, "(4LL * rows_ + 255) / 256 * 256, stream", "(4LL * rows_ + 255) / 256, stream"),
    (B, "if (failed != cudaSuccess) return failed;", ""),
    (B, "(float*)(workspace)", "(float*)(workspace + 4)"),
    (B, ">>>(rows, sum_2);", ">>>(rows, y);"),
    (B, ">>>(rows, y, sum_2);", ">>>(rows, sum_2, y);"),
    (B, "rowptr, col, val, x, sum_2)", "col, rowptr, val, x, sum_2)"),
    (B, "        cudaFreeAsync(workspace, stream);\n", ""),
    (B, "        failed = cudaGetLastError();\n        cudaFreeAsync", "        cudaFreeAsync"),
    (B, "rows_ <= 2147482624 && ", ""),
    (B, "apart_2(rowptr, 4LL * (rows_ + 1)", "apart_2(rowptr, 4LL * rows_"),
)


def plain(name: str) -> str:
    """The host function of a program, a statement a line."""
    host = re.sub(r" *//[^\n]*", "", launcher(made(name)))
    host = re.sub(r"(?<=[,(&])\n\s*|\n\s*(?=&&)", " ", host).replace("( ", "(")
    return re.sub(r"\{\n\s*(\w+<<<.*)\n\s*\}", r"\1", host)


def read_back(it: Made, host: str) -> TextVerdict:
    return validate_launcher(it.module, it.rendered, f"{it.rendered.text}\n{host}")


def test_what_need_not_be_asked_need_not() -> None:
    """A multiple of 4 that is not 0 has a block: that there is one is asked all the same."""
    host = plain(S)
    other = host.replace(
        "if ((cols_ + 4) / 8 > 0 && rows_ / 2 > 0) stencil_v1", "if (rows_ / 2 > 0) stencil_v1"
    )
    assert other != host and read_back(made(S), other).proved


@pytest.mark.parametrize(("name", "old", "new"), EDITS)
def test_an_edit_is_found(name: str, old: str, new: str) -> None:
    host = plain(name)
    assert old in host
    verdict = read_back(made(name), host.replace(old, new, 1))
    assert not verdict.proved
    assert "Error" not in verdict.reason and "clang" not in verdict.reason


def test_launches_in_another_order_are_found() -> None:
    lines = plain(B).splitlines()
    (second,) = (i for i, x in enumerate(lines) if "spmv_v1_2<<<" in x)
    lines[second], lines[second + 1] = lines[second + 1], lines[second]
    assert not read_back(made(B), "\n".join(lines) + "\n").proved


def test_a_macro_of_the_source_counts() -> None:
    host = plain(S)
    changed = host.replace("inline cudaError_t launch", "#define rows_ cols_\ninline cudaError_t launch", 1)
    assert changed != host and not read_back(made(S), changed).proved


@pytest.mark.parametrize(
    ("name", "left_out"), [("template matmul 2", "K >= 1"), (S, "rows >= 1"), (S, "rows <= 131070")]
)
def test_a_guard_that_lacks_what_texts_rest_on_is_found(name: str, left_out: str) -> None:
    it = made(name)
    (variant,) = it.rendered.variants
    kept = tuple(t for t in conjuncts((variant.guard,)) if print_expr(t) != left_out)
    assert conjunction(kept) != variant.guard
    rendered = replace(it.rendered, variants=(replace(variant, guard=conjunction(kept)),))
    assert "does not ask" in validate(it.module, rendered).reason
