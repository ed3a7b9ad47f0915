"""Installs PyCUDA in this Python's environment, on a machine without a CUDA toolkit and without a driver.

There is no wheel of PyCUDA; `pip install` builds it, and needs CUDA's headers, the driver's library to link
with, and a C++ compiler. Here the headers come from NVIDIA's wheels and the library is a stand-in made from
them (`driver_stub`); both lie in a temporary folder that is gone afterwards. PyCUDA's build reads where they
are from `~/.aksetup-defaults.py`: it gets a home folder of its own that shows everything in the user's but
that file. Nothing is changed before the build has succeeded.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import site
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evolve.ir.errors import EvolveError
from evolve.toolchain.commands import run_command
from evolve.toolchain.driver import driver_version, require
from evolve.toolchain.driver_stub import build_stub
from evolve.toolchain.host_cxx import HostCompiler, find_host_compiler

PYCUDA = "pycuda>=2025.1.2"
"""The requirement of the extra `[cuda]`. 2025.1 does not compile with CUDA 13's headers."""
HEADER_WHEELS = (
    "nvidia-cuda-runtime>=13.0,<13.1",
    "nvidia-cuda-crt>=13.0,<13.1",
    "nvidia-cuda-profiler-api>=13.0,<13.1",
)
"""The oldest headers of the major version: what is built with them runs on each of its drivers, while newer
ones may name functions that an older driver lacks."""
HEADERS = (13, 0)
"""Their CUDA version."""

_DOWNLOAD_LIMIT_S = 600.0
_BUILD_LIMIT_S = 1800.0
_CHECK_LIMIT_S = 120.0
_SETTINGS = ".aksetup-defaults.py"
_COMPILING = re.compile(r"\s-c (?P<file>\S+\.cpp)\s")
# The files of PyCUDA 2026.1 and its Boost, for the progress only.
_FILES = 38
_SAID_LINES = 15
_CHECK = "import pycuda, pycuda.driver as d; print(pycuda.VERSION_TEXT, *d.get_version())"
_CHECK_DEVICES = "; d.init(); print(d.Device.count())"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Imported:
    """A PyCUDA that a fresh process imported: its version, and the CUDA version of its headers.

    `devices` is how many the driver has; None when the import was against the stand-in.
    """

    version: str
    headers: str
    devices: int | None

    @property
    def text(self) -> str:
        """What was shown, in words."""
        built = f"PyCUDA {self.version}, built for CUDA {self.headers}, imports in a fresh process"
        if self.devices is None:
            return f"{built} against the stand-in for the driver, since there is no driver here"
        return f"{built} with the driver of this machine, which has {self.devices} device(s)"


def install_pycuda(say: Say) -> Imported:
    """Builds and installs PyCUDA, then imports it in a fresh process. `say` gets lines of progress.

    Does nothing but say so where it already works with the driver of this machine. Raises EvolveError
    `no-pip`, `no-pycuda-compiler` or `no-python-headers` when something is missing, `not-writable` or
    `externally-managed` where nothing can be installed, `driver-too-old` when what would be installed could
    not be used, and `pycuda-install` when a step fails, with its last words.
    """
    driver = _driver_here()
    if driver and importlib.util.find_spec("pycuda") is not None:
        with suppress(EvolveError):
            found = import_pycuda(None)
            say("nothing to do")
            return found
    compiler = pycuda_compiler()
    _require_pip()
    _require_python_headers()
    _require_installable()
    with tempfile.TemporaryDirectory(prefix="evolve-pycuda-") as name:
        folder = Path(name)
        say("1/5 CUDA's headers, from wheels")
        include = _headers(folder)
        say(f"2/5 a stand-in for the driver's library, with {compiler.kind} {compiler.version}")
        stub = folder / "stub"
        stub.mkdir()
        build_stub(compiler, include, stub)
        say("3/5 building PyCUDA, which takes minutes")
        wheel = _build(folder, include, stub, compiler, say)
        say(f"4/5 installing {wheel.name}")
        _pip(["uninstall", "-q", "-y", "pycuda"], "removing an older PyCUDA", folder)
        _pip(["install", "-q", str(wheel)], "installing PyCUDA", folder)
        importlib.invalidate_caches()
        say("5/5 importing it in a fresh process")
        return import_pycuda(None if driver else stub)


def pycuda_compiler(environ: Mapping[str, str] | None = None) -> HostCompiler:
    """The g++ that builds PyCUDA: `$CXX`, `g++` or `c++`, the first that is one.

    Current clang (so also Zig) rejects the Boost that PyCUDA ships. Raises EvolveError `no-pycuda-compiler`.
    """
    env = os.environ if environ is None else environ
    for name in dict.fromkeys((env.get("CXX", "").strip(), "g++", "c++")):
        if not name:
            continue
        with suppress(EvolveError):
            found = find_host_compiler({"CXX": name, "PATH": env.get("PATH", os.defpath)})
            if found.kind == "gcc":
                return found
    raise EvolveError(
        "no-pycuda-compiler",
        "PyCUDA is built from source and needs g++, which is neither $CXX nor on PATH",
        hint="apt install g++, or what your system calls it",
    )


def import_pycuda(stub: Path | None) -> Imported:
    """Imports PyCUDA's driver module in a new process: with the driver, or with the stand-in in `stub`.

    Raises EvolveError `pycuda-broken` when that fails, with the last line it said.
    """
    env = dict(os.environ)
    if stub is not None:
        env["LD_LIBRARY_PATH"] = os.pathsep.join([str(stub), *filter(None, [env.get("LD_LIBRARY_PATH")])])
    code = _CHECK if stub is not None else _CHECK + _CHECK_DEVICES
    # -P: nothing from the current folder.
    done = run_command([sys.executable, "-P", "-c", code], env=env, limit_s=_CHECK_LIMIT_S)
    words = done.stdout.split()
    if done.returncode != 0 or len(words) < 4:
        last = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
        raise EvolveError(
            "pycuda-broken",
            f"PyCUDA cannot be imported: {last}",
            hint="`evolve doctor --install-pycuda` builds it anew",
        )
    devices = int(words[4]) if stub is None else None
    return Imported(words[0], f"{words[1]}.{words[2]}", devices)


def _driver_here() -> bool:
    try:
        driver = driver_version()
    except EvolveError:
        return False
    require(driver, HEADERS)
    return True


def _require_pip() -> None:
    if importlib.util.find_spec("pip") is None:
        raise EvolveError("no-pip", "this Python has no pip", hint=f"{sys.executable} -m ensurepip")


def _require_python_headers() -> None:
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise EvolveError(
            "no-python-headers",
            f"Python.h of Python {version} is not installed",
            hint=f"apt install python{version}-dev, or what your system calls it",
        )


def _require_installable() -> None:
    """Raises EvolveError where pip would refuse what took minutes to build."""
    packages = Path(sysconfig.get_paths()["platlib"])
    if not os.access(packages, os.W_OK) and not site.ENABLE_USER_SITE:
        raise EvolveError("not-writable", f"packages cannot be installed in {packages}: it is not writable")
    marked = Path(sysconfig.get_paths()["stdlib"]) / "EXTERNALLY-MANAGED"
    if sys.prefix == sys.base_prefix and marked.is_file():
        hint = "install evolve in a virtual environment: python -m venv"
        raise EvolveError(
            "externally-managed", "this Python's packages are the system's: pip refuses", hint=hint
        )


def _headers(folder: Path) -> Path:
    """Unpacks the wheels with CUDA's headers in `folder`; returns the folder to include from."""
    target = folder / "headers"
    what = "fetching CUDA's headers"
    _pip(["install", "-q", "--no-deps", "--target", str(target), *HEADER_WHEELS], what, folder)
    found = sorted(target.rglob("cuda.h"))
    if not found:
        raise EvolveError("pycuda-install", f"no cuda.h is in {', '.join(HEADER_WHEELS)}")
    return found[0].parent


def _build(folder: Path, include: Path, stub: Path, compiler: HostCompiler, say: Say) -> Path:
    home = _home(
        folder / "home",
        f"CUDA_INC_DIR = {[str(include)]!r}\nCUDADRV_LIB_DIR = {[str(stub)]!r}\nCUDA_ENABLE_CURAND = False\n",
    )
    built = 0

    def progress(line: str) -> None:
        nonlocal built
        match = _COMPILING.search(line)
        if match is not None:
            built += 1
            say(f"    {built:2} of about {_FILES}: {Path(match['file']).name}")

    wheels = folder / "wheels"
    # A wheel in pip's cache may have been built with other headers: none is taken, and none is left there.
    _pip(
        ["wheel", "-v", "--no-deps", "--no-cache-dir", "--no-binary", "pycuda", "-w", str(wheels), PYCUDA],
        "building PyCUDA",
        folder,
        _BUILD_LIMIT_S,
        # Python's build machinery links with the C compiler, and g++ links either language.
        environ={"HOME": str(home), "CC": shlex.join(compiler.command), "CXX": shlex.join(compiler.command)},
        on_line=progress,
    )
    return next(wheels.glob("pycuda-*.whl"))


def _home(folder: Path, settings: str) -> Path:
    """A home folder with these settings for the build, that otherwise looks like the user's.

    So pip finds its configuration and credentials, and nothing in the real one changes.
    """
    folder.mkdir()
    with suppress(OSError, RuntimeError):
        for entry in Path.home().iterdir():
            if entry.name != _SETTINGS:
                (folder / entry.name).symlink_to(entry)
    (folder / _SETTINGS).write_text(settings)
    return folder


def _pip(
    arguments: list[str],
    what: str,
    folder: Path,
    limit_s: float = _DOWNLOAD_LIMIT_S,
    environ: Mapping[str, str] | None = None,
    on_line: Say | None = None,
) -> None:
    """Runs pip, whose own temporary files lie in `folder`: they go with it when pip is killed."""
    command = [sys.executable, "-m", "pip", *arguments]
    env = {**os.environ, "TMPDIR": str(folder), "PIP_DISABLE_PIP_VERSION_CHECK": "1", **(environ or {})}
    try:
        done = run_command(command, env=env, limit_s=limit_s, on_line=on_line)
    except subprocess.TimeoutExpired as error:
        raise EvolveError("pycuda-install", f"{what} took longer than {limit_s:.0f} s") from error
    if done.returncode != 0:
        last = "\n".join(done.stdout.rstrip().splitlines()[-_SAID_LINES:])
        raise EvolveError("pycuda-install", f"{what} failed; pip's last words:\n{last}")
