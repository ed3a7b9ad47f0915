"""Traffic that index arrays decide is counted on the input, and exactly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from evolve.features.enumerate import UncountableError, longest, points_of
from evolve.features.extract import extract
from evolve.frontend.lift import lift
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Reduce
from evolve.ir.visit import leaves
from evolve.sol.bound import THIS_INPUT, bound
from evolve.sol.gap import Breakdown, gap
from evolve.target.profile import load_profile
from evolve.workload.structure import IndexArrays

SPMV = """
__global__ void spmv(int rows, const int *rowptr, const int *col, const float *val, const float *x,
                     float *y) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    float sum = 0.0f;
    for (int k = rowptr[r]; k < rowptr[r + 1]; k++) sum += val[k] * x[col[k]];
    y[r] = sum;
  }
}
"""
TABLE = """
__global__ void rows(const float *table, const int *ids, float *out, int tokens, int d) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, t = blockIdx.y;
  if (c < d) out[t * d + c] = table[ids[t] * d + c];
}
void run(const float *a, const int *b, float *c, int t, int d) { rows<<<dim3(d, t), 1>>>(a, b, c, t, d); }
"""
GATHER = """
__global__ void gather(const float *x, const int *idx, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[idx[i]] + x[idx[i] + 1];
}
"""


def kernel(text: str) -> Kernel:
    return lift("k.cu", None, text).kernel


def held(**arrays: list[int]) -> IndexArrays:
    return {n: np.array(a, np.int32) for n, a in arrays.items()}


def elements(k: Kernel, sizes: Mapping[str, int], contents: IndexArrays) -> dict[str, tuple[int, int]]:
    found = extract(k, sizes, contents)
    assert found.exact and found.this_input
    return {b.buffer: (b.read_elements, b.written_elements) for b in found.buffers}


# Rows of 3, 0 and 2 elements in columns 1, 4, 1 and 4, 0.
ROWS = held(rowptr=[0, 3, 3, 5], col=[1, 4, 1, 4, 0, 7, 7])
SIZES = {"rows": 3, "col_size": 7, "x_size": 9}


def test_sparse_rows() -> None:
    k = kernel(SPMV)
    assert elements(k, SIZES, ROWS) == {
        "rowptr": (4, 0), "col": (5, 0), "val": (5, 0), "x": (3, 0), "y": (0, 3)
    }  # fmt: skip
    found = extract(k, SIZES, ROWS)
    assert {x.name: x.trips for x in found.loops} == {"r": 3.0, "k": pytest.approx(5 / 3)}
    assert found.reductions[0].trips == 3  # the longest row
    assert found.operations == {"f32.fma": 5.0}
    assert found.buffer("x").accesses == 5 and found.buffer("x").reuse == pytest.approx(5 / 3)


def test_no_row_is_empty() -> None:
    """Then the row pointers read inside of the loops are as many as those read for their bounds."""
    full = held(rowptr=[0, 3, 4, 5], col=[1, 4, 1, 4, 0, 7, 7])
    assert elements(kernel(SPMV), SIZES, full)["rowptr"] == (4, 0)


def test_rows_that_start_late_leave_the_beginning_alone() -> None:
    late = held(rowptr=[2, 2, 2, 4], col=[0, 0, 5, 6, 0, 0, 0])
    assert elements(kernel(SPMV), SIZES, late)["val"] == (2, 0)
    none = held(rowptr=[0, 0, 0, 0], col=[0] * 7)
    assert elements(kernel(SPMV), SIZES, none)["x"] == (0, 0)


def test_whole_rows_of_a_table() -> None:
    sizes = {"tokens": 4, "d": 10, "table_size": 6}
    found = elements(kernel(TABLE), sizes, held(ids=[5, 2, 5, 5]))
    assert found == {"table": (20, 0), "ids": (4, 0), "out": (0, 40)}


def test_two_reads_beside_each_other() -> None:
    """Their union is not known as a set: the larger one stands for it, and that is no exact count."""
    found = extract(kernel(GATHER), {"n": 4, "x_size": 9}, held(idx=[3, 3, 0, 8]))
    assert found.this_input
    x = found.buffer("x")
    assert x.read_elements == 3 and not x.exact


def test_without_the_input_it_is_an_estimate() -> None:
    found = extract(kernel(SPMV), SIZES)
    assert not found.exact and not found.this_input
    assert {x.name: x.trips for x in found.loops}["k"] == 32


def test_what_is_not_counted_is_no_more_than_there_is() -> None:
    """Too many rows to count one by one, and short ones: what rows usually have would be 16 times all."""
    found = extract(kernel(SPMV), {"rows": 50_000_000, "col_size": 100_000_000, "x_size": 1000})
    assert not found.exact
    read = {b.buffer: b.read_elements for b in found.buffers}
    assert read == {"rowptr": 50_000_001, "col": 100_000_000, "val": 100_000_000, "x": 1000, "y": 0}


def test_lengths_and_points() -> None:
    k = kernel(SPMV)
    (site,) = [s for leaf, s in leaves(k.body) if isinstance(leaf, Reduce)]
    points = points_of(site, SIZES, ROWS)
    assert points.total == 5
    assert points.columns["r"].tolist() == [0, 0, 0, 2, 2]
    assert points.columns["k"].tolist() == [0, 1, 2, 0, 1]
    assert longest(site, "k", SIZES, ROWS) == 3 and longest(site, "r", SIZES, ROWS) == 3
    with pytest.raises(UncountableError):
        points_of(site, SIZES, held(rowptr=[0, 3], col=[]))
    with pytest.raises(UncountableError):
        points_of(site, SIZES, {})


def test_bounds_and_gaps_say_that_they_hold_for_the_input() -> None:
    profile = load_profile("h200-sxm")
    mine = bound(kernel(SPMV), SIZES, profile, contents=ROWS)
    assert mine.this_input and mine.exact
    assert (mine.bytes_read, mine.bytes_written) == (4 * (4 + 5 + 5 + 3), 12)
    assert THIS_INPUT in mine.lines()
    assert THIS_INPUT in gap(mine, Breakdown(1e-3, "estimated")).remarks
    plain = bound(kernel("__global__ void k(float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
                         " if (i < n) y[i] = 1; }"), {"n": 7}, profile)  # fmt: skip
    assert THIS_INPUT not in plain.lines()
