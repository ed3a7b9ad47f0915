import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evolve.features.extract import extract
from evolve.frontend.lift import lift
from evolve.sol.bound import bound, bound_of
from evolve.sol.ceilings import BEST_READ, COPY_FRACTION, READ_FRACTION, best_dram, dram_ceiling
from evolve.target.profile import list_profiles, load_profile
from tests import kernels_ir as lifted
from tests.devices.heldout_kernels import HELD
from tests.devices.measured_kernels import CASES

H200 = load_profile("h200-sxm")
ROOT = Path(__file__).parents[2]
MEASURED = [
    record
    for name in ("programs-h200-measured", "programs-h200-dirty-l2")
    for record in json.loads((ROOT / f"benchmarks/results/{name}.json").read_text())["results"]
]
TIMES: dict[str, float] = json.loads((ROOT / "tests/devices/h200_times.json").read_text())["seconds"]
SQUARE = {"rows": 8192, "cols": 8192}
MATRIX = 8192 * 8192 * 4


def test_softmax_is_bound_by_a_copy() -> None:
    b = bound(lifted.softmax(), SQUARE, H200)
    assert b.binding == "dram" and b.hard_binding == "dram"
    assert (b.bytes_read, b.bytes_written) == (MATRIX, MATRIX)
    assert b.time_s == pytest.approx(2 * MATRIX / 4.333e12)  # the best copy that was measured
    assert b.sources["dram"].startswith("copies: measured (evolve calibrate on one H200")
    # Written lines may stay in L2 when the kernel ends.
    assert b.hard_time_s == pytest.approx((2 * MATRIX - 62914560) / 4.8e12)
    assert not b.l2_resident


def test_matmul_is_bound_by_fma() -> None:
    b = bound(lifted.matmul(), {"M": 4096, "N": 4096, "K": 4096}, H200)
    assert b.binding == "fp32"
    assert b.terms["fp32"] == pytest.approx(4096**3 / (66.12e12 / 2))
    # Loads and stores take issue slots beside the FMAs, next to nothing here.
    assert b.terms["fp32"] < b.time_s == b.terms["issue"] < 1.001 * b.terms["fp32"]
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
    assert b.binding == "launch" and b.time_s == pytest.approx(2.91e-6) and b.l2_resident


def test_what_fits_l2_has_a_bound_for_a_warm_run() -> None:
    b = bound(lifted.vecadd(), {"n": 5_000_000}, H200)
    assert b.l2_resident and b.binding == "dram" and b.warm_time_s < b.time_s
    assert b.warm_time_s == pytest.approx(max(b.terms["l2"], b.terms["launch"]))
    far = bound(lifted.vecadd(), {"n": 1 << 27}, H200)
    assert not far.l2_resident and far.warm_time_s == far.time_s
    assert 0 < far.terms["l2"] < far.terms["dram"]


def test_a_product_moves_more_between_the_levels_than_its_arrays() -> None:
    n = 4096
    b = bound(lifted.matmul(), {"M": n, "N": n, "K": n}, H200)
    held = (65536 * 4 + 262144) / 4
    moved = 4 * (2 * n**3 / held**0.5 - 2 * held * 132)
    assert moved > 5 * b.bytes_read
    assert b.terms["l2"] == pytest.approx(moved / 9.349e12)  # measured
    assert 0 < b.terms["shared"] < b.terms["l2"] < b.terms["fp32"]
    assert "shared" not in bound(lifted.transpose(), SQUARE, H200).terms


def test_minima_and_maxima_have_a_pipe_of_their_own() -> None:
    """On an A100 an SM starts 64 fp32 operations and 64 comparisons a clock, side by side."""
    a100 = load_profile("a100-sxm-80gb")
    features = replace(
        extract(lifted.vecadd(), {"n": 1000}), operations={"f32.minmax": 1e12, "f32.add": 1e12}
    )
    b = bound_of(features, a100)
    side_by_side = 1e12 / (a100.peaks.fp32_tflops * 1e12 / 2)
    assert b.hard_time_s == pytest.approx(side_by_side, rel=0.01)


def test_two_results_an_instruction_leave_issue_slots_free() -> None:
    """From compute capability 10.0 on: what is issued beside FMAs costs them nothing."""
    features = replace(extract(lifted.vecadd(), {"n": 1000}), operations={"f32.fma": 1e12, "i32.int": 2e11})
    hopper, blackwell = (bound_of(features, load_profile(n)) for n in ("h200-sxm", "b200-sxm"))
    assert hopper.time_s == hopper.terms["issue"] > 1.15 * hopper.terms["fp32"]
    assert blackwell.time_s == blackwell.terms["fp32"] > blackwell.terms["issue"]


def test_double_precision_may_use_the_matrix_units_in_a_contraction() -> None:
    features = replace(extract(lifted.matmul(), {"M": 512, "N": 512, "K": 512}), operations={"f64.fma": 1e12})
    plain, exact = (bound_of(features, H200, c) for c in ("reassociate", "exact"))
    assert plain.hard_terms["fp64"] == pytest.approx(1e12 / (66.9e12 / 2))
    assert exact.hard_terms["fp64"] == pytest.approx(1e12 / (33.5e12 / 2))


@pytest.mark.parametrize("case", MEASURED, ids=lambda c: c["kernel"])
def test_no_measured_program_beats_its_bound(case: dict[str, Any]) -> None:
    """By more than 2 %, in any sample; and never the hard bound."""
    kernel = lift(ROOT / f"kernels/{case['kernel']}.cu").kernel
    b = bound(kernel, case["sizes"], H200, case["numerics"])
    assert b.bytes_read + b.bytes_written == case["bytes"]
    fastest = min(case["samples_us"]) * 1e-6
    assert fastest > 0.98 * b.time_s
    assert fastest > b.hard_time_s


@pytest.mark.parametrize("name", sorted({*HELD, *CASES} & set(TIMES)))
def test_no_timed_kernel_moves_its_bytes_faster_than_the_ceiling(name: str) -> None:
    read, written = (CASES[name] if name in CASES else HELD[name])().footprint
    ideal = (read + written) / best_dram(H200, read, written).rate
    assert TIMES[name] > 0.98 * ideal


def test_the_ceiling_follows_the_mix() -> None:
    assert dram_ceiling(H200, 1, 0) == pytest.approx(4.638e12)
    assert dram_ceiling(H200, 1, 1) == pytest.approx(4.3155e12)
    assert dram_ceiling(H200, 0, 1) == pytest.approx(4.7185e12)
    assert dram_ceiling(H200, 2, 1) == pytest.approx(4.3985e12)
    assert dram_ceiling(H200, 1, 1) < dram_ceiling(H200, 3, 2) < dram_ceiling(H200, 2, 1)
    assert best_dram(H200, 1, 1).rate == pytest.approx(4.333e12)


def test_without_measurements_the_stated_fractions_hold() -> None:
    bare = replace(H200, measured=None)
    assert dram_ceiling(bare, 5, 0) == pytest.approx(READ_FRACTION * 4.8e12)
    assert dram_ceiling(bare, 5, 5) == pytest.approx(COPY_FRACTION * 4.8e12)
    assert best_dram(bare, 5, 0).rate == pytest.approx(BEST_READ * 4.8e12)
    assert "assumed" in best_dram(bare, 5, 0).source
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


def test_the_text_says_measured_of_every_measured_rate() -> None:
    b = bound(lifted.softmax(), SQUARE, H200)
    measured = sum("measured (" in source for source in b.sources.values())
    assert measured > 2 and sum(line.endswith("rate measured") for line in b.lines()) == measured
