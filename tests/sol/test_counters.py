"""What the GPU counted takes the model's place, and the headline is Nsight Compute's."""

from __future__ import annotations

import pytest

from evolve.sol.bound import bound
from evolve.sol.counters import Counters, counted
from evolve.sol.gap import Breakdown, gap
from evolve.target.profile import load_profile
from tests import kernels_ir as lifted

BOUND = bound(lifted.softmax(), {"rows": 8192, "cols": 8192}, load_profile("h200-sxm"))
T = BOUND.time_s
MODEL = Breakdown(
    2 * T,
    "measured",
    {"dram": T, "issue": 1.9 * T},
    {"dram": T, "latency": T},
    {"dram_read": 1.0, "occupancy": 0.9, "waves": 9.0, "coalescing": 0.5, "limited_by_blocks": 1.0},
)


@pytest.mark.parametrize(
    ("compute", "memory", "waves", "limiter", "near"),
    [
        (0.55, 0.59, 4.0, "latency", False),
        (0.55, 0.59, 0.5, "small grid", False),
        (0.5, 0.7, 4.0, "memory", False),
        (0.79, 0.6, 4.0, "compute", False),
        (0.65, 0.7, 4.0, "balanced", False),
        (0.3, 0.9, 4.0, "memory", True),
        (0.85, 0.2, 4.0, "compute", True),
    ],
)
def test_the_headline_is_that_of_the_counters(
    compute: float, memory: float, waves: float, limiter: str, near: bool
) -> None:
    report = gap(BOUND, counted(MODEL, Counters(compute, memory, waves=waves)))
    assert (report.limiter, report.near_limit) == (limiter, near)
    assert (report.memory, report.compute) == (memory, compute)
    assert f"memory busy {memory:.0%}, compute {compute:.0%}" in report.lines()[1]


def test_without_counters_it_is_the_model_s() -> None:
    assert gap(BOUND, MODEL).limiter == "compute" and gap(BOUND, MODEL).compute_unit == "issue"


def test_counters_alone_give_a_headline() -> None:
    bare = Breakdown(2 * T, "measured")
    assert gap(BOUND, bare).limiter == "unknown"
    assert gap(BOUND, counted(bare, Counters(0.2, 0.9))).limiter == "memory"


def test_counted_facts_replace_the_model_s_and_others_stay() -> None:
    moved = 3.0 * BOUND.bytes_read
    found = counted(
        MODEL,
        Counters(0.2, 0.9, occupancy=0.5, dram_read=moved, dram_written=1.0, limited_by=("registers",)),
    )
    assert found.facts["dram_read"] == moved and found.facts["occupancy"] == 0.5
    assert found.facts["waves"] == 9.0 and found.facts["coalescing"] == 0.5
    assert found.facts["limited_by_registers"] == 1.0 and found.facts["limited_by_blocks"] == 0.0
    names = {c.name for c in gap(BOUND, found).causes}
    # 1 byte by the model, three times what is needed by the counters.
    assert "redundant_dram" in names and "redundant_dram" not in {c.name for c in gap(BOUND, MODEL).causes}
