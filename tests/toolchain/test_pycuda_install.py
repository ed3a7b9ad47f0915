"""PyCUDA is built from nothing but wheels and a C++ compiler, and then imports; what lacks is said."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

from evolve.ir.errors import EvolveError
from evolve.toolchain import pycuda_install
from evolve.toolchain.driver import driver_version
from evolve.toolchain.pycuda_install import (
    HEADER_WHEELS,
    HEADERS,
    PYCUDA,
    install_pycuda,
    pycuda_compiler,
)

ROOT = Path(__file__).parents[2]


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> tuple[int, int]:
        raise EvolveError("no-driver", "none")

    monkeypatch.setattr(pycuda_install, "driver_version", absent)


@pytest.mark.usefixtures("no_driver")
def test_each_thing_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gxx = script(tmp_path, "g++", "echo 'g++ (GCC) 12.2.0'; echo 'Free Software Foundation'")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(EvolveError, match="needs g\\+\\+") as caught:
        install_pycuda(print)
    assert caught.value.code == "no-pycuda-compiler" and "apt install g++" in str(caught.value)

    monkeypatch.setenv("PATH", str(gxx.parent))
    monkeypatch.setattr(pycuda_install.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(EvolveError, match=r"Python\.h") as caught:
        install_pycuda(print)
    assert caught.value.code == "no-python-headers"

    found = pycuda_install.importlib.util.find_spec
    monkeypatch.setattr(
        pycuda_install.importlib.util, "find_spec", lambda name: None if name == "pip" else found(name)
    )
    with pytest.raises(EvolveError, match="no pip") as caught:
        install_pycuda(print)
    assert caught.value.code == "no-pip" and "ensurepip" in str(caught.value)


@pytest.mark.usefixtures("no_driver")
def test_where_nothing_can_be_installed_nothing_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gxx = script(tmp_path, "g++", "echo 'g++ (GCC) 12.2.0'; echo 'Free Software Foundation'")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(gxx.parent))
    (tmp_path / "Python.h").touch()
    paths = {"include": str(tmp_path), "platlib": "/proc/self/nothing", "stdlib": str(tmp_path)}
    monkeypatch.setattr(pycuda_install.sysconfig, "get_paths", lambda: paths)
    monkeypatch.setattr(pycuda_install.site, "ENABLE_USER_SITE", False)

    def never(*_: object) -> Path:
        raise AssertionError("fetched or built")

    monkeypatch.setattr(pycuda_install, "_headers", never)
    with pytest.raises(EvolveError) as caught:
        install_pycuda(print)
    assert caught.value.code == "not-writable"
    monkeypatch.setattr(pycuda_install.site, "ENABLE_USER_SITE", True)
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    with pytest.raises(EvolveError) as caught:
        install_pycuda(print)
    assert caught.value.code == "externally-managed"
    monkeypatch.setattr(sys, "prefix", "/a/virtual/environment")
    with pytest.raises(AssertionError, match="fetched"):
        install_pycuda(print)


def test_a_driver_that_is_too_old_stops_it_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pycuda_install, "driver_version", lambda: (12, 4))
    with pytest.raises(EvolveError, match=r"install a driver for CUDA 13\.0 or later") as caught:
        install_pycuda(print)
    assert caught.value.code == "driver-too-old"


def test_clang_is_not_taken_and_gcc_is_looked_for_further(tmp_path: Path) -> None:
    clang = script(tmp_path, "clang++", "echo 'clang version 18.1.0'")
    script(tmp_path, "c++", "echo 'clang version 18.1.0'")
    with pytest.raises(EvolveError, match="needs g\\+\\+"):
        pycuda_compiler({"CXX": str(clang), "PATH": str(tmp_path)})
    gxx = script(tmp_path, "g++", "echo 'g++ (GCC) 12.2.0'; echo 'Free Software Foundation'")
    assert pycuda_compiler({"CXX": str(clang), "PATH": str(tmp_path)}).command == [str(gxx)]
    own = script(tmp_path, "g++-9", "echo 'g++-9 (GCC) 9.1.0'; echo 'Free Software Foundation'")
    assert pycuda_compiler({"CXX": str(own), "PATH": str(tmp_path)}).command == [str(own)]


def test_the_build_sees_the_users_home_but_other_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "real"
    (real / ".config").mkdir(parents=True)
    (real / ".config" / "pip.conf").write_text("mine")
    (real / ".aksetup-defaults.py").write_text("mine")
    monkeypatch.setenv("HOME", str(real))
    made = pycuda_install._home(tmp_path / "made", "theirs")
    assert (made / ".config" / "pip.conf").read_text() == "mine"
    assert (made / ".aksetup-defaults.py").read_text() == "theirs"
    assert (real / ".aksetup-defaults.py").read_text() == "mine"


def test_a_failing_step_says_what_pip_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(EvolveError, match=r"fetching CUDA's headers failed(.|\n)*nvidia-cuda") as caught:
        pycuda_install._headers(tmp_path)
    assert caught.value.code == "pycuda-install"


def test_the_requirement_is_that_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["cuda"] == [PYCUDA]
    for wheel in HEADER_WHEELS:
        assert f">={HEADERS[0]}.{HEADERS[1]}" in wheel


def reaches_an_index(folder: Path) -> bool:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-cache-dir"]
    limits = ["--retries", "1", "--timeout", "15"]
    done = subprocess.run(
        [*command, *limits, "-d", str(folder), "nvidia-cuda-profiler-api"], capture_output=True, check=False
    )
    return done.returncode == 0


def has_gxx() -> bool:
    try:
        pycuda_compiler()
    except EvolveError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(not has_gxx(), reason="no g++ here, which PyCUDA is built with")
@pytest.mark.skipif(
    not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file(), reason="no Python.h here"
)
def test_one_command_installs_it_in_a_fresh_environment(tmp_path: Path) -> None:
    """No toolkit is on PATH; the home folder stays as it was; the module imports when all is over."""
    if not reaches_an_index(tmp_path / "probe"):
        pytest.skip("no package index is reachable from here")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".aksetup-defaults.py").write_text("raise SystemExit('settings of the user')\n")
    for kept in (".config", ".pip", ".cache"):
        if (Path.home() / kept).exists():
            (home / kept).symlink_to(Path.home() / kept)
    before = sorted(path.name for path in home.iterdir())

    where = tmp_path / "venv"
    venv.create(where, with_pip=True)
    python = where / "bin" / "python"
    # The folders of the compiler and of the basic tools, so that no toolkit is found by its nvcc.
    folders = [str(Path(found).parent) for found in (shutil.which("g++"), shutil.which("env")) if found]
    env = {n: v for n, v in os.environ.items() if not n.startswith(("CUDA", "PYTHON", "CXX"))}
    env |= {"HOME": str(home), "PATH": os.pathsep.join([str(where / "bin"), *folders])}
    subprocess.run(
        [python, "-m", "pip", "install", "-q", str(ROOT)], env=env, check=True, capture_output=True, text=True
    )
    done = subprocess.run(
        [where / "bin" / "evolve", "doctor", "--install-pycuda", "--json"],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5/5 importing it in a fresh process" in done.stderr
    answer = json.loads(done.stdout)
    assert "PyCUDA 20" in answer["installed"] and "built for CUDA 13.0, imports" in answer["installed"]
    (check,) = (one for one in answer["checks"] if one["check"] == "pycuda")
    assert check["ok"]
    assert sorted(path.name for path in home.iterdir()) == before
    assert "settings of the user" in (home / ".aksetup-defaults.py").read_text()

    # What was installed asks for the driver by its name: it imports here if and only if there is one.
    imported = subprocess.run(
        [python, "-c", "import pycuda.driver"], env=env, capture_output=True, text=True, check=False
    )
    try:
        driver_version()
    except EvolveError:
        assert "against the stand-in" in answer["installed"]
        assert "libcuda.so.1: cannot open shared object file" in imported.stderr
    else:
        assert "with the driver of this machine" in answer["installed"]
        assert imported.returncode == 0, imported.stderr
