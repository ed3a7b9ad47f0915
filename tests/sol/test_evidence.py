from dataclasses import dataclass

import pytest

from evolve.sol.evidence import evidence
from evolve.target.limits import occupancy
from evolve.target.profile import load_profile


@dataclass(frozen=True)
class Seen:
    lanes: float
    bytes: float
    sectors: float
    ideal_sectors: float


def test_facts_are_shares_of_what_was_counted() -> None:
    held = occupancy(load_profile("h200-sxm"), 128, 0, 256)
    loads, stores = Seen(64.0, 256.0, 64.0, 8.0), Seen(16.0, 256.0, 8.0, 8.0)
    mix = {"int": 30.0, "imad": 10.0, "fp32_fma": 40.0, "shfl": 10.0, "bar": 5.0, "ldg_32": 5.0}
    facts = evidence(
        mix,
        held,
        loads,
        stores,
        shuffles=10.0,
        shared_wavefronts=30.0,
        atomic_sectors=4.0,
        l2_sectors=16.0,
        waits=3.0,
    )
    assert facts["integer_share"] == pytest.approx(0.4) and facts["barrier_share"] == pytest.approx(0.05)
    assert (facts["load_coalescing"], facts["store_coalescing"]) == (0.125, 1.0)
    assert facts["access_bytes"] == pytest.approx(6.4)
    assert facts["shuffle_shared"] == 0.25 and facts["atomic_l2"] == 0.25 and facts["waits"] == 3.0
    assert facts["limited_by_registers"] == 1.0 and "limited_by_shared" not in facts


def test_a_launch_that_does_nothing_has_facts_too() -> None:
    held = occupancy(load_profile("h200-sxm"), 16, 0, 32)
    none = Seen(0.0, 0.0, 0.0, 0.0)
    facts = evidence(
        {}, held, none, none, shuffles=0, shared_wavefronts=0, atomic_sectors=0, l2_sectors=0, waits=0
    )
    assert facts["load_coalescing"] == 1.0 and facts["access_bytes"] == 0.0
    assert facts["integer_share"] == 0.0 and facts["shuffle_shared"] == 0.0
