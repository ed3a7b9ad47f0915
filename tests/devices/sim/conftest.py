"""Every C++ compiler of this machine that host execution supports, and one place for built programs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

from evolve.toolchain.host_cxx import HostCompiler, find_host_compiler


def _installed() -> list[str]:
    names = ["g++", *(f"g++-{n}" for n in range(13, 16)), "clang++", *(f"clang++-{n}" for n in range(14, 21))]
    found = {os.path.realpath(where): name for name in reversed(names) if (where := shutil.which(name))}
    zig = ["zig"] if importlib.util.find_spec("ziglang") else []
    return [*sorted(found.values()), *zig]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("host-programs")


@pytest.fixture(scope="session", params=_installed())
def compiler(request: pytest.FixtureRequest) -> HostCompiler:
    name = f"{sys.executable} -m ziglang c++" if request.param == "zig" else request.param
    return find_host_compiler({**os.environ, "CXX": name})
