"""`evolve calibrate` with a GPU that exists in numbers only: what it prints, writes and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evolve.cli.main import main
from evolve.devices.calibration.attributes import Attributes
from evolve.target.match import match_profile
from evolve.target.profile import load_profile
from tests.devices.calibration.gpus import H200, PER_CLOCK, FakeWorker

Put = Callable[[Attributes, FakeWorker], None]


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Put:
    """Puts a GPU in; the user's folder of profiles is empty."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("EVOLVE_HARDWARE", raising=False)
    monkeypatch.chdir(tmp_path)

    def put_in(gpu: Attributes, worker: FakeWorker) -> None:
        monkeypatch.setattr("evolve.devices.calibration.attributes.read_attributes", lambda ordinal: gpu)
        monkeypatch.setattr("evolve.devices.cuda.client.CudaWorker", lambda ordinal: worker)
        monkeypatch.setattr(FakeWorker, "close", lambda self: None, raising=False)

    return put_in


def test_an_unknown_gpu_can_be_used_once_calibrated(
    put: Put, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gpu = replace(H200, name="NVIDIA Z9000", sms=100)
    put(gpu, FakeWorker(gpu))
    assert main(["calibrate", "--device", "cuda:0"]) == 0
    out = capfd.readouterr().out
    file = tmp_path / "data" / "evolve" / "hardware" / "nvidia-z9000.yaml"
    assert str(file) in out and "NVIDIA Z9000: 100 SMs" in out and "fp32_tflops" in out
    got = match_profile("NVIDIA Z9000", 100)
    assert got.stem == "nvidia-z9000" and got.measured is not None
    assert got.measured.read_gbs is not None and got.measured.read_gbs.mid == pytest.approx(4300, rel=0.01)
    assert "NVIDIA Z9000" in got.provenance["calibrated"]


def test_a_known_gpu_keeps_what_is_documented(put: Put, tmp_path: Path) -> None:
    put(H200, FakeWorker())
    assert main(["calibrate"]) == 0
    got = match_profile("NVIDIA H200", 132)
    assert got.stem == "nvidia-h200" and got.rates == load_profile("h200-sxm").rates
    assert "documented: h200-sxm" in got.provenance["rates.fp32_fma"]


def test_json_and_a_file_of_ones_own(put: Put, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(H200, FakeWorker())
    file = tmp_path / "mine.yaml"
    assert main(["calibrate", "--out", str(file), "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["profile"] == str(file) and file.is_file()
    assert document["gpu"]["name"] == "NVIDIA H200" and not document["faults"] and document["refused"] == ""
    figures = {f["name"]: f for f in document["figures"]}
    assert figures["fp32_tflops"]["fraction"] == pytest.approx(125 / 128, rel=0.01)
    assert not (tmp_path / "data").exists()


def test_what_cannot_be_is_shown_and_not_written(
    put: Put, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Twice the documented rate: as if half of the instructions had been optimised away.
    put(H200, FakeWorker(per_clock=PER_CLOCK | {"ex2_f32": 32.0}))
    assert main(["calibrate"]) == 0
    (line,) = (one for one in capfd.readouterr().out.splitlines() if one.startswith("ex2_gops"))
    assert "NOT BELIEVED: 200 %" in line
    got = match_profile("NVIDIA H200", 132)
    assert got.measured is not None and got.measured.ex2_gops is None and got.rates.mufu == 16


def test_without_a_clear_peak_there_is_no_profile(
    put: Put, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gpu = replace(H200, name="NVIDIA Z9000", compute_capability=(12, 1))
    put(gpu, FakeWorker(gpu, broken=frozenset({"fma_f64"})))
    assert main(["calibrate"]) == 1
    out = capfd.readouterr().out
    assert "fma_f64: not measured: no such luck" in out and "no profile was written" in out
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("device", ["sim", "sim:h200-sxm", "auto", "cuda:x", "cuda:-1"])
def test_only_a_gpu_can_be_calibrated(device: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--device", device]) == 2
    assert "cannot be calibrated" in capfd.readouterr().err


def test_a_file_that_cannot_be_written_is_an_error(put: Put, capfd: pytest.CaptureFixture[str]) -> None:
    put(H200, FakeWorker())
    assert main(["calibrate", "--out", "absent/mine.yaml"]) == 2
    assert "cannot write" in capfd.readouterr().err
