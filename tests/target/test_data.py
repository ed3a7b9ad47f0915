"""Data folders are found in a checkout and in an installed wheel, and only there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evolve.target import data
from evolve.target.data import data_dir

CODE = "from evolve.target.data import data_dir; print(data_dir('hardware'))"


def ask(root: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r}); {CODE}"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def install(root: Path) -> Path:
    """What a wheel leaves of these two modules: the package alone, its data inside."""
    package = Path(data.__file__).resolve().parents[1]
    for name in ("__init__.py", "ir/errors.py", "target/__init__.py", "target/data.py"):
        (root / "evolve" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(package / name, root / "evolve" / name)
    (root / "evolve" / "ir" / "__init__.py").touch()
    return root / "evolve"


def test_a_checkout_has_them_beside_the_package() -> None:
    root = Path(data.__file__).resolve().parents[2]
    if not (root / "pyproject.toml").is_file():
        pytest.skip("not a checkout")
    for name in ("hardware", "dsl_spec", "prompts", "kernels"):
        assert data_dir(name) == root / name


def test_a_wheel_has_them_inside(tmp_path: Path) -> None:
    inside = install(tmp_path / "site") / "_data" / "hardware"
    inside.mkdir(parents=True)
    (tmp_path / "site" / "hardware").mkdir()  # some other package
    done = ask(tmp_path / "site", tmp_path)
    assert done.stdout.strip() == str(inside), done.stderr


def test_a_neighbour_of_an_installed_package_is_not_ours(tmp_path: Path) -> None:
    install(tmp_path / "site")
    (tmp_path / "site" / "hardware").mkdir()
    done = ask(tmp_path / "site", tmp_path)
    assert done.returncode != 0
    assert "missing from this installation" in done.stderr
