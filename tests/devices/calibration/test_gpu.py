"""The calibration on a GPU: fast enough, nothing missing, nothing in doubt. Skips itself elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evolve.cli.main import main
from evolve.search.devices import has_gpu
from evolve.target.schema import read_profile

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_gpu(), reason="needs a CUDA GPU and PyCUDA")]


def test_a_calibration(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "here.yaml"
    assert main(["calibrate", "--out", str(file), "--json"]) == 0
    got = json.loads(capfd.readouterr().out)
    assert not got["faults"]
    assert not [f for f in got["figures"] if f["doubt"]]
    assert got["seconds"] < 60
    assert read_profile(file).measured is not None
