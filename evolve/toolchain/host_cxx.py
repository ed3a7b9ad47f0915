"""Finds the C++ compiler that builds emitted kernels for the host.

Order: `$CXX`, `c++`, `g++`, `clang++`, then the Zig compiler of the `ziglang` wheel, so that a machine
without any compiler can still execute candidates. Which flags a kind of compiler needs is the business
of whoever compiles; here it is only found and named.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from evolve.ir.errors import EvolveError

CompilerKind = Literal["gcc", "clang", "zig"]

_VERSION_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler that answered `--version`.

    `kind` decides which flags it understands; `command` is the argument vector that compiles C++ (append
    flags and files); `version` is its version number as it prints it, such as `12.2.0`. Zig keeps a cache:
    with an empty environment the caller sets `ZIG_GLOBAL_CACHE_DIR` and `ZIG_LOCAL_CACHE_DIR`.
    """

    kind: CompilerKind
    command: list[str] = field(hash=False)
    version: str

    @property
    def link_command(self) -> list[str]:
        """The argument vector that links objects without the C++ standard library.

        `zig c++` would first build a C++ library of its own, which takes about a minute; `zig cc` does not.
        """
        if self.kind == "zig":
            return [*self.command[:-1], "cc"]
        return list(self.command)

    @property
    def major(self) -> int:
        """The first number of `version`; 0 when it has none."""
        match = re.match(r"\d+", self.version)
        return int(match.group()) if match else 0


def find_host_compiler(environ: Mapping[str, str] | None = None) -> HostCompiler:
    """The first C++ compiler that works, in the order the module's text gives.

    `environ` (default: the process's) supplies `CXX` and `PATH`. Raises EvolveError `bad-cxx` when `$CXX`
    is set and does not answer as a known compiler, since a person who sets it wants no other one, and
    `no-host-compiler` when nothing was found.
    """
    env = os.environ if environ is None else environ
    wanted = env.get("CXX", "").strip()
    if wanted:
        return _from_cxx(wanted, env.get("PATH"))
    for name in ("c++", "g++", "clang++"):
        where = shutil.which(name, path=env.get("PATH"))
        if where is not None:
            found = _probe((where,))
            if found is not None:
                return found
    zig = _zig_command()
    if zig is not None:
        found = _probe(zig)
        if found is not None:
            return found
    raise EvolveError(
        "no-host-compiler",
        "no C++ compiler was found: $CXX is not set, c++, g++ and clang++ are not on PATH, "
        "and the ziglang package is not installed",
        hint="pip install ziglang, or install g++ or clang++",
    )


def _from_cxx(wanted: str, path: str | None) -> HostCompiler:
    try:
        words = shlex.split(wanted)
    except ValueError:
        words = []
    where = shutil.which(words[0], path=path) if words else None
    found = _probe((where, *words[1:])) if where is not None else None
    if found is None:
        raise EvolveError(
            "bad-cxx",
            f"$CXX is {wanted!r}, which does not run as a g++, clang++ or zig c++ compiler",
            hint="set CXX to a C++ compiler, or unset it",
        )
    return found


def _zig_command() -> tuple[str, ...] | None:
    """How to call the wheel's Zig: its binary where it lies where wheels put it, else through Python."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        return None
    binary = Path(spec.origin).parent / "zig"
    if binary.is_file() and os.access(binary, os.X_OK):
        return (str(binary), "c++")
    return (sys.executable, "-m", "ziglang", "c++")


@functools.lru_cache(maxsize=32)
def _probe(command: tuple[str, ...]) -> HostCompiler | None:
    """Asks the compiler who it is; None when it does not run or is none that we know."""
    try:
        done = subprocess.run(
            [*command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    text = done.stdout
    kind = _kind(command, text)
    if kind is None:
        return None
    # Distributions put their package's version in brackets before the compiler's own, which comes last in
    # GCC's first line and after the word "version" in clang's.
    first = re.sub(r"\([^)]*\)", " ", text.splitlines()[0])
    numbers: list[str] = re.findall(r"\d+\.\d+(?:\.\d+)?", first)
    return HostCompiler(kind, list(command), numbers[0] if numbers else "unknown")


def _kind(command: tuple[str, ...], text: str) -> CompilerKind | None:
    is_clang = re.search(r"\bclang version\b", text) is not None
    if is_clang:
        # Zig prints its clang's version, so only the call tells them apart.
        names = {Path(word).name for word in command[:-1]}
        return "zig" if names & {"zig", "ziglang"} else "clang"
    if "Free Software Foundation" in text or re.match(r"(\S*g\+\+|\S*gcc|c\+\+) ", text):
        return "gcc"
    return None
