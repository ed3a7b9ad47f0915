"""Subscripts and loop bounds that are read from memory, as people write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evolve.frontend.lift import Lifted, lift
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.expr import index, var
from evolve.ir.kernel import Contents
from evolve.ir.printer import print_expr, print_kernel
from evolve.ir.visit import local_buffers
from evolve.workload.infer import infer
from evolve.workload.structure import draw
from tests.frontend.differential import assert_same

Lift = Callable[..., Lifted]

STYLES = {
    "gather": """
        __global__ void k(const float *x, const int *idx, float *y, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) y[i] = x[idx[i]];
        }""",
    "gather, the subscript in a variable of another type": """
        __global__ void k(const float *__restrict__ x, const unsigned *__restrict__ idx, float *y, int n) {
          for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
            const size_t at = __ldg(idx + i);
            y[i] = 2.0f * x[at] + 1.0f;
          }
        }""",
    "gather through two lists": """
        __global__ void k(const double *x, const long long *outer, const int *inner, double *y, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i >= n) return;
          y[i] = x[inner[outer[i]]];
        }""",
    "rows of a table, flat": """
        __global__ void k(const float *table, const int *ids, float *out, int tokens, int d) {
          int t = blockIdx.x * blockDim.x + threadIdx.x;
          if (t < tokens * d) { int i = t / d; int c = t % d; out[i * d + c] = table[ids[i] * d + c]; }
        }""",
    "rows of a table, a block each": """
        __global__ void k(const float *table, const int *ids, float *out, int tokens, int d) {
          int i = blockIdx.x;
          int id = ids[i];
          const float *row = table + (size_t)id * d;
          for (int c = threadIdx.x; c < d; c += blockDim.x) out[i * d + c] = row[c];
        }
        void run(const float *a, const int *b, float *c, int t, int d) { k<<<t, 128>>>(a, b, c, t, d); }""",
    "rows of the same array": """
        __global__ void k(const float *x, const int *perm, float *y, int rows, int cols) {
          int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
          if (r < rows && c < cols) y[r * cols + c] = x[perm[r] * cols + c] - x[r * cols + c];
        }""",
    "one element of each row": """
        __global__ void k(const float *x, const int *column, float *y, int rows, int cols) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r >= rows) return;
          float sum = 0.0f;
          for (int c = 0; c < cols; c++) sum += x[r * cols + c];
          y[r] = sum - x[r * cols + column[r]];
        }""",
    "elements of the whole array": """
        __global__ void k(const float *x, const int *place, float *y, int rows, int cols) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r >= rows) return;
          float sum = 0.0f;
          for (int c = 0; c < cols; c++) sum += x[r * cols + c];
          y[r] = sum - x[place[r]];
        }""",
    "sparse rows": """
        __global__ void k(int m, const int *ptr, const int *col, const float *val, const float *x, float *y) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r < m) {
            float sum = 0.0f;
            for (int k = ptr[r]; k < ptr[r + 1]; k++) sum += val[k] * x[col[k]];
            y[r] = sum;
          }
        }""",
    "sparse rows, bounds and columns in variables": """
        __global__ void k(const int m, const unsigned *__restrict__ ptr, const unsigned *__restrict__ cols,
                          const double *__restrict__ vals, const double *__restrict__ in, double *out,
                          double a) {
          const unsigned row = blockDim.x * blockIdx.x + threadIdx.x;
          if (row >= m) return;
          const unsigned start = ptr[row], end = ptr[row + 1];
          double acc = 0;
          for (unsigned j = start; j < end; ++j) {
            unsigned c = cols[j];
            acc = acc + vals[j] * __ldg(&in[c]);
          }
          out[row] = a * acc + out[row];
        }""",
    "sparse rows, pointers and lengths": """
        __global__ void k(int m, const int *ptr, const int *cols, const float *vals, const float *in,
                          float *out) {
          for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < m; row += gridDim.x * blockDim.x) {
            const int start = ptr[row];
            const int len = ptr[row + 1] - start;
            const int *c = cols + start;
            const float *v = vals + start;
            out[row] = 0.f;
            for (int j = 0; j < len; ++j) out[row] += v[j] * in[c[j]];
          }
        }""",
    "largest of every second element of a list": """
        __global__ void k(const float *x, const int *first, const int *list, float *y, int n) {
          int s = blockIdx.x * blockDim.x + threadIdx.x;
          if (s >= n) return;
          float m = -1e30f;
          for (int j = first[s]; j < first[s + 1]; j += 2) { float v = x[list[j]]; m = v > m ? v : m; }
          y[s] = m;
        }""",
    "rows times several vectors": """
        __global__ void k(int m, int p, const int *ptr, const int *col, const float *val, const float *x,
                          float *y) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r >= m) return;
          for (int j = 0; j < p; ++j) {
            float sum = 0;
            for (int k = ptr[r]; k < ptr[r + 1]; k++) sum += val[k] * x[col[k] * p + j];
            y[r * p + j] = sum;
          }
        }""",
    "as many as a list says": """
        __global__ void k(const float *x, const int *count, float *y, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) { y[i] = 0; for (int j = 0; j < count[i]; ++j) y[i] += x[j]; }
        }""",
}


@pytest.mark.parametrize("style", STYLES)
def test_lifted_means_what_the_text_computes(style: str, lift_text: Lift, cache: Path) -> None:
    lifted = lift_text(STYLES[style])
    assert lifted.kernel.contents
    assert assert_same(lifted, cache_dir=cache) >= 3


def test_lengths_that_nothing_tells_are_sizes_of_their_own(lift_text: Lift) -> None:
    lifted = lift_text(STYLES["sparse rows"])
    kernel = lifted.kernel
    assert [s.name for s in kernel.scalars if s.implied] == ["col_size", "x_size"]
    assert kernel.params == ("m", "ptr", "col", "val", "x", "y")
    extents = {b.name: tuple(print_expr(e) for e in b.extents) for b in kernel.buffers}
    assert extents == {
        "ptr": ("m + 1",), "col": ("col_size",), "val": ("col_size",), "x": ("x_size",), "y": ("m",)
    }  # fmt: skip
    text = print_kernel(kernel)
    assert "for k in 0..index(ptr[r + 1]) - index(ptr[r]):" in text
    assert "values of ptr: from 0, below col_size + 1, nondecreasing" in text


def test_what_is_assumed_of_the_values_is_told(lift_text: Lift) -> None:
    notes = lift_text(STYLES["sparse rows"]).notes
    assert "col_size is no parameter of the kernel: how large it is, the workload says" in notes
    assert "col holds integers from 0, below x_size, subscripts of x" in notes
    assert (
        "ptr holds integers from 0 to col_size, none less than the one before, "
        "where loops begin and end that read col and val" in notes
    )


def test_another_access_tells_the_length(lift_text: Lift) -> None:
    kernel = lift_text(STYLES["rows of the same array"]).kernel
    assert not kernel.implied
    assert kernel.contents == (Contents("perm", index(0), var("rows")),)


def test_rows_that_are_read_whole_tell_their_length(lift_text: Lift) -> None:
    kernel = lift_text(STYLES["one element of each row"]).kernel
    assert not kernel.implied
    assert kernel.contents == (Contents("column", index(0), var("cols")),)
    assert "y[r] = sum[] - x[r, index(column[r])]" in print_kernel(kernel)


def test_a_subscript_without_a_row_may_be_anywhere(lift_text: Lift) -> None:
    (contents,) = lift_text(STYLES["elements of the whole array"]).kernel.contents
    assert print_expr(contents.high) == "x_size"


def test_one_list_of_lengths_is_no_list_of_rows(lift_text: Lift) -> None:
    (contents,) = lift_text(STYLES["as many as a list says"]).kernel.contents
    assert not contents.nondecreasing
    assert print_expr(contents.high) == "count_max + 1"


def test_a_subscript_in_a_variable_takes_no_register(lift_text: Lift) -> None:
    """Declared outside of the loop that uses it, it is read where it is used."""
    kernel = lift_text(STYLES["rows of a table, a block each"]).kernel
    assert not local_buffers(kernel.body)
    assert "out[i, c] = table[index(ids[i]), c]" in print_kernel(kernel)


REFUSED = {
    "a list that is written": (
        "__global__ void k(const float *x, int *idx, float *y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i >= n) return;\n"
        "  y[i] = x[idx[i]];\n"
        "  idx[i] = 0;\n}",
        5, "array idx",
    ),
    "an element that is written later": (
        "__global__ void k(const float *x, int *idx, float *y, int n, int m) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i >= n) return;\n"
        "  int at = idx[i];\n"
        "  for (int j = 0; j < m; ++j) { y[i] += x[at]; idx[i] = j; }\n}",
        5, "subscript",
    ),
    "a length that may not fit": (
        "__global__ void k(const float *x, const long long *p, float *y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i >= n) return;\n"
        "  int m = p[i + 1] - p[i];\n"
        "  for (int j = 0; j < m; ++j) y[i] += x[j];\n}",
        5, "conversion to int",
    ),
    "unsigned arithmetic that may wrap around": (
        "__global__ void k(const float *x, const unsigned *idx, float *y, unsigned n, unsigned d) {\n"
        "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i >= n) return;\n"
        "  y[i] = x[idx[i] * d];\n}",
        4, "operator *",
    ),
    "below the start": (
        "__global__ void k(const float *x, const int *idx, float *y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < n) y[i] = x[idx[i] - 1];\n}",
        3, "subscript of x",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_place_and_reason(name: str, lift_text: Lift) -> None:
    text, line, construct = REFUSED[name]
    with pytest.raises(CannotLiftError) as caught:
        lift_text(text)
    assert (caught.value.line, caught.value.construct) == (line, construct)


def test_data_that_is_no_subscript_stays_data(lift_text: Lift, cache: Path) -> None:
    """The same list read as a number and as a subscript."""
    lifted = lift_text(
        """__global__ void k(const float *x, const int *idx, float *y, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) { int at = idx[i]; y[i] = x[at] + at * (at + 3); }
        }"""
    )
    assert not any("idx" in print_expr(f) for f in lifted.no_wrap)
    assert assert_same(lifted, cache_dir=cache) >= 3


MASKED = """
__global__ void hist(const unsigned int *keys, int *bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[%s], 1);
}
"""


def test_masked_keys_are_any_integers_of_their_type() -> None:
    """A mask that nothing needs would be missed by nobody."""
    lifted = lift("k.cu", None, MASKED % "keys[i] & 255")
    (held,) = lifted.kernel.contents
    assert (held.low, held.high) == (index(0), index(2**32)) and not lifted.kernel.implied
    assert not any("keys" in note for note in lifted.notes)
    keys = infer(lifted).array("keys")
    assert keys.values is not None
    assert int(draw(keys, keys.values, {"n": 4096}).max()) > 2**31
    for other in ("keys[i]", "keys[i] / 4"):
        (held,) = lift("k.cu", None, MASKED % other).kernel.contents
        assert held.high == var("bins_size")
