"""What `--device` means."""

from __future__ import annotations

import pytest

from evolve.ir.errors import EvolveError
from evolve.search.devices import choose_device


def test_auto_without_a_gpu_estimates_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evolve.search.devices.has_gpu", lambda: False)
    device, profile = choose_device("auto")
    assert (device.kind, profile.stem, device.timing) == ("sim", "h200-sxm", "estimated")
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


@pytest.mark.parametrize("text", ["cuda", "auto", "cuda:0,1"])
def test_a_driver_older_than_the_compiler_is_told_before_anything_runs(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evolve.search.devices.has_gpu", lambda: True)
    monkeypatch.setattr("evolve.search.devices.nvrtc_version", lambda: (13, 5))
    monkeypatch.setattr("evolve.search.devices.driver_version", lambda: (12, 9))
    with pytest.raises(EvolveError) as e:
        choose_device(text)
    assert e.value.code == "driver-too-old" and "CUDA 13.0" in e.value.message
