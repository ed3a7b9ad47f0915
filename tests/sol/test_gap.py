import json

import pytest

from evolve.dsl.registry import primitives
from evolve.sol.bound import bound
from evolve.sol.gap import _ADVICE, Breakdown, gap
from evolve.target.profile import load_profile
from tests import kernels_ir as lifted

H200 = load_profile("h200-sxm")
BOUND = bound(lifted.softmax(), {"rows": 8192, "cols": 8192}, H200)
T = BOUND.time_s


def slow(**shares: float) -> Breakdown:
    """A variant whose units have these shares, in multiples of the attainable time."""
    time = sum(shares.values()) * T
    scaled = {n: s * T for n, s in shares.items()}
    return Breakdown(time, "estimated", scaled, scaled, {"dram_read": 0, "dram_written": 0})


def names(breakdown: Breakdown) -> list[str]:
    return [c.name for c in gap(BOUND, breakdown).causes]


def test_causes_divide_exactly_what_is_lost() -> None:
    report = gap(BOUND, slow(dram=1.5, latency=2.0, issue=0.5, tail=0.25, launch=0.01))
    assert sum(c.seconds for c in report.causes) == pytest.approx(report.time_s - T)
    assert sum(c.share for c in report.causes) == pytest.approx(1 - report.fraction)
    assert report.binding is not None and report.binding.name == "latency"
    assert [c.seconds for c in report.causes] == sorted((c.seconds for c in report.causes), reverse=True)


def test_three_passes_through_dram_are_redundant() -> None:
    moved = {"dram_read": 3 * BOUND.bytes_read, "dram_written": BOUND.bytes_written}
    report = gap(BOUND, Breakdown(2 * T, "estimated", {"dram": 2 * T}, {"dram": 2 * T}, moved))
    assert report.binding is not None and report.binding.name == "redundant_dram"
    assert "stage" in report.binding.primitives


@pytest.mark.parametrize(
    ("shares", "facts", "cause"),
    [
        ({"l1": 5 * T}, {"coalescing": 0.125, "global_bytes": 2.0 * BOUND.bytes_read}, "uncoalesced"),
        ({"l1": 5 * T}, {"coalescing": 1.0, "global_bytes": 9.0 * BOUND.bytes_read}, "global_accesses"),
        ({"l2": 5 * T}, {"coalescing": 1.0, "l2_bytes": 9.0 * BOUND.bytes_read}, "redundant_l2"),
        ({"shared": 5 * T}, {"conflict_free": 0.1}, "bank_conflicts"),
        ({"shared": 5 * T}, {"conflict_free": 1.0}, "shared_traffic"),
        ({"issue": 5 * T}, {"spill_share": 0.6}, "spills"),
        ({"latency": 5 * T}, {"spill_wait": 0.7}, "spills"),
        ({"l1": 5 * T}, {"spill_l1": 0.7, "global_bytes": 9.0 * BOUND.bytes_read}, "spills"),
        ({"issue": 5 * T}, {}, "instructions"),
        ({"sfu": 5 * T}, {}, "special_functions"),
        ({"latency": 5 * T}, {}, "latency"),
        ({"idle": 5 * T}, {}, "idle_sms"),
        ({"tail": 5 * T}, {}, "tail"),
        ({"launch": 5 * T}, {}, "launch"),
    ],
)
def test_each_unit_leads_to_its_cause(shares: dict[str, float], facts: dict[str, float], cause: str) -> None:
    report = gap(BOUND, Breakdown(5 * T, "estimated", shares, shares, facts))
    assert report.binding is not None and report.binding.name == cause
    assert report.binding.share > 0.4


@pytest.mark.parametrize(
    ("memory", "compute", "limiter", "near"),
    [
        (0.95, 0.2, "memory", True),
        (0.2, 0.9, "compute", True),
        (0.7, 0.65, "balanced", False),
        (0.7, 0.5, "memory", False),
        (0.5, 0.4, "latency", False),
    ],
)
def test_the_headline_uses_the_known_thresholds(
    memory: float, compute: float, limiter: str, near: bool
) -> None:
    time = 4 * T
    terms = {"dram": memory * time, "issue": compute * time}
    report = gap(BOUND, Breakdown(time, "measured", terms, {"latency": time}, {"waves": 8.0}))
    assert (report.limiter, report.near_limit) == (limiter, near)
    assert report.timing == "measured" and report.lines()[0].startswith("measured")


def test_a_grid_below_one_wave_is_small() -> None:
    report = gap(BOUND, Breakdown(9 * T, "estimated", {"dram": T}, {"latency": 9 * T}, {"waves": 0.2}))
    assert report.limiter == "small grid"


def test_a_time_alone_is_unexplained() -> None:
    report = gap(BOUND, Breakdown(3 * T, "measured"))
    assert [c.name for c in report.causes] == ["unexplained"] and report.limiter == "unknown"


def test_at_the_bound_nothing_is_lost() -> None:
    report = gap(BOUND, slow(dram=1.0))
    assert report.causes == () and report.binding is None and report.fraction == pytest.approx(1)


def test_primitives_exist_in_the_language() -> None:
    known = set(primitives())
    for wanted, _ in _ADVICE.values():
        assert set(wanted) <= known


def test_a_report_is_json_and_text() -> None:
    report = gap(BOUND, slow(dram=1.2, latency=1.0))
    assert json.loads(json.dumps(report.to_json()))["binding"] == "latency"
    assert any("latency" in line for line in report.lines()[1:])


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"trips_scaled": 2.0, "arithmetic_share": 1.0}, "2 times"),
        ({"trips_scaled": 1.0, "arithmetic_share": 0.5}, "only 50%"),
    ],
)
def test_an_estimate_that_misses_arithmetic_says_so(facts: dict[str, float], says: str) -> None:
    report = gap(BOUND, Breakdown(2 * T, "estimated", {"dram": 2 * T}, {"dram": 2 * T}, facts))
    assert says in report.lines()[-1] and len(report.doubts) == 1
    assert not gap(BOUND, slow(dram=2.0)).doubts
