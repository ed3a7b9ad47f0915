"""Samples become figures: what a launch costs once cancels, and nonsense is not believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.devices.calibration.figures import Figure, per_clock, rates_of, work_out
from evolve.devices.calibration.samples import Chased, Pair, Samples
from tests.devices.calibration.gpus import H200

RATES = {"fp32_fma": 128.0, "fp64_fma": 64.0, "mufu": 16.0, "shared_bytes": 128.0, "tensor_fp16": 4096.0}


def pair(per_us: float, few: float = 1e6, many: float = 5e6, once_us: float = 40.0) -> Pair:
    return Pair(few, many, (once_us + few / per_us,) * 9, (once_us + many / per_us,) * 9)


def at(mflop_per_us: float) -> Pair:
    return pair(mflop_per_us * 1e6, 1e10, 5e10)


def only(figures: tuple[Figure, ...], name: str) -> Figure:
    (found,) = [f for f in figures if f.name == name]
    return found


def test_what_a_launch_costs_once_cancels() -> None:
    for once in (0.0, 7.5, 1000.0):
        got = rates_of(pair(250.0, once_us=once))
        assert got is not None
        assert got == pytest.approx((250e6, 250e6))


def test_the_range_is_the_middle_half_of_the_pairs() -> None:
    many_us = tuple(100.0 + d for d in (0, 1, 2, 3, 4, 5, 6, 7, 8))
    got = rates_of(Pair(0.0, 1e3, (0.0,) * 9, many_us))
    assert got is not None
    assert got == pytest.approx((1e3 / 106e-6, 1e3 / 102e-6))


def test_drift_between_pairs_does_not_matter_within_them() -> None:
    drift = [10.0 * i for i in range(9)]
    got = rates_of(Pair(1e3, 3e3, tuple(100 + d for d in drift), tuple(120 + d for d in drift)))
    assert got is not None
    assert got == pytest.approx((1e8, 1e8))


def test_time_that_does_not_grow_gives_no_rate() -> None:
    assert rates_of(Pair(1e3, 5e3, (10.0,) * 5, (10.0,) * 5)) is None
    assert rates_of(Pair(1e3, 5e3, (10.0,) * 5, (9.0,) * 5)) is None
    assert rates_of(Pair(1e3, 5e3, (10.0,), (20.0,))) is None
    figure = only(
        work_out(Samples({"fma_f32": Pair(1, 5, (9.0,) * 5, (9.0,) * 5)}), H200, RATES), "fp32_tflops"
    )
    assert figure.doubt


def test_the_rate_per_clock_comes_from_the_added_clocks_of_the_middle_block() -> None:
    few, many = (1100,) * 131 + (9000,), (5100,) * 131 + (9999,)
    got = per_clock(Pair(132e3, 528e3, (), (), few, many), 132)
    assert got == pytest.approx(396e3 / 132 / 4000)
    assert per_clock(pair(1.0), 132) is None


def test_a_rate_per_clock_counts_lanes_and_tells_the_clock() -> None:
    # 120 FMA lanes, so 240 operations, on 132 SMs at 1500 MHz.
    per_us = 240 * 132 * 1500.0
    few, many = 1e9, 5e9
    clocks = [round(1000 + n / (240 * 132)) for n in (few, many)]
    timed = replace(pair(per_us, few, many), few_clocks=(clocks[0],) * 132, many_clocks=(clocks[1],) * 132)
    figure = only(work_out(Samples({"fma_f32": timed}), H200, RATES), "fp32_tflops")
    assert figure.mid == pytest.approx(240 * 132 * 1500e6 / 1e12)
    assert figure.per_clock == pytest.approx(120, rel=1e-4)
    assert figure.clock_mhz == pytest.approx(1500, rel=1e-4)
    assert figure.most == pytest.approx(128 * 2 * 132 * 1980e6 / 1e12)
    assert figure.fraction == pytest.approx(120 * 1500 / (128 * 1980), rel=1e-4)
    assert not figure.doubt


@pytest.mark.parametrize(
    ("tflops", "believed"), [(69.0, False), (67.5, True), (64.0, True), (20.2, True), (19.0, False)]
)
def test_outside_of_three_tenths_to_just_above_the_product_nothing_is_believed(
    tflops: float, believed: bool
) -> None:
    figure = only(work_out(Samples({"fma_f32": at(tflops)}), H200, RATES), "fp32_tflops")
    assert figure.mid == pytest.approx(tflops)
    assert (not figure.doubt) == believed


def test_dram_is_judged_by_the_drivers_attributes() -> None:
    def read(gbs: float) -> Figure:
        samples = Samples({"read_4": pair(gbs * 1e3, 1e9, 4e9)})
        return only(work_out(samples, H200, RATES), "read_gbs")

    assert read(4300).most == pytest.approx(4814, abs=1)
    assert not read(4300).doubt
    assert read(5000).doubt and read(1400).doubt


def test_of_several_kernels_the_fastest_counts() -> None:
    samples = Samples({"read_4": pair(4e6, 1e9, 4e9), "read_8": pair(4.3e6, 1e9, 4e9)})
    figure = only(work_out(samples, H200, RATES), "read_gbs")
    assert (figure.kernel, round(figure.mid)) == ("read_8", 4300)


@pytest.mark.parametrize(("apart", "believed"), [(1.05, True), (1.5, False)])
@pytest.mark.parametrize("rates", [RATES, {}])
def test_samples_that_lie_far_apart_are_not_believed(
    apart: float, believed: bool, rates: dict[str, float]
) -> None:
    times = tuple(2500.0 * (1 if i % 2 else apart) for i in range(20))
    samples = Samples({"fma_f32": Pair(1e10, 11e10, (500.0,) * 20, times)})
    figure = only(work_out(samples, H200, rates), "fp32_tflops")
    assert (not figure.doubt) == believed
    assert believed or "in use" in figure.doubt


@pytest.mark.parametrize(("gbs", "believed"), [(7000, True), (4200, False), (18000, False)])
def test_l2_lies_between_dram_and_the_ports_of_the_sms(gbs: float, believed: bool) -> None:
    samples = Samples({"read_8": pair(4.3e6, 1e9, 4e9), "l2_read": pair(gbs * 1e3, 1e9, 5e9)})
    assert (not only(work_out(samples, H200, RATES), "l2_read_gbs").doubt) == believed


def test_without_a_documented_rate_a_figure_is_not_judged() -> None:
    figure = only(work_out(Samples({"fma_f32": at(500.0)}), H200, {}), "fp32_tflops")
    assert figure.most is None and not figure.doubt


@pytest.mark.parametrize(("capability", "believed"), [((8, 0), False), ((9, 0), False), ((10, 0), True)])
def test_warp_level_matrix_work_may_be_slow_where_faster_instructions_exist(
    capability: tuple[int, int], believed: bool
) -> None:
    gpu = replace(H200, compute_capability=capability)
    figure = only(work_out(Samples({"mma_f16": at(200.0)}), gpu, RATES), "fp16_mma_tflops")
    assert (not figure.doubt) == believed
    too_fast = only(work_out(Samples({"mma_f16": at(1200.0)}), gpu, RATES), "fp16_mma_tflops")
    assert too_fast.doubt


def chased(clocks: float, ns: float, arrived: bool = True) -> Chased:
    return Chased(1000, round(clocks * 1000), round(ns * 1000), arrived)


def test_latencies() -> None:
    good = {
        "shared_clocks": chased(29, 15),
        "l1_clocks": chased(33, 17),
        "l2_clocks": chased(270, 140),
        "dram_ns": chased(1000, 520),
    }
    figures = work_out(Samples(chases=good), H200, RATES)
    assert {f.name: (f.mid, f.doubt) for f in figures} == {
        "shared_clocks": (29, ""),
        "l1_clocks": (33, ""),
        "l2_clocks": (270, ""),
        "dram_ns": (520, ""),
    }
    assert {f.unit for f in figures} == {"clocks", "ns"}


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("l1_clocks", chased(33, 17, arrived=False)),  # some hops were left out
        ("l1_clocks", chased(260, 130)),  # it was in L2
        ("l2_clocks", chased(34, 18)),  # it was in L1
        ("dram_ns", chased(280, 145)),  # it was in L2
        ("shared_clocks", chased(0, 0)),  # nothing was done
    ],
)
def test_a_chase_that_did_not_see_its_level_is_not_believed(name: str, got: Chased) -> None:
    good = {"l1_clocks": chased(33, 17), "l2_clocks": chased(270, 140), "dram_ns": chased(1000, 520)}
    figures = work_out(Samples(chases=good | {name: got}), H200, RATES)
    assert only(figures, name).doubt
    assert [f.name for f in figures if f.doubt] == [name]


def test_the_launch_is_the_time_of_an_empty_kernel() -> None:
    figure = only(work_out(Samples(launch_us=(5.0, 6.0, 7.0, 8.0, 30.0)), H200, RATES), "launch_us")
    assert (figure.low, figure.high, figure.doubt) == (6.0, 8.0, "")
