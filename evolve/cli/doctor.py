"""`evolve doctor`: is everything here that a run needs?"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from typing import Any

from evolve.cli import options

Probe = Callable[[], str]


def command(json: options.Json = False) -> int:
    """Check that this machine has what a run needs.

    Exit status 1 if something needed is missing or does not work; a GPU is not needed.
    """
    from evolve.cli.output import Output

    with Output(json) as output:
        checks = [_check(name, probe, needed) for name, probe, needed in _PROBES]
        healthy = all(one["ok"] or not one["needed"] for one in checks)
        if output.as_json:
            output.document({"ok": healthy, "checks": checks})
        marks = {(True, True): "ok", (True, False): "ok", (False, True): "FAILED", (False, False): "absent"}
        lines = [f"{marks[one['ok'], one['needed']]:8}{one['check']}: {one['detail']}" for one in checks]
        output.text("\n".join(lines))
        return 0 if healthy else 1


def _check(name: str, probe: Probe, needed: bool) -> dict[str, Any]:
    from evolve.ir.errors import EvolveError

    try:
        return {"check": name, "ok": True, "needed": needed, "detail": probe()}
    except EvolveError as error:
        detail = str(error)
    except Exception as error:  # a broken installation fails in ways of its own; that is the finding
        detail = f"{type(error).__name__}: {error}"
    return {"check": name, "ok": False, "needed": needed, "detail": detail}


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

    compile_cuda('extern "C" __global__ void f(float *x) { x[threadIdx.x] = 1.0f; }', "sm_90")
    return "{}.{} compiles for sm_90".format(*nvrtc_version())


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
    ("cuda gpu", _gpu, False),
)
