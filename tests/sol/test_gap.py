import json
import random

import pytest

from evolve.dsl.registry import primitives
from evolve.sol.bound import bound
from evolve.sol.causes import CAUSES
from evolve.sol.gap import NAMED, Breakdown, gap
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


SYNCED = {"barrier_wait": 0.9, "barrier_share": 0.05, "instructions": 1e3, "block_clocks": 4e3}
"""Fifty barriers, 72 clocks apart."""


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
        ({"dispatch": 5 * T}, {}, "block_starts"),
        ({"launch": 5 * T}, {}, "launch"),
        ({"latency": 5 * T}, {"occupancy": 0.125}, "occupancy"),
        ({"latency": 5 * T}, {"waves": 0.1}, "small_grid"),
        ({"latency": 5 * T}, {"waves": 0.1, "busy_sms": 0.2}, "idle_sms"),
        ({"latency": 5 * T}, {"access_bytes": 4.0, "waits": 1.0}, "narrow_accesses"),
        ({"latency": 5 * T}, {"access_bytes": 4.0, "waits": 50.0}, "latency"),
        ({"latency": 5 * T}, {"access_bytes": 4.0, "waits": 1.0, "coalescing": 0.125}, "latency"),
        ({"latency": 5 * T}, SYNCED, "barriers"),
        ({"latency": 5 * T}, SYNCED | {"instructions": 100.0}, "latency"),  # far between
        ({"l2": 5 * T}, {"atomic_l2": 0.9}, "atomics"),
        ({"shared": 5 * T}, {"shuffle_shared": 0.9}, "shuffles"),
        ({"alu": 5 * T}, {"integer_share": 0.7}, "index_arithmetic"),
        ({"alu": 5 * T}, {"integer_share": 0.1, "compare_share": 0.5}, "instructions"),
        ({"issue": 5 * T}, {"integer_share": 0.7}, "index_arithmetic"),
        ({"sfu": 5 * T}, {"special_share": 0.05, "conversion_share": 0.1}, "index_arithmetic"),
        ({"sfu": 5 * T}, {"special_share": 0.2}, "special_functions"),
        ({"issue": 5 * T}, {"special_share": 0.1, "fp32_share": 0.7}, "special_functions"),
        ({"fp32": 5 * T}, {"fp32_share": 0.9}, "redundant_arithmetic"),
        ({"fp64": 5 * T}, {}, "double_precision"),
        ({"fp64": 0.5 * T, "sfu": 4.5 * T}, {"conversion_share": 0.5}, "double_precision"),
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
    assert report.timing == "measured" and "us measured, 25%" in report.lines()[0]


def test_a_grid_below_one_wave_is_small() -> None:
    report = gap(BOUND, Breakdown(9 * T, "estimated", {"dram": T}, {"latency": 9 * T}, {"waves": 0.2}))
    assert report.limiter == "small grid"


def test_a_time_alone_is_unexplained() -> None:
    report = gap(BOUND, Breakdown(3 * T, "measured"))
    assert [c.name for c in report.causes] == ["unexplained"] and report.limiter == "unknown"


def test_at_the_bound_nothing_is_lost() -> None:
    report = gap(BOUND, slow(dram=1.0))
    assert report.causes == () and report.binding is None and report.fraction == pytest.approx(1)


def test_whatever_is_known_the_causes_add_up_to_the_loss() -> None:
    rng = random.Random(5)
    units = ("dram", "l2", "l1", "shared", "issue", "fp32", "alu", "sfu", "fp64", "latency", "dispatch")
    fractions = (
        *("coalescing", "conflict_free", "occupancy", "busy_sms", "spill_share", "spill_l1", "spill_wait"),
        *(
            "barrier_wait",
            "barrier_share",
            "integer_share",
            "special_share",
            "conversion_share",
            "fp32_share",
        ),
        *("double_share", "shuffle_share", "shuffle_shared", "atomic_l2", "load_coalescing"),
    )
    for _ in range(300):
        shares = {u: rng.random() * T for u in rng.sample((*units, "idle", "tail", "launch"), 6)}
        time = sum(shares.values()) * rng.choice((1.0, 1.3))
        terms = {u: shares.get(u, 0.0) * rng.uniform(1.0, 3.0) for u in units}
        facts = {f: rng.choice((0.0, rng.random(), 1.0)) for f in rng.sample(fractions, 8)}
        facts |= {f: rng.random() * 10 ** rng.randrange(0, 10) for f in ("dram_read", "l2_bytes", "waves")}
        facts |= {"store_coalescing": 1.0, "access_bytes": rng.choice((0.0, 1.0, 4.0, 16.0, 32.0))}
        report = gap(BOUND, Breakdown(time, "estimated", terms, shares, facts))
        lost = max(0.0, time - BOUND.time_s)
        assert sum(c.seconds for c in report.causes) == pytest.approx(lost)
        assert all(c.seconds > 0 for c in report.causes)
        assert report.lines() and json.dumps(report.to_json())


def test_primitives_exist_in_the_language() -> None:
    known = set(primitives())
    for wanted, _ in CAUSES.values():
        assert set(wanted) <= known


def test_a_report_is_json_and_text() -> None:
    report = gap(BOUND, slow(dram=1.2, latency=1.0))
    assert json.loads(json.dumps(report.to_json()))["binding"] == "latency"
    assert report.lines() == [
        "273 us estimated, 45% of the speed of light (124 us, bound by DRAM)",
        "latency-bound: DRAM busy 55%, issue slots 0% of the time",
        "lost to",
        "  124 us  45%  latency",
        f"{'':15}too little is in flight; more independent loads in each thread [unroll, split, vectorize]",
        " 24.8 us   9%  memory system",
        "               the traffic that is needed anyway, slower than the best that was measured",
    ]


def test_small_causes_are_summed_up() -> None:
    shares = dict.fromkeys(("l1", "tail", "idle"), 0.015)
    report = gap(BOUND, slow(dram=1.0, latency=0.2, **shares))
    assert {c.name for c in report.named} == {"latency"}
    assert all(c.share < NAMED for c in report.causes if c not in report.named)
    assert report.lines()[-1].endswith("smaller causes")


def test_work_that_the_bound_needs_is_no_loss() -> None:
    """A unit that does what is needed, in less time than the bound, hides behind what is too much."""
    report = gap(BOUND, slow(dram=0.3, l2=0.6, idle=0.5))
    assert [c.name for c in report.causes] == ["idle_sms"]


def test_what_fits_l2_is_remarked() -> None:
    small = bound(lifted.vecadd(), {"n": 5_000_000}, H200)
    report = gap(small, Breakdown(3 * small.time_s, "measured"))
    assert any("fits L2" in line for line in report.lines())
    assert not gap(BOUND, slow(dram=2.0)).remarks


def test_a_ceiling_that_nobody_measured_is_said() -> None:
    b200 = load_profile("b200-sxm")
    there = bound(lifted.softmax(), {"rows": 8192, "cols": 8192}, b200)
    report = gap(there, Breakdown(2 * there.time_s, "estimated"))
    assert any("not measured on this GPU: DRAM" in line for line in report.lines())


def test_a_bound_in_words_gives_each_level_with_its_source() -> None:
    lines = BOUND.lines()
    assert lines[0] == ("124 us attainable, bound by DRAM; no run below 98.7 us (data sheet, DRAM)")
    assert lines[1].startswith("  124 us  DRAM: 268 MB read, 268 MB written; rate measured")
    assert [x[10:].split(":")[0].split(";")[0] for x in lines[1:]][1:3] == ["L2", "issue slots"]


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
