"""A stand-in for the driver's library, made from CUDA's headers: it links and loads, and refuses to work.

What is built against the driver must name its library when it is linked and find it when it is loaded. On a
machine without a driver this library does for both. Each function returns the error that CUDA reserves for
such stand-ins, except those that put an error into words.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from evolve.ir.errors import EvolveError
from evolve.toolchain.driver import LIBRARY
from evolve.toolchain.host_cxx import HostCompiler

HEADERS = ("cuda.h", "cudaProfiler.h")
"""The headers that declare the driver's functions, without those for graphics."""

_STUB_LIBRARY = 34  # CUDA_ERROR_STUB_LIBRARY of cuda.h
_DECLARED = re.compile(r"\bCUDAAPI\s+(cu[A-Z]\w*)\s*\(")
# A name in a program is often a macro for the name of a later version, or has a suffix put on it that says
# which stream is the default.
_RENAMED = re.compile(r"^\s*#\s*define\s+cu[A-Z]\w*\s+(cu[A-Z]\w*)\s*$", re.MULTILINE)
_PER_THREAD = re.compile(r"\b__CUDA_API_PT[SD][ZS]\((cu[A-Z]\w*)\)")
_IN_WORDS = ("cuGetErrorString", "cuGetErrorName")
_LINK_LIMIT_S = 120.0


def declared_names(include: Path) -> tuple[str, ...]:
    """The names of the driver's functions in the headers of the folder `include`, sorted.

    Raises EvolveError `no-cuda-headers` when there are none.
    """
    names: set[str] = set()
    for header in HEADERS:
        try:
            text = (include / header).read_text(errors="replace")
        except OSError as error:
            raise EvolveError("no-cuda-headers", f"{header} is not in {include}") from error
        for pattern in (_DECLARED, _RENAMED, _PER_THREAD):
            names.update(pattern.findall(text))
    if not names:
        raise EvolveError("no-cuda-headers", f"the headers in {include} declare no function of the driver")
    return tuple(sorted(names))


def stub_text(names: tuple[str, ...]) -> str:
    """C++ source of the library that exports `names`."""
    lines = [
        f'extern "C" int {name}() {{ return {_STUB_LIBRARY}; }}' for name in names if name not in _IN_WORDS
    ]
    # Callers print what these leave in their second argument, whatever they return.
    lines += [
        f'extern "C" int {name}(int, const char **words) '
        '{ *words = "this is a stand-in and no driver"; return 0; }'
        for name in _IN_WORDS
    ]
    return "\n".join(lines) + "\n"


def build_stub(compiler: HostCompiler, include: Path, folder: Path) -> Path:
    """Builds the library in `folder` and returns it, under the name that programs load.

    Beside it lies a link with the name that linkers look for. Raises EvolveError `no-cuda-headers`, and
    `stub-failed` when it does not compile.
    """
    source = folder / "driver.cpp"
    source.write_text(stub_text(declared_names(include)))
    library = folder / LIBRARY
    command = [*compiler.link_command, "-shared", "-fPIC", f"-Wl,-soname,{LIBRARY}"]
    try:
        done = subprocess.run(
            [*command, "-o", str(library), str(source)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LINK_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EvolveError("stub-failed", f"the stand-in for the driver was not built: {error}") from error
    if done.returncode != 0:
        raise EvolveError(
            "stub-failed", f"the stand-in for the driver does not compile: {done.stderr[-500:]}"
        )
    (folder / LIBRARY.removesuffix(".1")).symlink_to(LIBRARY)
    return library
