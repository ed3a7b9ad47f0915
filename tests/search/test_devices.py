"""What `--device` means."""

from __future__ import annotations

import pytest

from evolve.ir.errors import EvolveError
from evolve.search.devices import choose_device, match_profile


def test_auto_without_a_gpu_estimates_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evolve.search.devices.has_gpu", lambda: False)
    device, profile = choose_device("auto")
    assert (device.kind, profile.stem, device.timing) == ("sim", "h100-sxm", "estimated")
    assert device.reason == "no CUDA GPU was found"
    assert choose_device("sim:h100-sxm")[0].reason == ""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("tpu", "unknown-device"),
        ("cuda:x", "unknown-device"),
        ("auto:0", "unknown-device"),
        ("sim:h300", "unknown-profile"),
        ("cuda", "no-cuda"),
    ],
)
def test_what_cannot_be_is_refused(text: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evolve.search.devices.has_gpu", lambda: False)
    with pytest.raises(EvolveError) as e:
        choose_device(text)
    assert e.value.code == code


def test_a_gpu_is_matched_by_name_and_size_or_refused() -> None:
    assert match_profile("NVIDIA H200", 132).stem == "h200-sxm"
    assert match_profile("NVIDIA H100 80GB HBM3", 132).stem == "h100-sxm"
    assert match_profile("NVIDIA GeForce RTX 4090", 128).stem == "rtx-4090"
    assert match_profile("NVIDIA A100-SXM4-80GB", 108).stem == "a100-sxm-80gb"
    assert match_profile("NVIDIA A100-PCIE-40GB", 108).stem == "a100-pcie-40gb"
    assert match_profile("Tesla V100-SXM2-32GB", 80).stem == "v100-sxm2"
    with pytest.raises(EvolveError) as e:
        match_profile("NVIDIA Z9000", 132)
    assert e.value.code == "unknown-gpu"
