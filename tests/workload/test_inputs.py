"""Input families: seeded, distinct, of the right kind."""

from __future__ import annotations

import numpy as np
import pytest

from evolve.ir.errors import EvolveError
from evolve.ir.expr import var
from evolve.ir.types import DType
from evolve.workload.infer import infer
from evolve.workload.inputs import generate, values
from evolve.workload.model import FAMILIES, ArraySpec
from tests import kernels_ir
from tests.workload.helpers import handmade

SAXPY = infer(handmade(kernels_ir.saxpy_in_place(), "n"))
SIZES = {"n": 1000, "alpha": 1.25}


@pytest.mark.parametrize("family", FAMILIES)
def test_seeded_and_finite(family: str) -> None:
    a, b = generate(SAXPY, SIZES, family, 3), generate(SAXPY, SIZES, family, 3)
    assert set(a) == {"x", "y"}
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])
        assert a[name].dtype == np.float32
        assert a[name].shape == (1000,)
        assert np.isfinite(a[name]).all()
    if family not in ("ones", "ramp"):
        assert not np.array_equal(a["x"], a["y"])
        assert not np.array_equal(a["x"], generate(SAXPY, SIZES, family, 4)["x"])


def test_known_values() -> None:
    # Recorded: the same seed gives the same inputs in every version and on every machine.
    x = generate(SAXPY, SIZES, "normal", 0)["x"]
    again = np.random.Generator(np.random.Philox(key=_key("0/normal/x"))).standard_normal(1000, np.float32)
    np.testing.assert_array_equal(x, again)


def _key(text: str) -> int:
    import hashlib

    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")


def test_families_are_what_they_say() -> None:
    spec = ArraySpec("x", "in", DType.F32, (var("n"),))
    at = {"n": 4096}
    assert set(np.unique(values(spec, at, "ones", 0))) == {1.0}
    assert np.abs(values(spec, at, "uniform", 0)).max() <= 1
    assert np.abs(values(spec, at, "wide", 0)).max() > 100
    assert abs(float(values(spec, at, "alternating", 0).sum())) < 10
    shifted = values(spec, at, "shifted", 0)
    assert abs(float(shifted.mean()) - 1000) < 1 and 0.9 < float(shifted.std()) < 1.1
    spikes = values(spec, at, "spikes", 0)
    assert 30 < np.count_nonzero(spikes) < 100 and np.abs(spikes).max() > 100
    ramp = values(spec, at, "ramp", 0)
    assert ramp[10] > 0 > ramp[70]


@pytest.mark.parametrize(
    ("dtype", "low"), [(DType.I32, -8), (DType.U32, 0), (DType.I64, -8), (DType.U64, 0), (DType.BOOL, 0)]
)
def test_integers(dtype: DType, low: int) -> None:
    got = values(ArraySpec("k", "in", dtype, (var("n"),)), {"n": 500}, "normal", 1)
    assert got.min() == low
    assert len(np.unique(got)) > 1


def test_unknown_family() -> None:
    with pytest.raises(EvolveError, match="strange"):
        generate(SAXPY, SIZES, "strange", 0)
