"""Attributes and figures become a profile in which every field says where it comes from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from evolve.devices.calibration.attributes import Attributes
from evolve.devices.calibration.describe import describe, next_power, stem_of
from evolve.devices.calibration.documented import documented
from evolve.devices.calibration.figures import Figure
from evolve.ir.errors import EvolveError
from evolve.sol.ceilings import dram_ceiling, fp32_rate, launch_floor
from evolve.target.profile import Profile, list_profiles, load_profile
from evolve.target.schema import as_document, read_profile
from tests.devices.calibration.gpus import H200

TAKEN = "one test"
LISTED = [load_profile(stem) for stem in list_profiles()]

FIGURES = (
    Figure("write_gbs", 4600, 4640, "write_4"),
    Figure("read_gbs", 4300, 4320, "read_8"),
    Figure("copy_16b_gbs", 4100, 4200, "copy_16b_4"),
    Figure("fp32_tflops", 64, 65, "fma_f32", per_clock=124.6),
    Figure("fp64_tflops", 32, 33, "fma_f64", per_clock=63.2),
    Figure("ex2_gops", 4100, 4160, "ex2_f32", per_clock=15.9),
    Figure("shared_gbs", 32000, 33000, "shared_read", per_clock=126.0),
    Figure("imad_gops", 16000, 16500, "int_mad", per_clock=63.0),
    Figure("int_add_gops", 16000, 16500, "int_add", per_clock=61.0),
    Figure("fp16_mma_tflops", 600, 620, "mma_f16", per_clock=2500.0),
    Figure("launch_us", 4, 5, "empty"),
    Figure("l1_clocks", 33.26, 33.26, "chase_l1"),
    Figure("l2_clocks", 270, 270, "chase_l2"),
)


def known_gpu() -> Profile:
    base = load_profile("h200-sxm")
    return describe(H200, FIGURES, documented((9, 0), LISTED, base), base, TAKEN)


def new_gpu(
    capability: tuple[int, int] = (12, 1), figures: tuple[Figure, ...] = FIGURES, **changes: object
) -> Profile:
    gpu: Attributes = replace(H200, name="NVIDIA Z9000", compute_capability=capability, **changes)  # type: ignore[arg-type]
    return describe(gpu, figures, documented(capability, LISTED, None), None, TAKEN)


def test_a_listed_gpu_keeps_its_peaks_and_gets_measured_ceilings() -> None:
    got, base = known_gpu(), load_profile("h200-sxm")
    assert (got.stem, got.name) == ("nvidia-h200", "NVIDIA H200")
    assert (got.rates, got.limits) == (base.rates, base.limits)
    assert got.clocks == base.clocks
    assert replace(got.memory, dram_gbs=base.memory.dram_gbs) == base.memory
    assert got.memory.dram_gbs == pytest.approx(4814.3)
    assert got.peaks.fp32_tflops == pytest.approx(base.peaks.fp32_tflops, rel=0.001)
    assert set(got.peaks.tensor) == set(base.peaks.tensor)
    for kind, peak in base.peaks.tensor.items():
        assert got.peaks.tensor[kind] == pytest.approx(peak, rel=0.001)
    assert got.latency.l1_clocks == 33.3 and got.latency.dram_ns is None


def test_the_speed_of_light_uses_what_was_measured() -> None:
    got = known_gpu()
    # Which part of a measured range a ceiling takes is its own matter.
    assert 4300e9 <= dram_ceiling(got, 1, 0) <= 4320e9
    assert 4600e9 <= dram_ceiling(got, 0, 1) <= 4640e9
    assert 4100e9 <= dram_ceiling(got, 1, 1) <= 4200e9
    assert 32e12 <= fp32_rate(got) <= 32.5e12
    assert 4e-6 <= launch_floor(got) <= 5e-6


@pytest.mark.parametrize("capability", [(9, 0), (12, 1)])
def test_it_is_written_and_read_again(capability: tuple[int, int], tmp_path: Path) -> None:
    got = known_gpu() if capability == (9, 0) else new_gpu(capability)
    file = tmp_path / f"{got.stem}.yaml"
    file.write_text(yaml.safe_dump(as_document(got)))
    assert read_profile(file) == got
    assert read_profile(file).provenance == got.provenance


def test_every_field_says_where_it_comes_from() -> None:
    for got in (known_gpu(), new_gpu()):
        document = as_document(got)
        origins = got.provenance
        for group in ("clocks", "peaks", "memory", "limits", "rates", "latency"):
            for name in document[group]:
                if (group, name) == ("memory", "kind") and got.memory.kind == "not known":
                    continue
                assert f"{group}.{name}" in origins or group in origins, f"{group}.{name}"
        assert all(m["source"] == TAKEN for m in document["measured"].values())
        assert origins["calibrated"] == TAKEN and "sms" in origins
        assert origins["memory.dram_gbs"].startswith("driver attributes")


def test_an_unlisted_architecture_gets_its_rates_from_measurements() -> None:
    got = new_gpu()
    rates = got.rates
    assert (rates.fp32_fma, rates.fp64_fma, rates.mufu, rates.shared_bytes) == (128, 64, 16, 128)
    assert (rates.imad, rates.int_add) == (64, 64)
    assert rates.shuffle_lanes is None and rates.fp16_fma is None
    assert got.peaks.fp32_tflops == pytest.approx(132 * 128 * 2 * 1980e6 / 1e12, rel=1e-4)
    assert "measured 124.6" in got.provenance["rates.fp32_fma"]
    assert got.clocks.tensor_mhz == got.clocks.boost_mhz == 1980
    assert got.limits.register_unit == 256
    assert "listed GPUs from compute capability 8.0" in got.provenance["limits.register_unit"]


def test_a_peak_that_nothing_tells_is_not_made_up() -> None:
    unclear = tuple(replace(f, per_clock=100.0) if f.name == "fp32_tflops" else f for f in FIGURES)
    absent = tuple(f for f in FIGURES if f.name != "fp64_tflops")
    doubted = tuple(replace(f, doubt="too fast") if f.name == "ex2_gops" else f for f in FIGURES)
    for figures in (unclear, absent, doubted):
        with pytest.raises(EvolveError) as e:
            new_gpu(figures=figures)
        assert e.value.code == "cannot-describe"


def test_a_rate_that_is_unclear_but_not_needed_is_left_out() -> None:
    got = new_gpu(figures=tuple(replace(f, per_clock=90.0) if f.name == "imad_gops" else f for f in FIGURES))
    assert got.rates.imad is None and "rates.imad" not in got.provenance


@pytest.mark.parametrize(
    "field", ["memory_clock_mhz", "memory_bus_bits", "clock_mhz", "l2_bytes", "blocks_per_sm"]
)
def test_what_the_driver_does_not_say_is_not_guessed(field: str) -> None:
    with pytest.raises(EvolveError) as e:
        new_gpu(**{field: 0})
    assert e.value.code == "cannot-describe"


def test_before_8_0_an_unlisted_architecture_has_no_constants() -> None:
    with pytest.raises(EvolveError):
        new_gpu((7, 2))


def test_figures_in_doubt_are_not_written() -> None:
    base = load_profile("h200-sxm")
    figures = tuple(replace(f, doubt="no") if f.name in ("read_gbs", "l2_clocks") else f for f in FIGURES)
    got = describe(H200, figures, documented((9, 0), LISTED, base), base, TAKEN)
    assert got.measured is not None and got.measured.read_gbs is None and got.measured.write_gbs is not None
    assert got.latency.l2_clocks is None and "latency.l2_clocks" not in got.provenance


def test_another_clock_than_the_listed_gpus_is_believed() -> None:
    base = load_profile("h200-sxm")
    gpu = replace(H200, clock_mhz=1785.0)
    got = describe(gpu, FIGURES, documented((9, 0), LISTED, base), base, TAKEN)
    assert got.clocks.boost_mhz == got.clocks.tensor_mhz == 1785
    assert got.peaks.fp32_tflops == pytest.approx(132 * 256 * 1785e6 / 1e12, rel=1e-4)


def test_documented_is_what_the_listed_gpus_of_an_architecture_agree_on() -> None:
    ada = documented((8, 9), LISTED, None)
    assert ada.rates["fp32_fma"] == 128 and ada.rates["fp64_fma"] == 2
    assert "fp16" not in ada.tensor_flop and ada.tensor_flop["int8"] == 2048
    assert documented((8, 9), LISTED, load_profile("rtx-4090")).tensor_flop["fp16"] == 512
    hopper = documented((9, 0), LISTED, None)
    assert hopper.tensor_flop["fp16"] == 4096 and hopper.constants["l1_shared_bytes_per_sm"] == 262144
    assert not documented((10, 3), LISTED, None).rates
    assert documented((10, 3), LISTED, None).constants["shared_banks"] == 32


@pytest.mark.parametrize(
    ("rate", "power"),
    [
        (126.0, 128),
        (128.0, 128),
        (128.9, 128),
        (1.97, 2),
        (15.9, 16),
        (108.9, 128),
        (100.0, None),
        (70.0, None),
        (0.0, None),
    ],
)
def test_only_a_rate_near_a_power_of_two_shows_one(rate: float, power: float | None) -> None:
    assert next_power(rate) == power


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("NVIDIA H200", "nvidia-h200"),
        ("NVIDIA GeForce RTX 4070 Ti", "nvidia-geforce-rtx-4070-ti"),
        ("../x", "x"),
        ("??", "gpu"),
    ],
)
def test_a_stem_is_made_of_the_name(name: str, stem: str) -> None:
    assert stem_of(name) == stem
