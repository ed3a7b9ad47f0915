import json
from dataclasses import replace

import pytest

from evolve.features.extract import extract
from evolve.sol.bound import bound, bound_of
from evolve.sol.ceilings import COPY_FRACTION, READ_FRACTION, dram_ceiling
from evolve.target.profile import list_profiles, load_profile
from tests import kernels_ir as lifted

H200 = load_profile("h200-sxm")
SQUARE = {"rows": 8192, "cols": 8192}
MATRIX = 8192 * 8192 * 4


def test_softmax_is_bound_by_a_copy() -> None:
    b = bound(lifted.softmax(), SQUARE, H200)
    assert b.binding == "dram" and b.hard_binding == "dram"
    assert (b.bytes_read, b.bytes_written) == (MATRIX, MATRIX)
    assert b.time_s == pytest.approx(2 * MATRIX / 4.14e12)
    # Written lines may stay in L2 when the kernel ends.
    assert b.hard_time_s == pytest.approx((2 * MATRIX - 62914560) / 4.8e12)
    assert not b.l2_resident


def test_matmul_is_bound_by_fma() -> None:
    b = bound(lifted.matmul(), {"M": 4096, "N": 4096, "K": 4096}, H200)
    assert b.binding == "fp32"
    assert b.time_s == pytest.approx(4096**3 / (64.4e12 / 2))
    assert b.hard_time_s == pytest.approx(4096**3 / (66.9e12 / 2))


def test_mixed_precision_lets_the_matrix_units_work() -> None:
    sizes = {"M": 8192, "N": 8192, "K": 8192}
    full, mixed = (bound(lifted.matmul(), sizes, H200, c) for c in ("reassociate", "mixed"))
    assert mixed.binding == "tensor" and mixed.hard_time_s < full.hard_time_s / 8
    softmax = [bound(lifted.softmax(), SQUARE, H200, c).hard_time_s for c in ("reassociate", "mixed")]
    assert softmax[0] == softmax[1]


def test_fast_needs_fewer_operations_and_never_more_time() -> None:
    exact, fast = (bound(lifted.softmax(), SQUARE, H200, c) for c in ("exact", "fast"))
    assert fast.operations["fp32"] < exact.operations["fp32"]
    assert fast.time_s <= exact.time_s and fast.hard_time_s == exact.hard_time_s


def test_a_tiny_kernel_is_bound_by_its_launch() -> None:
    b = bound(lifted.vecadd(), {"n": 1000}, H200)
    assert b.binding == "launch" and b.time_s == pytest.approx(7.5e-6) and b.l2_resident


def test_the_ceiling_follows_the_mix() -> None:
    assert dram_ceiling(H200, 1, 0) == pytest.approx(4.31e12)
    assert dram_ceiling(H200, 1, 1) == pytest.approx(4.14e12)
    assert dram_ceiling(H200, 0, 1) == pytest.approx(4.62e12)
    assert dram_ceiling(H200, 1, 1) < dram_ceiling(H200, 3, 1) < dram_ceiling(H200, 1, 0)


def test_without_measurements_the_stated_fractions_hold() -> None:
    bare = replace(H200, measured=None)
    assert dram_ceiling(bare, 5, 0) == pytest.approx(READ_FRACTION * 4.8e12)
    assert dram_ceiling(bare, 5, 5) == pytest.approx(COPY_FRACTION * 4.8e12)
    assert bound(lifted.softmax(), SQUARE, bare).binding == "dram"


@pytest.mark.parametrize("stem", list_profiles())
@pytest.mark.parametrize("contract", ["exact", "reassociate", "fast", "mixed"])
def test_the_hard_bound_is_below_the_attainable_one_on_every_profile(stem: str, contract: str) -> None:
    profile = load_profile(stem)
    cases = [
        (lifted.vecadd(), {"n": 1 << 26}),
        (lifted.softmax(), SQUARE),
        (lifted.transpose(), SQUARE),
        (lifted.matmul(), {"M": 2048, "N": 2048, "K": 2048}),
        (lifted.stencil(), SQUARE),
        (lifted.saxpy_in_place(), {"n": 1 << 26, "alpha": 1.0}),
    ]
    for kernel, sizes in cases:
        b = bound(kernel, sizes, profile, contract)  # type: ignore[arg-type]
        assert 0 < b.hard_time_s <= b.time_s, kernel.name


def test_inexact_traffic_does_not_enter_the_hard_bound() -> None:
    features = extract(lifted.vecadd(), {"n": 1 << 26})
    unsure = replace(features, buffers=tuple(replace(b, exact=False) for b in features.buffers), exact=False)
    sure, loose = bound_of(features, H200), bound_of(unsure, H200)
    assert loose.time_s == sure.time_s and loose.hard_time_s < sure.hard_time_s
    assert not loose.exact


def test_a_bound_is_json() -> None:
    assert json.loads(json.dumps(bound(lifted.softmax(), SQUARE, H200).to_json()))["binding"] == "dram"
