"""CUDA C++ text to a cubin by nvcc: the second compiler, with the same contract as `nvrtc.compile_cuda`.

nvcc is NVIDIA's driver program over the same front end, optimiser and assembler, but it may be of another
version than NVRTC, and it sees the host's headers. It comes from a toolkit, or from the `nvidia-cuda-nvcc`
wheel with those that it depends on. It needs a C++ compiler to preprocess with.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evolve.ir.errors import EvolveError
from evolve.toolchain.commands import run_command
from evolve.toolchain.compilation import (
    SOURCE_NAME,
    CompileResult,
    check_options,
    failed,
    made,
    nul_in,
)
from evolve.toolchain.tools import in_wheels

LIMIT_S = 60.0
"""What one compilation may take."""

_ASK_LIMIT_S = 30.0
_STANDARD = "-std=c++17"  # NVRTC's own default
_KEPT = ("PATH", "LD_LIBRARY_PATH", "NVCC_CCBIN")
_RELEASE = re.compile(r"\brelease (\d+)\.(\d+)")


@dataclass(frozen=True)
class Nvcc:
    """An nvcc that answered: where it lies, its CUDA version, and the targets it compiles for (`sm_90`)."""

    path: Path
    version: tuple[int, int]
    archs: tuple[str, ...]


def find_nvcc(environ: Mapping[str, str] | None = None) -> Nvcc:
    """The first nvcc that works: of `$CUDA_HOME`, `$CUDA_PATH`, on PATH, in a wheel, in /usr/local/cuda.

    `environ` (default: the process's) supplies these variables. Raises EvolveError `no-nvcc`.
    """
    env = os.environ if environ is None else environ
    for path in _places(env):
        if path.is_file() and os.access(path, os.X_OK):
            found = _ask(path)
            if found is not None:
                return found
    raise EvolveError(
        "no-nvcc",
        "nvcc is neither in $CUDA_HOME, $CUDA_PATH or /usr/local/cuda, nor on PATH, nor installed as a wheel",
        hint="pip install 'nvidia-cuda-nvcc>=13.0,<14'; NVRTC does without it",
    )


def compile_with_nvcc(
    text: str,
    arch: str = "sm_90",
    options: Sequence[str] = (),
    *,
    nvcc: Nvcc | None = None,
    limit_s: float = LIMIT_S,
) -> CompileResult:
    """Compiles `text` to machine code for `arch`, as `nvrtc.compile_cuda` does.

    A text that does not compile, or not within `limit_s` seconds, is a result with `ok` false. The compiler
    runs in an empty temporary folder and gets none of this process's variables but those that it needs.
    Raises EvolveError `unsupported-arch`, `bad-compile-option`, `no-nvcc` when there is none, and
    `nvcc-failed` when it cannot work on this machine, whatever the text.
    """
    found = find_nvcc() if nvcc is None else nvcc
    if arch not in found.archs and re.fullmatch(r"sm_\d+[af]", arch) is None:
        raise EvolveError(
            "unsupported-arch",
            f"nvcc {_dotted(found)} cannot compile for {arch}; it knows {', '.join(found.archs)}",
        )
    check_options(options)
    if (refused := nul_in(text)) is not None:
        return refused
    image, log = _compile(found.path, text, arch, options, limit_s)
    if image is not None:
        return made(image, log)
    _blame_machine(found.path, arch, tuple(options))
    return failed(log)


def _compile(
    path: Path, text: str, arch: str, options: Sequence[str], limit_s: float
) -> tuple[bytes | None, str]:
    """The image, None when there is none, and what nvcc said."""
    own = [] if any(o.startswith(("-std", "--std")) for o in options) else [_STANDARD]
    with tempfile.TemporaryDirectory(prefix="evolve-nvcc-") as name:
        folder = Path(name)
        (folder / SOURCE_NAME).write_text(text, encoding="utf-8")
        image = folder / "kernel.cubin"
        command = [str(path), "-cubin", f"-arch={arch}", *own, *options, "-o", image.name, SOURCE_NAME]
        try:
            done = run_command(command, env=_environment(folder), limit_s=limit_s, cwd=folder)
        except subprocess.TimeoutExpired:
            return None, f"nvcc did not end within {limit_s:g} s"
        except OSError as error:
            raise EvolveError("nvcc-failed", f"{path} did not run: {error}") from error
        log = done.stdout.rstrip()
        if done.returncode == 0 and image.is_file():
            return image.read_bytes(), log
        return None, log or f"nvcc ended with status {done.returncode} and said nothing"


@functools.lru_cache(maxsize=256)
def _trouble(path: Path, arch: str, options: tuple[str, ...]) -> str | None:
    """What nvcc says of a text that nothing is wrong with; None when it compiles it."""
    image, log = _compile(path, "__global__ void nothing() {}\n", arch, options, LIMIT_S)
    return log if image is None else None


def _blame_machine(path: Path, arch: str, options: tuple[str, ...]) -> None:
    """Raises what is not the text's fault.

    Asked of a text of our own: a text of somebody else's decides what stands in its log, and could blame
    the machine for its errors.
    """
    log = _trouble(path, arch, options)
    if log is None:
        return
    said = log.splitlines()[0]
    if options and _trouble(path, arch, ()) is None:
        raise EvolveError("bad-compile-option", f"nvcc rejects the options {list(options)}: {said}")
    if "gpu architecture" in log:
        raise EvolveError("unsupported-arch", f"nvcc cannot compile for {arch}: {said}")
    raise EvolveError(
        "nvcc-failed",
        f"nvcc cannot work here: {said}",
        hint="it needs a g++ of a version that it supports: on PATH, or named by $NVCC_CCBIN",
    )


def _environment(folder: Path) -> dict[str, str]:
    """Its messages are in English, its files in `folder`; flags of the user's would change what comes out."""
    kept = {n: os.environ[n] for n in _KEPT if n in os.environ}
    return {"PATH": os.defpath, **kept, "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C"}


def _places(env: Mapping[str, str]) -> list[Path]:
    roots = [env[n] for n in ("CUDA_HOME", "CUDA_PATH") if env.get(n)]
    on_path = shutil.which("nvcc", path=env.get("PATH", os.defpath))
    return [
        *(Path(root) / "bin" / "nvcc" for root in roots),
        *([Path(on_path)] if on_path else []),
        *in_wheels("nvcc"),
        Path("/usr/local/cuda/bin/nvcc"),
    ]


@functools.lru_cache(maxsize=32)
def _ask(path: Path) -> Nvcc | None:
    """Its version and targets; None when it does not answer as an nvcc does."""
    said = []
    with tempfile.TemporaryDirectory(prefix="evolve-nvcc-") as name:
        for question in ("--version", "--list-gpu-code"):
            try:
                done = run_command([str(path), question], env=_environment(Path(name)), limit_s=_ASK_LIMIT_S)
            except (OSError, subprocess.TimeoutExpired):
                return None
            if done.returncode != 0:
                return None
            said.append(done.stdout)
    release = _RELEASE.search(said[0])
    archs = sorted({int(number) for number in re.findall(r"^sm_(\d+)\s*$", said[1], re.MULTILINE)})
    if release is None or not archs:
        return None
    return Nvcc(path, (int(release[1]), int(release[2])), tuple(f"sm_{n}" for n in archs))


def _dotted(nvcc: Nvcc) -> str:
    return f"{nvcc.version[0]}.{nvcc.version[1]}"
