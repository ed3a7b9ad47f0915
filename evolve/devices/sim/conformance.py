"""Does a host compiler report memory accesses as written? A fixed kernel, its exact expected trace.

The estimate and the checks rest on what the compiler's instrumentation shows, and that depends on compiler
and flags; so each compiler proves itself once, and a marker in the cache remembers it.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.sim import job as wire
from evolve.devices.sim.build import NATIVE, HostProgram, compile_host, default_cache_dir, identity
from evolve.devices.sim.elf import LineTable
from evolve.devices.sim.execute import job_launches, raw_bytes
from evolve.devices.sim.findings import SKIPPED_FILES
from evolve.devices.sim.process import run_job
from evolve.ir.errors import EvolveError
from evolve.toolchain.host_cxx import HostCompiler, find_host_compiler

Access = tuple[int | None, str, str, int, int]
"""(line, r w or a, buffer, byte offset, bytes)"""

_THREADS = 4
_ARRAYS = {
    "x": ("float32", 64), "y": ("float32", 128), "d": ("float64", 4), "bytes": ("uint8", 4),
    "halves": ("int16", 4),
    "counts": ("int32", 1), "t3": ("float32", 12),
}  # fmt: skip


def expected(t: int) -> list[Access]:
    """The accesses of thread `t` of the only block, in order."""
    before: list[Access] = [
        (15, "r", "x", 4 * t, 4),
        (16, "w", "y", 4 * t, 4),
        (17, "r", "x", 16 * t, 16),
        (19, "w", "y", 64 + 16 * t, 16),
        (21, "w", "y", 128 + 16 * t, 16),
        (22, "r", "x", 8 * t, 8),
        (23, "w", "y", 256 + 8 * t, 8),
        (24, "r", "x", 16 * t + 8, 4),
        (25, "w", "y", 320 + 16 * t + 12, 4),
        (26, "r", "d", 8 * t, 8),
        (27, "w", "bytes", t, 1),
        (28, "r", "halves", 2 * t, 2),
        (29, "r", "y", 400 + 4 * t, 4),
        (29, "w", "y", 400 + 4 * t, 4),
        (30, "w", "s", 4 * t, 4),
        (31, "w", "q", 64 + 16 * t, 16),
        (33, "r", "q", 64 + 16 * (3 - t), 16),
        (34, "r", "s", 4 * (t ^ 1), 4),
        (35, "w", "y", 440 + 4 * t, 4),
    ]
    loads: list[Access] = [(38, "r", "x", 16 * i + 4 * t, 4) for i in range(4)]
    wide: list[Access] = [(40, "r", "x", 32 * i + 16 * (t & 1), 16) for i in range(2)]
    after: list[Access] = [(43, "w", "y", 480 + 4 * t, 4), (44, "a", "counts", 0, 4)]
    parts: list[Access] = [(45, "r", "t3", 12 * t + 4 * i, 4) for i in range(3)]
    back: list[Access] = [(47, "w", "t3", 12 * t + 4 * i, 4) for i in range(3)]
    return before + loads + wide + after + parts + back


def record(program: HostProgram) -> dict[int, list[Access]]:
    """The accesses that `program`, built from the conformance file, really reports, for each thread."""
    arrays = {n: np.ones(count, dtype) for n, (dtype, count) in _ARRAYS.items()}
    names = list(arrays)
    buffers = [wire.JobBuffer(a.nbytes, a.itemsize, False, False, raw_bytes(a)) for a in arrays.values()]
    args: list[BufferArg | ScalarArg] = [BufferArg(n) for n in names]
    args.append(ScalarArg("n", "i32", _THREADS))
    launch = ConcreteLaunch("conformance", tuple(args), (1, 1, 1), (_THREADS, 1, 1))
    made = job_launches(program, [launch], {n: i for i, n in enumerate(names)})
    spec = wire.JobSpec(wire.RECORD, 0, buffers, made, [(0, 0, 0)], 2**62, 5_000_000, 1 << 17, 4)
    with wire.Job(spec) as job:
        ended = run_job(program, job, time_limit_s=5.0, memory_limit_bytes=1 << 30)
        if job.header()["status"] != wire.FINISHED:
            raise EvolveError(
                "sim.conformance", f"the conformance kernel did not finish: {ended.stderr.strip()[-300:]}"
            )
        shared = {d.id: d.name for d in program.shared}
        places = [(job.arena_offsets[i], arrays[n].nbytes, n) for i, n in enumerate(names)]
        places += [(at, size, shared.get(ident, "?")) for ident, size, at in job.shared_arrays()]
        lines = LineTable(program.path.read_bytes())
        out: dict[int, list[Access]] = {t: [] for t in range(_THREADS)}
        for _block, thread, pc, offset, size, kind in job.records():
            found = lines.lookup(pc - 1, SKIPPED_FILES)
            base, _, name = next((p for p in places if p[0] <= offset < p[0] + p[1]), (0, 0, "?"))
            out[thread].append((found[1] if found else None, "rwa"[kind], name, offset - base, size))
        return out


def difference(compiler: HostCompiler, cache_dir: Path) -> str | None:
    """None when `compiler` conforms, else the first difference in words."""
    text = (NATIVE / "conformance.cu").read_text(encoding="utf-8")
    program = compile_host(
        text, ["conformance"], cache_dir, compiler=compiler, name="conformance.cu", verify=False
    )
    got = record(program)
    for t in range(_THREADS):
        want = expected(t)
        for i in range(max(len(want), len(got[t]))):
            w = want[i] if i < len(want) else None
            g = got[t][i] if i < len(got[t]) else None
            if w != g:
                return f"thread {t}, access {i}: expected {w}, the compiler shows {g}"
    return None


@functools.lru_cache(maxsize=16)
def _verdict(kind: str, command: tuple[str, ...], version: str, cache_dir: Path) -> str | None:
    compiler = HostCompiler(kind, list(command), version)  # type: ignore[arg-type]
    marker = cache_dir / f"conforms-{identity(compiler)}"
    if marker.exists():
        return None
    found = difference(compiler, cache_dir)
    if found is None:
        marker.touch()
    return found


def require(compiler: HostCompiler | None = None, cache_dir: Path | None = None) -> None:
    """Raises EvolveError `sim.conformance` when `compiler` does not show memory accesses as written."""
    cxx = compiler or find_host_compiler()
    found = _verdict(cxx.kind, tuple(cxx.command), cxx.version, cache_dir or default_cache_dir())
    if found is not None:
        raise EvolveError(
            "sim.conformance",
            f"{' '.join(cxx.command)} ({cxx.kind} {cxx.version}) does not show memory accesses as written: "
            f"{found}",
            hint="use g++ 12 or newer, clang++ 14 or newer, or pip install ziglang and unset CXX",
        )
