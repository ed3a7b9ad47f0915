"""Index arrays: drawn as the workload says, within what the kernel relies on, the same in every input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evolve.frontend.lift import Lifted, lift
from evolve.ir.errors import EvolveError
from evolve.ir.types import DType
from evolve.workload.infer import infer
from evolve.workload.inputs import generate
from evolve.workload.model import DISTRIBUTIONS, FAMILIES, ArraySpec, Distribution, Values, Workload
from evolve.workload.resolve import resolve
from evolve.workload.sizes import parse_size
from evolve.workload.structure import check, draw, structure, uneven
from evolve.workload.toml import from_toml, to_toml

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
SIZES = {"rows": 57, "col_size": 900, "x_size": 41}


def spmv() -> Lifted:
    return lift("spmv.cu", None, SPMV)


def values(low: str, high: str, **more: object) -> Values:
    return Values(parse_size(low), parse_size(high), **more)  # type: ignore[arg-type]


def array(v: Values, dtype: DType = DType.I32, *extents: str) -> ArraySpec:
    return ArraySpec("a", "in", dtype, tuple(parse_size(e) for e in extents or ("n",)), v)


@pytest.mark.parametrize(
    ("distribution", "parameter", "said"), [("uniform", None, 0), ("banded", None, 0), ("power-law", 1.0, 1)]
)
def test_rows_of_very_different_length_are_said_to_be(
    distribution: str, parameter: float | None, said: int
) -> None:
    sizes = {"n": 2001}
    pointers = array(
        values("0", "100001", nondecreasing=True, distribution=distribution, parameter=parameter)
    )
    told = uneven(replace(infer(spmv()), arrays=(pointers,), timed=(sizes,)))
    assert len(told) == said
    longest = int(np.diff(draw(pointers, pointers.values, sizes)).max())  # type: ignore[arg-type]
    assert all(f"the longest has {longest}, the mean is 50" in one for one in told)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_the_same_structure(family: str) -> None:
    w = infer(spmv())
    made, other = generate(w, SIZES, family, 1), generate(w, SIZES, "normal", 2)
    held = structure(w, SIZES)
    for name in ("rowptr", "col"):
        assert np.array_equal(made[name], held[name]) and np.array_equal(made[name], other[name])
        check(w.array(name), made[name], SIZES)
    if family not in ("normal", "ones"):
        assert not np.array_equal(made["val"], other["val"])
    assert made["rowptr"].dtype == np.int32
    assert (made["rowptr"][0], made["rowptr"][-1]) == (0, 900)
    assert (np.diff(made["rowptr"]) >= 0).all()
    assert made["col"].min() >= 0 and made["col"].max() < 41


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("n", [1, 2, 7, 300])
@pytest.mark.parametrize("span", [1, 2, 5, 1000])
def test_subscripts_stay_in_range(distribution: Distribution, n: int, span: int) -> None:
    a = array(values("0", "m", distribution=distribution))
    assert a.values is not None
    made = draw(a, a.values, {"n": n, "m": span})
    assert made.shape == (n,) and made.min() >= 0 and made.max() < span


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("rows", [1, 2, 7, 300])
@pytest.mark.parametrize("total", [0, 1, 5, 1000])
def test_row_pointers_go_from_end_to_end(distribution: Distribution, rows: int, total: int) -> None:
    a = array(values("0", "t + 1", nondecreasing=True, distribution=distribution), DType.I64, "rows + 1")
    sizes = {"rows": rows, "t": total}
    assert a.values is not None
    made = draw(a, a.values, sizes)
    check(a, made, sizes)
    assert made.dtype == np.int64 and made[0] == 0 and made[-1] == total and (np.diff(made) >= 0).all()


def test_distributions_are_what_they_are_called() -> None:
    n, span = 20_000, 10_000

    def drawn(**more: object) -> np.ndarray:
        a = array(values("0", "m", **more))
        assert a.values is not None
        return draw(a, a.values, {"n": n, "m": span}).astype(np.int64)

    uniform = drawn()
    assert abs(np.median(uniform) - span / 2) < 200
    near = drawn(distribution="banded", parameter=3.0)
    assert np.abs(near - (np.arange(n) + 0.5) * span / n).max() <= 4
    skewed = drawn(distribution="power-law", parameter=3.0)
    assert np.median(skewed) == pytest.approx(span / 8, rel=0.1)
    assert not np.array_equal(uniform, drawn(seed=1))

    def lengths(**more: object) -> np.ndarray:
        a = array(values("0", "m + 1", nondecreasing=True, **more))
        assert a.values is not None
        return np.diff(draw(a, a.values, {"n": 1001, "m": 32_000}))

    assert set(lengths(distribution="banded")) == {32}
    assert 100 < lengths().max() < 1000
    long = np.sort(lengths(distribution="power-law"))[::-1]
    assert long[0] > 3000 and long[0] == pytest.approx(2 * long[1], rel=0.02)


def test_what_breaks_the_clause_is_noticed() -> None:
    a = array(values("0", "m + 1", nondecreasing=True))
    sizes = {"n": 4, "m": 5}
    check(a, np.array([0, 2, 2, 5]), sizes)
    for wrong in ([0, 3, 2, 5], [1, 2, 2, 5], [0, 2, 2, 4], [0, 2, 6, 5], [-1, 2, 2, 5]):
        with pytest.raises(EvolveError) as caught:
            check(a, np.array(wrong), sizes)
        assert caught.value.code == "bad-values"


def test_impossible_clauses_are_refused() -> None:
    for v, extents in (
        (values("0", "0"), ("n",)),
        (values("0", str(2**31 + 1)), ("n",)),
        (values("0", "m + 1", nondecreasing=True), ("1",)),
    ):
        a = array(v, DType.I32, *extents)
        with pytest.raises(EvolveError) as caught:
            draw(a, v, {"n": 3, "m": 4})
        assert caught.value.code == "bad-values"


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("parameter", [1e-300, 1e18, 1e308])
@pytest.mark.parametrize("nondecreasing", [False, True])
def test_no_parameter_is_too_much(distribution: Distribution, parameter: float, nondecreasing: bool) -> None:
    clause = values("0", "100", distribution=distribution, parameter=parameter, nondecreasing=nondecreasing)
    made = draw(array(clause, DType.I32, "50"), clause, {})
    assert made.min() >= 0 and made.max() <= 99
    if distribution == "banded" and not nondecreasing and parameter > 1:
        assert {0, 99} < set(made.tolist()), "as far as the range goes, not at its ends alone"


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("nondecreasing", [False, True])
@pytest.mark.parametrize("dtype", [DType.I64, DType.U64])
def test_values_beyond_binary64_are_refused(
    dtype: DType, distribution: Distribution, nondecreasing: bool
) -> None:
    far = values("0", str(dtype.limits[1]), distribution=distribution, nondecreasing=nondecreasing)
    with pytest.raises(EvolveError) as caught:
        draw(array(far, dtype, "3"), far, {})
    assert caught.value.code == "bad-values"
    near = replace(far, high=parse_size(str(2**52 + 1)))
    made = draw(array(near, dtype, "3"), near, {})
    assert int(made.min()) >= 0 and int(made.max()) <= 2**52


def resolved(text: str) -> Workload:
    return resolve(spmv(), override=text, override_file="w.toml")


def test_a_file_says_how_values_are_drawn() -> None:
    w = resolved(
        '[arrays.rowptr.values]\ndistribution = "power-law"\nparameter = 1.5\n'
        '[arrays.col.values]\nrange = [0, "x_size / 2 + 1"]\nseed = 3\n'
    )
    found = w.array("rowptr").values
    assert found is not None
    assert (found.distribution, found.parameter, found.nondecreasing) == ("power-law", 1.5, True)
    col = w.array("col").values
    assert col is not None and col.limits(SIZES) == (0, 20) and col.seed == 3
    assert from_toml(to_toml(w), infer(spmv())) == w
    assert w.as_dict()["arrays"]["col"]["values"]["range"] == ["0", "x_size // 2 + 1"]


WRONG = {
    "beyond the array": ('[arrays.col.values]\nrange = [0, "x_size + 1"]\n', "workload-mismatch"),
    "below it": ('[arrays.col.values]\nrange = [-1, "x_size"]\n', "workload-mismatch"),
    "rows that step down": ("[arrays.rowptr.values]\nnondecreasing = false\n", "workload-mismatch"),
    "rows that end early": ('[arrays.rowptr.values]\nrange = [0, "col_size"]\n', "workload-mismatch"),
    "an unknown size": ('[arrays.col.values]\nrange = [0, "nnz"]\n', "unknown-scalar"),
    "of a float array": ('[arrays.val.values]\nrange = [0, "rows"]\n', "workload-mismatch"),
    "no range": ("[arrays.val.values]\nseed = 1\n", "bad-workload"),
    "no such distribution": ('[arrays.col.values]\ndistribution = "normal"\n', "bad-workload"),
    "a size left out": ("[[timed]]\nrows = 100\n", "missing-scalar"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_clause_that_does_not_fit_is_refused(name: str) -> None:
    text, code = WRONG[name]
    with pytest.raises(EvolveError) as caught:
        resolved(text)
    assert caught.value.code == code


def test_lengths_that_no_parameter_has_get_values() -> None:
    w = infer(spmv())
    (timed,) = w.timed
    assert timed["col_size"] == 32 * timed["rows"] and timed["x_size"] == timed["rows"]
    assert all({"rows", "col_size", "x_size"} == set(s) for s in w.check)
    assert len(w.check) >= 4


PADDED = """__global__ void k(const int *count, const float *v, float *y, int rows, int width) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    float s = 0.0f;
    for (int k = 0; k < count[r]; k++) s += v[r * width + k];
    y[r] = s;
  } }"""
BETWEEN = """__global__ void k(const int *first, const int *last, const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float s = 0.0f;
    for (int k = first[i]; k < last[i]; k++) s += x[k];
    y[i] = s;
  } }"""


@pytest.mark.parametrize("text", [PADDED, BETWEEN])
def test_loops_that_data_end_are_short_where_nobody_says(text: str) -> None:
    """As many iterations as there are rows would be hours of work for a GPU."""
    w = infer(lift("k.cu", None, text))
    (timed,) = w.timed
    made = structure(w, timed)
    trips = made["count"] if "count" in made else np.maximum(0, made["last"] - made["first"])
    assert trips.size >= 512 and 8 < trips.mean() < 64
    assert trips.sum() < 2**26, "few enough to be counted one by one"


def test_more_values_than_remembered_are_drawn_alike() -> None:
    w = infer(spmv())
    first = {n: a.copy() for n, a in structure(w, SIZES).items()}
    for rows in range(1, 12):
        structure(w, {**SIZES, "rows": rows})
    again = structure(w, SIZES)
    assert all(np.array_equal(first[n], again[n]) for n in first)
    with pytest.raises(ValueError, match="read-only"):
        again["col"][0] = 1
    other = replace(w.array("col"), name="other")
    assert other.values is not None
    assert not np.array_equal(draw(other, other.values, SIZES), again["col"])
