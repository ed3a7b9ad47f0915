"""`evolve doctor`: is everything here that a run needs? It can also install what measuring needs."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from evolve.cli import options

Probe = Callable[[], str]

_RIGHT = 'extern "C" __global__ void f(float *x) { x[threadIdx.x] = 1.0f; }'
_UNFIT = frozenset({"driver-too-old", "pycuda-broken", "nvcc-failed"})
"""What is there and cannot be used, as opposed to what is not there."""


def command(
    install_pycuda: Annotated[
        bool,
        typer.Option(
            "--install-pycuda",
            help="First build and install PyCUDA here, which measuring needs; no CUDA toolkit is needed.",
        ),
    ] = False,
    model: options.Model = None,
    api_base: options.ApiBase = None,
    context: options.Context = None,
    json: options.Json = False,
) -> int:
    """Check that this machine has what a run needs.

    With --model also that a language model has.

    Exit status 1 if something needed is missing or does not work; a GPU is not needed.
    """
    from contextlib import nullcontext

    from evolve.cli.model_checks import model_probes
    from evolve.cli.output import Output, note
    from evolve.ir.errors import EvolveError

    if model is None and (api_base is not None or context is not None):
        raise EvolveError("usage", "--api-base and --context belong to --model")
    # The keys leave this process before any other is started.
    asked = nullcontext(()) if model is None else model_probes(model, api_base, context)
    with Output(json) as output, asked as of_model:
        installed = None
        if install_pycuda:
            from evolve.toolchain.pycuda_install import install_pycuda as install

            installed = install(note).text
            output.text(installed)
        checks = [_check(name, probe, needed) for name, probe, needed in (*_PROBES, *of_model)]
        healthy = all(one["ok"] or not one["needed"] for one in checks)
        if output.as_json:
            output.document({"ok": healthy, "checks": checks, "installed": installed})
        output.text("\n".join(f"{_mark(one):8}{one['check']}: {one['detail']}" for one in checks))
        return 0 if healthy else 1


def _mark(one: dict[str, Any]) -> str:
    if one["ok"]:
        return "ok"
    if one["code"] == "not-asked":
        return "skipped"
    if one["needed"]:
        return "FAILED"
    return "unfit" if one["code"] in _UNFIT else "absent"


def _check(name: str, probe: Probe, needed: bool) -> dict[str, Any]:
    from evolve.ir.errors import EvolveError

    code: str | None = None
    try:
        return {"check": name, "ok": True, "needed": needed, "code": None, "detail": probe()}
    except EvolveError as error:
        code, detail = error.code, str(error)
    except Exception as error:  # a broken installation fails in ways of its own; that is the finding
        detail = f"{type(error).__name__}: {error}"
    return {"check": name, "ok": False, "needed": needed, "code": code, "detail": detail}


def _python() -> str:
    if not (3, 11) <= sys.version_info < (3, 14):
        raise RuntimeError(f"{platform.python_version()} is not 3.11 to 3.13")
    return platform.python_version()


def _libclang() -> str:
    import clang.cindex

    clang.cindex.Index.create()
    return "loads"


def _isl() -> str:
    import islpy

    if not islpy.Set("{ [i] : 0 <= i < 4 and i > 3 }").is_empty():
        raise RuntimeError("isl finds a point in an empty set")
    return "answers"


def _host_compiler() -> str:
    from evolve.toolchain.host_cxx import find_host_compiler

    found = find_host_compiler()
    return f"{' '.join(found.command)} ({found.kind} {found.version})"


def _conformance() -> str:
    from evolve.devices.sim.conformance import require

    require()
    return "shows memory accesses as written"


def _nvrtc() -> str:
    from evolve.toolchain.nvrtc import compile_cuda, nvrtc_version

    built = compile_cuda(_RIGHT, "sm_90")
    if not built.ok:
        raise RuntimeError(f"a kernel that is right does not compile: {built.log}")
    return "{}.{} compiles for sm_90".format(*nvrtc_version())


def _nvcc() -> str:
    from evolve.toolchain.nvcc import compile_with_nvcc, find_nvcc

    found = find_nvcc()
    built = compile_with_nvcc(_RIGHT, "sm_90", nvcc=found)
    if not built.ok:
        raise RuntimeError(f"a kernel that is right does not compile: {built.log}")
    return "{}.{} compiles for sm_90: {}".format(*found.version, found.path)


def _nvdisasm() -> str:
    from evolve.toolchain.tools import find_tool

    return str(find_tool("nvdisasm"))


def _profiles() -> str:
    from evolve.target.profile import list_profiles, load_profile

    stems = list_profiles()
    for stem in stems:
        load_profile(stem)
    return f"{len(stems)} read"


def _language() -> str:
    from evolve.dsl.registry import primitives

    return f"{len(primitives())} primitives"


def _driver() -> str:
    from evolve.toolchain.driver import driver_version, require
    from evolve.toolchain.nvrtc import nvrtc_version

    return require(driver_version(), nvrtc_version()).text


def _pycuda() -> str:
    from importlib.metadata import version

    from evolve.ir.errors import EvolveError
    from evolve.toolchain.driver import driver_version
    from evolve.toolchain.pycuda_install import import_pycuda

    if find_spec("pycuda") is None:
        raise EvolveError(
            "no-pycuda",
            "not installed; measuring needs it",
            hint="`evolve doctor --install-pycuda` builds it, without a CUDA toolkit",
        )
    try:
        driver_version()
    except EvolveError:
        return f"{version('pycuda')}; without a driver it cannot be imported"
    return import_pycuda(None).text


def _gpu() -> str:
    from evolve.devices.cuda.client import CudaWorker

    worker = CudaWorker()
    try:
        return worker.info.name
    finally:
        worker.close()


_PROBES: tuple[tuple[str, Probe, bool], ...] = (
    ("python", _python, True),
    ("libclang", _libclang, True),
    ("isl", _isl, True),
    ("host compiler", _host_compiler, True),
    ("host execution", _conformance, True),
    ("nvrtc", _nvrtc, True),
    ("nvdisasm", _nvdisasm, True),
    ("hardware profiles", _profiles, True),
    ("transform language", _language, True),
    ("nvcc", _nvcc, False),
    ("cuda driver", _driver, False),
    ("pycuda", _pycuda, False),
    ("cuda gpu", _gpu, False),
)
