"""Which timings are believed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evolve.devices.cuda.messages import Batch, Clocks, Measured, Mismatch
from evolve.scoring.audit import clock_moved, clock_shift, doubt, record, summary, times_us, unsteady
from evolve.sol.bound import Bound

BOUND = Bound(
    time_s=110e-6,
    hard_time_s=100e-6,
    binding="dram",
    hard_binding="dram",
    bytes_read=1,
    bytes_written=1,
    operations={},
    l2_resident=False,
    terms={"dram": 110e-6},
    hard_terms={"dram": 100e-6, "fp32": 99e-6},
    contract="exact",
    exact=True,
)
GOOD = Measured(
    samples_us=((120.0,) * 10,),
    event_us=(300.0,) * 10,
    wall_us=(330.0,) * 10,
    batches=(None,),
    checked=20,
)


def clocks(mhz: int) -> Clocks:
    return Clocks(mhz, 3000, 40, 300.0, ())


def test_an_honest_timing_is_believed() -> None:
    assert doubt(GOOD, BOUND, "n=5") is None


@pytest.mark.parametrize(("us", "believed"), [(95.1, True), (94.9, False)])
def test_the_dram_floor_is_95_percent(us: float, believed: bool) -> None:
    found = doubt(replace(GOOD, samples_us=((us,) * 10,)), BOUND, "n=5")
    assert (found is None) == believed
    assert believed or (found is not None and found.status == "quarantined" and "dram" in found.message)


@pytest.mark.parametrize(("us", "believed"), [(92.1, True), (91.9, False)])
def test_the_arithmetic_floor_is_92_percent(us: float, believed: bool) -> None:
    bound = replace(BOUND, hard_terms={"dram": 10e-6, "fp32": 100e-6}, hard_binding="fp32")
    assert (doubt(replace(GOOD, samples_us=((us,) * 10,)), bound, "n=5") is None) == believed


def test_a_batch_is_held_to_the_floor_too() -> None:
    batch = Batch(20, (50.0,) * 5, (2.0,) * 5)
    found = doubt(replace(GOOD, batches=(batch,)), replace(BOUND, l2_resident=True), "n=5")
    assert found is not None and "in a batch" in found.message and "fit L2" in found.message
    assert times_us(replace(GOOD, batches=(batch,))) == (120.0, 50.0)


def test_time_that_events_do_not_see() -> None:
    """Work elsewhere than between the events: the host waits for it."""
    found = doubt(replace(GOOD, wall_us=(900.0,) * 10), BOUND, "n=5")
    assert found is not None and found.status == "quarantined" and "host's clock" in found.message
    often_late = (*(330.0,) * 4, *(100_000.0,) * 6)
    assert doubt(replace(GOOD, wall_us=often_late), BOUND, "n=5") is None


def test_wrong_results_while_timed() -> None:
    m = Mismatch(0, 7, "timed:0:1", "y", 12)
    found = doubt(replace(GOOD, mismatches=(m,)), BOUND, "n=5")
    assert found is not None and found.status == "incorrect" and "12 elements" in found.message
    unknown = doubt(replace(GOOD, mismatches=(replace(m, wrong=None),)), BOUND, "n=5")
    assert unknown is not None and unknown.status == "quarantined"
    assert doubt(replace(GOOD, mismatches=(replace(m, sequence=1),)), BOUND, "n=5") is None


@pytest.mark.parametrize("what", ["changed", "broken_guards"])
def test_damage_while_timed(what: str) -> None:
    found = doubt(replace(GOOD, **{what: ("x",)}), BOUND, "n=5")
    assert found is not None and found.status == "incorrect"


def test_a_clock_that_moved() -> None:
    assert not clock_moved(GOOD)
    assert not clock_moved(replace(GOOD, clocks=(clocks(1980), clocks(1950))))
    assert clock_moved(replace(GOOD, clocks=(clocks(1980), clocks(1900))))


def test_records_are_json() -> None:
    m = Mismatch(0, 7, "timed:0:1", "y", 12)
    done = replace(GOOD, mismatches=(m,), clocks=(clocks(1980), None), batches=(Batch(20, (5.0,), (2.0,)),))
    audit = json.loads(json.dumps(record(done, BOUND, {"timed:0:0": {"y": 255}})))
    assert audit["measured"]["samples_us"] == [[120.0] * 10] and audit["floor_s"] == pytest.approx(95e-6)
    assert audit["digests"] == {"timed:0:0": {"y": "00000000000000ff"}}
    assert json.loads(json.dumps(summary(done)))["batch"]["kernel_us"] == 3.0


@pytest.mark.parametrize(
    ("before", "after", "shift"),
    [(1980, 1980, 1.0), (2000, 1961, 1.0), (2000, 1900, 2000 / 1900), (1000, 1100, 1.1)],
)
def test_how_far_the_clock_moved(before: int, after: int, shift: float) -> None:
    """Within 2 % clocks move all the time; up is as far as down."""
    taken = replace(GOOD, clocks=(clocks(before), clocks(after)))
    assert clock_shift(taken) == pytest.approx(shift)
    said = unsteady(taken, "n=5")
    assert (said is not None) == (shift > 1.0) == clock_moved(taken)
    assert said is None or f"from {before} to {after} MHz" in said


def test_clocks_that_nobody_knows_have_not_moved() -> None:
    for unknown in ((None, None), (clocks(1980), None), (clocks(0), clocks(1980)), (clocks(1980), clocks(0))):
        taken = replace(GOOD, clocks=unknown)
        assert clock_shift(taken) == 1.0 and unsteady(taken, "n=5") is None


def test_damage_done_by_one_of_two_is_nobodys() -> None:
    alone = replace(GOOD, broken_guards=("y",))
    assert (found := doubt(alone, BOUND, "n=5")) and found.status == "incorrect"
    both = replace(alone, samples_us=(alone.samples_us[0],) * 2)
    for sequence in range(2):
        assert (found := doubt(both, BOUND, "n=5", sequence)) and found.status == "quarantined"
