"""What an estimate rests on: every figure of the model is named, with the evidence that the profile has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evolve.devices.grounds import grounds, grounds_of
from evolve.sol.ceilings import l2_ceiling
from evolve.target.profile import list_profiles, load_profile

A100 = load_profile("a100-sxm-80gb")
H200 = load_profile("h200-sxm")


def evidence(stem: str) -> dict[str, str]:
    return {g.figure: g.evidence for g in grounds(load_profile(stem)).figures}


def test_only_the_h200_was_checked() -> None:
    checked = [stem for stem in list_profiles() if grounds(load_profile(stem)).validated]
    assert checked == ["h200-sxm"]
    assert "checked" in grounds(H200).short() and "nobody" not in grounds(H200).short()
    assert grounds(H200).lines() == [
        "estimates for NVIDIA H200 SXM 141GB were checked on one "
        "(benchmarks/results/estimate-validation-h200.json)"
    ]


def test_what_calibrate_measured_is_told_from_what_others_published() -> None:
    assert evidence("h200-sxm")["DRAM reads"] == "calibrated"
    assert evidence("h200-sxm")["latency of L2"] == "calibrated"
    assert evidence("h200-sxm")["latency of DRAM"] == "published"
    assert evidence("a100-sxm-80gb")["DRAM reads"] == "published"
    assert evidence("a100-sxm-80gb")["launch"] == "carried over"


def test_a_latency_that_is_not_known_is_carried_over_alone() -> None:
    found = evidence("b200-sxm")
    assert found["latency of L1, L2"] == "published" and found["latency of DRAM"] == "carried over"
    assert evidence("rtx-5090")["latency of L1, L2, DRAM"] == "carried over"
    assert evidence("rtx-5090")["DRAM copies"] == "carried over"


def test_a_latency_without_a_source_is_not_called_published() -> None:
    assert "published" not in {g.evidence for g in grounds(replace(A100, sources={}, measured=None)).figures}


def test_the_lines_name_the_figure_in_use() -> None:
    text = "\n".join(grounds(A100).lines())
    assert "nobody has checked" in text
    assert "L2: 5340 to 5480 GB/s" in text and "36 clocks, 211 clocks, 405 ns" in text
    assert "carried over 4" in grounds(A100).short()
    ada = next(g for g in grounds(load_profile("rtx-4090")).figures if g.figure == "L2")
    assert ada.detail == "25% of the SMs' ports"


def test_a_profile_of_calibrate_is_named_as_such() -> None:
    mine = replace(A100, provenance={"sms": "driver attribute", "latency.l2_clocks": "measured: chase"})
    found = {g.figure: g.evidence for g in grounds(mine).figures}
    assert found["clocks, sizes, limits, rates per clock"] == "calibrated"
    assert found["latency of L2"] == "calibrated" and found["DRAM reads"] == "calibrated"
    assert "calibrated" in grounds(mine).short()


def test_every_profile_has_grounds_and_an_unknown_one_none() -> None:
    for stem in list_profiles():
        assert len(grounds(load_profile(stem)).figures) >= 10
    assert grounds_of("no-such-gpu") is None


@pytest.mark.parametrize(("stem", "rate"), [("l40s", 5330e9), ("a100-sxm-80gb", 5480e9)])
def test_l2_of_gpus_that_were_measured(stem: str, rate: float) -> None:
    profile = load_profile(stem)
    assert l2_ceiling(profile).rate == pytest.approx(rate)
    assumed = l2_ceiling(replace(profile, measured=None)).rate
    assert 0.9 * rate < assumed < 1.2 * rate
