"""The host compiler is found in the documented order and named for what it is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from evolve.ir.errors import EvolveError
from evolve.toolchain import host_cxx
from evolve.toolchain.host_cxx import HostCompiler, find_host_compiler

GCC = "g++ (Debian 12.2.0-14) 12.2.0\\nCopyright (C) 2022 Free Software Foundation, Inc."
CLANG = "Debian clang version 14.0.6\\nTarget: x86_64-pc-linux-gnu"


def fake(folder: Path, name: str, says: str, status: int = 0) -> Path:
    script = folder / name
    script.write_text(f'#!/bin/sh\nprintf "{says}\\n"\nexit {status}\n')
    script.chmod(0o755)
    return script


def test_kind_and_version_are_the_compilers_own(tmp_path: Path) -> None:
    fake(tmp_path, "g++", GCC)
    found = find_host_compiler({"PATH": str(tmp_path)})
    assert (found.kind, found.version, found.major) == ("gcc", "12.2.0", 12)
    fake(tmp_path, "c++", CLANG)
    found = find_host_compiler({"PATH": str(tmp_path)})
    assert (found.kind, found.version) == ("clang", "14.0.6")
    assert found.command == [str(tmp_path / "c++")]


def test_cxx_wins_and_keeps_its_arguments(tmp_path: Path) -> None:
    fake(tmp_path, "c++", GCC)
    mine = fake(tmp_path, "mine", CLANG)
    found = find_host_compiler({"PATH": str(tmp_path), "CXX": f"{mine} -pipe"})
    assert found.command == [str(mine), "-pipe"]
    assert found.kind == "clang"


@pytest.mark.parametrize("cxx", ["no-such-compiler", "'unbalanced", "liar"])
def test_a_cxx_that_does_not_work_is_an_error_not_a_fallback(tmp_path: Path, cxx: str) -> None:
    fake(tmp_path, "c++", GCC)
    fake(tmp_path, "liar", "something else 1.0")
    with pytest.raises(EvolveError) as caught:
        find_host_compiler({"PATH": str(tmp_path), "CXX": cxx})
    assert caught.value.code == "bad-cxx"


def test_a_broken_compiler_on_path_is_passed_over(tmp_path: Path) -> None:
    fake(tmp_path, "c++", GCC, status=1)
    fake(tmp_path, "clang++", CLANG)
    assert find_host_compiler({"PATH": str(tmp_path)}).command == [str(tmp_path / "clang++")]


def test_without_any_compiler_zig_is_used(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    found = find_host_compiler({"PATH": str(tmp_path)})
    assert found.kind == "zig"
    assert found.command[-1] == "c++"
    assert found.link_command == [*found.command[:-1], "cc"]


def test_nothing_at_all_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_cxx, "_zig_command", lambda: None)
    with pytest.raises(EvolveError) as caught:
        find_host_compiler({"PATH": str(tmp_path)})
    assert caught.value.code == "no-host-compiler"
    assert "ziglang" in str(caught.value)


@pytest.mark.parametrize("kind", ["system", "zig"])
def test_the_compiler_compiles(tmp_path: Path, kind: str) -> None:
    if kind == "system":
        if shutil.which("c++") is None:
            pytest.skip("no system compiler")
        found = find_host_compiler()
    else:
        pytest.importorskip("ziglang")
        found = find_host_compiler({"PATH": str(tmp_path)})
    source = tmp_path / "a.cpp"
    source.write_text('extern "C" int twice(int x) { return 2 * x; }\n')
    built = compile_object(found, source, tmp_path / "a.o")
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "a.o").read_bytes()[:4] == b"\x7fELF"


def compile_object(found: HostCompiler, source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*found.command, "-c", str(source), "-o", str(out)], capture_output=True, text=True, check=False
    )
