"""CUDA C++ text to a cubin, in this process, by NVRTC. No GPU and no driver are needed, and no PTX comes out.

The library comes from the `nvidia-cuda-nvrtc` wheel (or a toolkit that `cuda-bindings` finds). A compilation
takes tens of milliseconds; threads scale, because the binding releases the interpreter lock. NVRTC cannot be
interrupted: a text that makes the front end run for minutes holds its thread as long.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Sequence
from typing import Any

from evolve.ir.errors import EvolveError
from evolve.toolchain.compilation import (
    SOURCE_NAME,
    CompileResult,
    check_options,
    failed,
    made,
    nul_in,
)

_LOADING = threading.Lock()


def compile_cuda(text: str, arch: str = "sm_90", options: Sequence[str] = ()) -> CompileResult:
    """Compiles `text` to machine code for `arch` (`sm_NN`, also `sm_NNa`).

    A text that does not compile is a result with `ok` false, not an exception. Raises EvolveError
    `unsupported-arch` when this NVRTC has no such target, `bad-compile-option` when it rejects an option or
    the option would make it something other than this machine code, and `no-nvrtc` when the library cannot
    be loaded.
    """
    if arch not in supported_archs() and re.fullmatch(r"sm_\d+[af]", arch) is None:
        known = ", ".join(supported_archs())
        raise EvolveError(
            "unsupported-arch",
            f"NVRTC {'.'.join(map(str, nvrtc_version()))} cannot compile for {arch}; it knows {known}",
            hint="GPUs that it has no target for have bounds only: `evolve inspect`",
        )
    nvrtc = _nvrtc()
    check_options(options)
    if (refused := nul_in(text)) is not None:
        return refused
    words = [f"--gpu-architecture={arch}", *options]
    status, program = nvrtc.nvrtcCreateProgram(text.encode(), SOURCE_NAME.encode(), 0, [], [])
    _check(nvrtc, status, "nvrtcCreateProgram")
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(words), [w.encode() for w in words])
        log = _fetch(nvrtc, program, "ProgramLog").rstrip(b"\0 \n").decode(errors="replace")
        if status == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            raise _option_error(log, arch, options)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            return failed(log or status.name)
        return made(_fetch(nvrtc, program, "CUBIN"), log)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


@functools.cache
def supported_archs() -> tuple[str, ...]:
    """The targets of the loaded NVRTC, oldest first, as `sm_75`. Raises EvolveError `no-nvrtc`."""
    nvrtc = _nvrtc()
    status, archs = nvrtc.nvrtcGetSupportedArchs()
    _check(nvrtc, status, "nvrtcGetSupportedArchs")
    return tuple(f"sm_{number}" for number in sorted(archs))


@functools.cache
def nvrtc_version() -> tuple[int, int]:
    """Major and minor version of the loaded NVRTC. Raises EvolveError `no-nvrtc`."""
    nvrtc = _nvrtc()
    status, major, minor = nvrtc.nvrtcVersion()
    _check(nvrtc, status, "nvrtcVersion")
    return int(major), int(minor)


def _nvrtc() -> Any:
    with _LOADING:
        return _load()


@functools.cache
def _load() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # the binding opens the library on the first call
    except Exception as error:  # the loader's own exception classes differ between its versions
        raise EvolveError(
            "no-nvrtc",
            f"NVRTC could not be loaded: {error}",
            hint="pip install cuda-bindings nvidia-cuda-nvrtc",
        ) from error
    return nvrtc


def _fetch(nvrtc: Any, program: Any, what: str) -> bytes:
    status, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    _check(nvrtc, status, f"nvrtcGet{what}Size")
    # The binding writes into the object it is given. A literal such as b" " * 1 may be a shared constant, so
    # the buffer is a bytearray's copy of its own, at least two bytes long.
    buffer = bytes(bytearray(max(int(size), 2)))
    (status,) = getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
    _check(nvrtc, status, f"nvrtcGet{what}")
    return buffer[: int(size)]


def _check(nvrtc: Any, status: Any, call: str) -> None:
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise EvolveError("nvrtc-failed", f"{call} failed with {getattr(status, 'name', status)}")


def _option_error(log: str, arch: str, options: Sequence[str]) -> EvolveError:
    said = re.sub(r"^nvrtc: error: ", "", log.strip())
    if "gpu-architecture" in said:
        return EvolveError("unsupported-arch", f"NVRTC cannot compile for {arch}: {said}")
    return EvolveError("bad-compile-option", f"NVRTC rejects the options {list(options)}: {said}")
