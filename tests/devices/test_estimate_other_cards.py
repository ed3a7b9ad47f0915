"""Estimates for GPUs that we cannot run, against what others published for simple kernels on them.

The figures and their sources are in `benchmarks/published.py`; the profiles hold none of them. Bounds are as
wide as what is not known: the others' clocks, drivers and boards.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from benchmarks.published import PUBLISHED, Published, estimated, profile_of
from evolve.target.profile import load_profile

RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "other-cards-estimated.json"
IDS = [f"{p.gpu}: {p.what}" for p in PUBLISHED]

FURTHER_OFF = {
    "rows of B by threads": (0.6, 1.0),  # too fast: as on the H200, waiting for L1 under load is short
    "additions to one address": (0.7, 1.0),  # theirs went through WebGPU's compiler
}


@cache
def ratio(one: Published) -> float:
    """Estimated over published time."""
    return one.value / (one.work.amount / estimated(one).time_s / 1e9)


@pytest.mark.parametrize("one", PUBLISHED, ids=IDS)
def test_estimates_are_near_what_was_published(one: Published) -> None:
    low, high = next((b for name, b in FURTHER_OFF.items() if name in one.what), (0.78, 1.25))
    assert low < ratio(one) < high


@pytest.mark.parametrize("gpu", ["a100-sxm-40gb", "a100-sxm-80gb", "rtx-4090", "l40s", "b200-sxm"])
def test_copies_that_fill_the_gpu_are_closer(gpu: str) -> None:
    full = ("copy", "scale, all", "scale, two thirds")
    found = [ratio(p) for p in PUBLISHED if p.gpu == gpu and p.what.startswith(full)]
    assert found and all(0.92 < r < 1.08 for r in found)


def test_kernels_rank_as_published() -> None:
    for gpu in ("a100-sxm-80gb", "a6000"):
        kernels = [p for p in PUBLISHED if p.gpu == gpu]
        by_name: dict[str, list[Published]] = {}
        for p in kernels:
            by_name.setdefault(p.what.split(",")[0], []).append(p)
        for group in by_name.values():
            times = [estimated(p).time_s / p.work.amount for p in sorted(group, key=lambda p: p.value)]
            assert times == sorted(times, reverse=True)


def test_the_a6000_is_its_data_sheet() -> None:
    a6000 = profile_of("a6000")
    assert a6000.peaks.fp32_tflops == pytest.approx(38.7, abs=0.05)
    assert a6000.measured is None and a6000.memory.dram_gbs == 768


def test_the_committed_record_says_that_nobody_checked() -> None:
    record = json.loads(RESULT.read_text())
    assert "nobody has checked" in record["label"]
    assert set(record["gpus"]) == {"a100-sxm-80gb", "rtx-4090", "b200-sxm"}
    for stem, found in record["gpus"].items():
        assert len(found["programs"]) == 10
        assert all(p["estimated_us"] >= p["attainable_us"] for p in found["programs"])
        evidence = {g["figure"]: g["evidence"] for g in found["rests_on"]}
        assert evidence["launch"] == "carried over"
        assert load_profile(stem).validated is None
    assert len(record["published"]) == len(PUBLISHED)
