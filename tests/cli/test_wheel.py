"""The built wheel, run from another folder, has its commands and its data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from evolve.dsl.registry import primitives
from evolve.target.profile import list_profiles

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content and nothing of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(folder), str(ROOT)], check=True, cwd=folder)
    (wheel,) = folder.glob("evolve-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def call(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(site)}
    # -P keeps the current folder off the path; a checkout installed in place comes after PYTHONPATH.
    command = [sys.executable, "-P", "-m", "evolve", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def test_data_is_in_the_wheel(site: Path, tmp_path: Path) -> None:
    where = subprocess.run(
        [sys.executable, "-P", "-c", "import evolve; print(evolve.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(site))
    listed = json.loads(call(site, tmp_path, "dsl", "--json").stdout)["primitives"]
    assert [one["name"] for one in listed] == list(primitives())
    devices = json.loads(call(site, tmp_path, "devices", "--json").stdout)["devices"]
    assert {f"sim:{stem}" for stem in list_profiles()} < {one["device"] for one in devices}
    kernels = {path.name for path in (ROOT / "kernels").glob("*.cu")}
    assert kernels == {path.name for path in site.glob("evolve/_data/kernels/*.cu")} and kernels


def test_the_console_script_is_declared_and_the_licence_is_shipped(site: Path) -> None:
    (info,) = site.glob("evolve-*.dist-info")
    assert "evolve = evolve.cli.main:main" in (info / "entry_points.txt").read_text()
    assert (info / "licenses" / "LICENSE").is_file()
    assert (site / "evolve" / "py.typed").is_file()


def test_doctor_is_content_with_the_wheel(site: Path, tmp_path: Path) -> None:
    done = call(site, tmp_path, "doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []
