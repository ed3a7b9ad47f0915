"""Atomic updates whose old value nobody looks at are reductions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evolve.frontend.lift import Lifted
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.expr import index
from evolve.ir.kernel import Contents
from evolve.ir.printer import print_expr, print_stmt
from evolve.ir.stmt import Reduce
from evolve.ir.visit import leaves
from tests.frontend.differential import assert_same

Lift = Callable[..., Lifted]

STYLES = {
    "histogram": (
        """
        __global__ void k(const int *__restrict__ x, unsigned hist[16], int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) atomicAdd(&hist[x[i]], 1);
        }""",
        ["atomic hist[index(x[i])] sum= 1:u32"],
    ),
    "grid-stride, the bin in a variable, a pointer by hand": (
        """
        __global__ void k(const unsigned *x, int *hist, int n) {
          for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
            const unsigned bin = x[i];
            atomicAdd(hist + bin, 1);
          }
        }""",
        ["atomic hist[index(x[i])] sum= 1:i32"],
    ),
    "weights": (
        """
        __device__ void put(float *where, float what) { atomicAdd(where, what); }
        __global__ void k(const int *x, const float *w, float *sums, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i >= n) return;
          put(&sums[x[i]], w[i]);
        }""",
        ["atomic sums[index(x[i])] sum= w[i]"],
    ),
    "extremes of rows": (
        """
        __global__ void k(const int *x, int *least, int *most, int rows, int cols) {
          int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
          if (r < rows && c < cols) {
            atomicMin(&least[r], x[r * cols + c]);
            atomicMax(most + r, x[r * cols + c]);
          }
        }""",
        ["atomic least[r] min= x[r, c]", "atomic most[r] max= x[r, c]"],
    ),
    "a digit of each key": (
        """
        __global__ void k(const unsigned *keys, int hist[256], int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) atomicAdd(&hist[(keys[i] >> 8) & 255], 1);
        }""",
        ["atomic hist[index(keys[i]) // 256 mod 256] sum= 1:i32"],
    ),
    "less one": (
        """
        __global__ void k(const int *x, int *left, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) for (int k = 0; k < 3; k++) atomicSub(&left[k], x[i]);
        }""",
        ["atomic left[k] sum= -x[i]"],
    ),
}


@pytest.mark.parametrize("name", STYLES)
def test_lifts_and_means_what_the_text_computes(name: str, lift_text: Lift, cache: Path) -> None:
    text, wanted = STYLES[name]
    found = lift_text(text)
    made = [leaf for leaf, _ in leaves(found.kernel.body)]
    assert [print_stmt(leaf).strip() for leaf in made] == wanted
    assert all(isinstance(leaf, Reduce) and leaf.atomic for leaf in made)
    assert assert_same(found, cache_dir=cache) >= 3


def test_a_declared_length_says_how_many_bins_there_are(lift_text: Lift) -> None:
    kernel = lift_text(STYLES["histogram"][0]).kernel
    assert [print_expr(e) for e in kernel.buffer("hist").extents] == ["16"]
    assert kernel.contents == (Contents("x", index(0), index(16)),)
    assert not kernel.implied


def test_without_one_the_number_of_bins_is_implied(lift_text: Lift) -> None:
    kernel = lift_text(STYLES["grid-stride, the bin in a variable, a pointer by hand"][0]).kernel
    assert kernel.implied == {"hist_size"}
    assert [print_expr(e) for e in kernel.buffer("hist").extents] == ["hist_size"]


REFUSED = {
    "z[i] = atomicAdd(&y[0], 1);": "value of atomicAdd",
    "int old = atomicAdd(&y[0], 1); if (old == 3) z[i] = 1;": "value of atomicAdd",
    "atomicCAS(&y[0], 1, x[i]);": "call of atomicCAS",
    "if (x[i] > 3) atomicAdd(&y[0], 1);": "call of atomicAdd",
    "int own[2]; atomicAdd(&own[1], 1); z[i] = own[1];": "pointer",
    "atomicAdd(&z[z[i]], 1);": "array z",
    "atomicAdd(x[i] > 2 ? y : z, 1);": "call of atomicAdd",
}


@pytest.mark.parametrize("body", REFUSED)
def test_refused(body: str, lift_text: Lift) -> None:
    text = f"""
    __global__ void k(const int *x, int *y, int *z, int n) {{
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) {{ {body} }}
    }}"""
    with pytest.raises(CannotLiftError) as refused:
        lift_text(text)
    assert refused.value.construct == REFUSED[body]


@pytest.mark.parametrize(
    "bin_", ["x[i] & 255", "(x[i] >> 8) + 8", "(x[i] % 10 + 10) % 10", "(unsigned)x[i] % 64"]
)
@pytest.mark.parametrize("of", ["int", "long long", "unsigned long long"])
def test_what_may_be_negative_is_not_divided(bin_: str, of: str, lift_text: Lift) -> None:
    """The source has a cell for negative x; a quotient that rounds another way would leave the array."""
    text = f"""
        __global__ void k(const {of} *x, int hist[256], int n) {{
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) atomicAdd(&hist[{bin_}], 1);
        }}"""
    with pytest.raises(CannotLiftError, match=r"negative|may exceed"):
        lift_text(text)


def test_a_declared_length_does_not_bound_what_is_divided(lift_text: Lift) -> None:
    text = """
        __global__ void k(const unsigned *x, int hist[16], int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) atomicAdd(&hist[x[i] & 15], 1);
        }"""
    kernel = lift_text(text).kernel
    assert [(c.low, c.high) for c in kernel.contents] == [(index(0), index(2**32))]
    (leaf, _), *_ = leaves(kernel.body)
    assert print_stmt(leaf).strip() == "atomic hist[index(x[i]) mod 16] sum= 1:i32"
