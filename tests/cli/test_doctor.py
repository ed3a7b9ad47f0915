"""doctor says what measuring lacks and how to get it, and gets it when told to."""

from __future__ import annotations

import json

import pytest

from evolve.cli import doctor
from evolve.cli.main import main
from evolve.ir.errors import EvolveError
from evolve.toolchain import driver, pycuda_install
from evolve.toolchain.nvrtc import nvrtc_version
from evolve.toolchain.pycuda_install import Imported, Say


def answer(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capfd.readouterr()
    status = main(["doctor", *arguments])
    got = capfd.readouterr()
    return status, got.out, got.err


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(doctor, "_PROBES", tuple(one for one in doctor._PROBES if one[0] in names))
    assert len(doctor._PROBES) == len(names)


def test_the_driver_is_compared_with_nvrtc(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "cuda driver")
    major, minor = nvrtc_version()
    for version, mark, words in (
        ((major, 0), "ok ", "its machine code loads" if minor == 0 else "same major version"),
        ((major + 1, 0), "ok ", "a newer driver loads"),
        ((major - 1, 8), "unfit ", f"install a driver for CUDA {major}.0 or later"),
    ):
        monkeypatch.setattr(driver, "driver_version", lambda version=version: version)
        status, out, _ = answer(capfd)
        assert status == 0 and out.startswith(mark), out
        assert words in out
        assert f"knows CUDA {version[0]}.{version[1]}, the compiler is {major}.{minor}" in out


def test_no_driver_and_no_pycuda_are_absent_and_the_way_out_is_named(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "cuda driver", "pycuda")
    monkeypatch.setattr(driver, "LIBRARY", "libcuda-that-is-not-there.so.1")
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    status, out, _ = answer(capfd)
    first, second = out.splitlines()
    assert status == 0
    assert first.startswith("absent  cuda driver: ") and "estimates do not" in first
    assert second.startswith("absent  pycuda: ") and "evolve doctor --install-pycuda" in second


def test_a_pycuda_that_does_not_import_is_unfit(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "pycuda")
    monkeypatch.setattr(driver, "driver_version", lambda: (13, 0))
    monkeypatch.setattr(doctor, "find_spec", lambda name: object())
    broken = "import sys; sys.exit('ImportError: undefined symbol: cuNew')"
    monkeypatch.setattr(pycuda_install, "_CHECK", broken)
    status, out, _ = answer(capfd)
    assert status == 0 and out.startswith("unfit ") and "undefined symbol: cuNew" in out
    assert "evolve doctor --install-pycuda" in out


@pytest.mark.parametrize("as_json", [False, True])
def test_installing_shows_its_progress_and_what_was_imported(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def install(say: Say) -> Imported:
        say("1/1 something")
        return Imported("2026.1", "13.0", None)

    only(monkeypatch, "python")
    monkeypatch.setattr(pycuda_install, "install_pycuda", install)
    status, out, err = answer(capfd, "--install-pycuda", *(["--json"] if as_json else []))
    said = json.loads(out)["installed"] if as_json else out
    assert status == 0 and "1/1 something" in err
    assert "PyCUDA 2026.1, built for CUDA 13.0" in said and "against the stand-in" in said
    assert "installed" not in answer(capfd)[1]


def test_an_installation_that_fails_is_no_internal_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(say: Say) -> Imported:
        raise EvolveError("no-pycuda-compiler", "no g++", hint="apt install g++")

    monkeypatch.setattr(pycuda_install, "install_pycuda", install)
    status, out, err = answer(capfd, "--install-pycuda")
    assert status == 2 and out == "" and "apt install g++" in err and "internal" not in err
    status, out, _ = answer(capfd, "--install-pycuda", "--json")
    assert json.loads(out)["error"]["code"] == "no-pycuda-compiler"
