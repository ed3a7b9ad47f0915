"""A GPU finds its profile by the driver's name, or is told to calibrate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from evolve.ir.errors import EvolveError
from evolve.target.match import match_profile
from evolve.target.profile import Profile, load_profile
from evolve.target.schema import as_document


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of profiles, empty."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("EVOLVE_HARDWARE", raising=False)
    folder = tmp_path / "evolve" / "hardware"
    folder.mkdir(parents=True)
    return folder


def write(folder: Path, stem: str, profile: Profile) -> None:
    (folder / f"{stem}.yaml").write_text(yaml.safe_dump(as_document(profile)))


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
    assert "evolve calibrate" in (e.value.hint or "")


def test_what_was_calibrated_on_such_a_gpu_comes_first(own_folder: Path) -> None:
    base = load_profile("h200-sxm")
    write(own_folder, "zz-mine", replace(base, name="NVIDIA H200", provenance={"sms": "driver attribute"}))
    assert match_profile("NVIDIA H200", 132).stem == "zz-mine"
    assert match_profile("NVIDIA H200", 132, calibrated=False).stem == "h200-sxm"
    assert match_profile("NVIDIA H100 80GB HBM3", 132).stem == "h100-sxm"


def test_a_calibrated_profile_serves_no_other_gpu(own_folder: Path) -> None:
    base = load_profile("h200-sxm")
    write(
        own_folder,
        "nvidia-z9000",
        replace(base, name="NVIDIA Z9000", sms=99, provenance={"sms": "attribute"}),
    )
    assert match_profile("NVIDIA Z9000", 99).stem == "nvidia-z9000"
    for name, sms in (("NVIDIA Z9000 Ti", 99), ("NVIDIA Z9000", 98)):
        with pytest.raises(EvolveError):
            match_profile(name, sms)
