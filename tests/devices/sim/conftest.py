"""Every C++ compiler of this machine that host execution supports, and one place for built programs."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from evolve.toolchain.host_cxx import HostCompiler, find_host_compiler

_NAMES = ["g++", "clang++", "clang++-14", "clang++-15", "clang++-16", "g++-13", "zig"]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("host-programs")


@pytest.fixture(scope="session", params=_NAMES)
def compiler(request: pytest.FixtureRequest) -> HostCompiler:
    name = request.param
    if name == "zig":
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("the ziglang wheel is not installed")
        name = f"{sys.executable} -m ziglang c++"
    elif shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    import os

    return find_host_compiler({**os.environ, "CXX": name})
