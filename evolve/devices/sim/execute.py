"""Runs launches on the CPU, thread by thread, under checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg, scratch_of
from evolve.devices.sim import job as wire
from evolve.devices.sim.build import HostProgram
from evolve.devices.sim.findings import BufferName, Finding, collect
from evolve.devices.sim.process import Ended, run_job
from evolve.ir.errors import EvolveError

Array = np.ndarray[Any, np.dtype[Any]]
_ORDERS = {"forward": 0, "reversed": 1, "permuted": 2}


@dataclass(frozen=True)
class ExecOptions:
    """How to run.

    `orders`: each of forward, reversed, permuted runs everything once, from fresh arrays, with threads and
    blocks in that order. `inout`: writable arrays that keep their content; all other writable ones start
    poisoned and uninitialised. `quantum`: accesses of one thread between two barriers before it counts as
    hung. Times in seconds (CPU), memory in MiB.
    """

    orders: tuple[str, ...] = ("forward",)
    inout: frozenset[str] = frozenset()
    seed: int = 0
    time_limit_s: float = 20.0
    memory_limit_mb: int = 2048
    quantum: int = 50_000_000
    stack_kb: int = 128
    max_findings: int = 32


@dataclass(frozen=True)
class Execution:
    """What came out. `outputs` holds the writable arrays after the first order's run; `written` says, element
    by element, what the run wrote; `order_sensitive` names arrays that ended up different in another order.
    """

    outputs: dict[str, Array]
    written: dict[str, Array]
    findings: tuple[Finding, ...]
    order_sensitive: tuple[str, ...] = ()
    accesses: int = 0
    seconds: float = 0.0
    grain: int = field(default=4, repr=False)

    @property
    def ok(self) -> bool:
        """No finding at all."""
        return not self.findings


def execute(
    program: HostProgram,
    launches: Sequence[ConcreteLaunch],
    arrays: Mapping[str, Array],
    writable: AbstractSet[str],
    options: ExecOptions | None = None,
) -> Execution:
    """Run `launches` in order on `arrays` (never changed), each block's threads as fibers, under race,
    bounds, initialisation, alignment and barrier checks. Scratch memory begins as poisoned arrays do.

    Returns findings for what the device code does wrong. Raises EvolveError `sim.launch` when a launch does
    not fit its kernel (arguments, unknown names, more than 1024 threads), `sim.memory` when the arrays do not
    fit the memory limit.
    """
    opts = options or ExecOptions()
    held = {name: np.ascontiguousarray(a) for name, a in arrays.items()}
    check_launches(program, launches, set(held))
    held |= {s.name: np.empty(s.elements, s.numpy) for s in scratch_of(launches).values()}
    unknown = sorted((set(writable) | opts.inout) - set(held))
    if unknown:
        raise EvolveError("sim.launch", f"no array is called {unknown[0]!r}")
    grain = 2 if all(a.itemsize % 4 == 0 for a in held.values()) else 0
    result = _run(program, launches, held, writable, opts, grain)
    if result is None:  # an access narrower than the shadow memory's granule
        result = _run(program, launches, held, writable, opts, 0)
        assert result is not None
    return result


def check_launches(program: HostProgram, launches: Sequence[ConcreteLaunch], names: AbstractSet[str]) -> None:
    """Raises EvolveError `sim.launch` unless every launch can be made."""
    if not launches:
        raise EvolveError("sim.launch", "there is nothing to launch")
    for ln in launches:
        if ln.kernel not in program.entries:
            raise EvolveError("sim.launch", f"the program has no kernel {ln.kernel!r}")
        if min(*ln.grid, *ln.block) < 1 or ln.block[0] * ln.block[1] * ln.block[2] > 1024:
            raise EvolveError(
                "sim.launch", f"{ln.kernel}: grid {ln.grid}, block {ln.block} cannot be launched"
            )
        for a in ln.args:
            if isinstance(a, BufferArg) and a.name not in names:
                raise EvolveError("sim.launch", f"{ln.kernel}: no array is called {a.name!r}")


def job_launches(
    program: HostProgram, launches: Sequence[ConcreteLaunch], numbers: Mapping[str, int]
) -> list[wire.JobLaunch]:
    """Launches as the job file has them. `numbers` gives the place of each array and scratch buffer."""
    out = []
    for ln in launches:
        args = [
            wire.scalar(a.dtype, a.value) if isinstance(a, ScalarArg) else (0, numbers[a.name])
            for a in ln.args
        ]
        out.append(wire.JobLaunch(program.entries.index(ln.kernel), ln.grid, ln.block, ln.shared_bytes, args))
    return out


def refuse_status(status: int, ended: Ended, launches: Sequence[ConcreteLaunch]) -> None:
    """Raises EvolveError for ends that are the caller's fault or the machine's."""
    kernel = launches[0].kernel
    if status == wire.BAD_CALL:
        raise EvolveError("sim.launch", f"{kernel}: the arguments do not fit the kernel's parameters")
    if status == wire.NO_MEMORY or ended.killed == "memory":
        raise EvolveError("sim.memory", f"{kernel}: host execution needs more memory than it may use")
    if status == wire.LIMIT:
        raise EvolveError(
            "sim.limit",
            f"{kernel}: beyond what host execution can follow (shared memory, barriers or blocks)",
        )
    if status == 0:
        raise EvolveError("sim.load", f"{kernel}: the program did not start: {ended.stderr.strip()[-300:]}")


def lost(status: int, ended: Ended, kernel: str) -> tuple[Finding, ...]:
    """The finding for a child that ended without saying why."""
    if status in (wire.FINISHED, wire.STOPPED):
        return ()
    if ended.killed == "time" or ended.returncode in (-24, -9):
        return (
            Finding("timeout", kernel, None, None, None, (), f"{kernel}: still running at the time limit"),
        )
    if ended.returncode == -31:
        text = f"{kernel}: the code made a system call"
    else:
        text = f"{kernel}: the process ended with status {ended.returncode}"
    return (Finding("crash", kernel, None, None, None, (), text),)


def raw_bytes(array: Array) -> memoryview:
    """The bytes of a contiguous array, without a copy."""
    flat: Any = array.reshape(-1).view(np.uint8)
    return memoryview(flat)


def poison_byte(dtype: np.dtype[Any]) -> int:
    """0xff makes every float a NaN; 0xa5 is unlikely in integers."""
    return 0xFF if dtype.kind == "f" else 0xA5


def _run(
    program: HostProgram,
    launches: Sequence[ConcreteLaunch],
    arrays: Mapping[str, Array],
    writable: AbstractSet[str],
    opts: ExecOptions,
    grain: int,
) -> Execution | None:
    names = list(arrays)
    own = scratch_of(launches).keys()
    buffers = []
    for name in names:
        a = arrays[name]
        poisoned = name in own or (name in writable and name not in opts.inout)
        buffers.append(
            wire.JobBuffer(
                a.nbytes, a.itemsize, name not in writable and name not in own, poisoned,
                None if poisoned else raw_bytes(a), 0, poison_byte(a.dtype),
            )
        )  # fmt: skip
    spec = wire.JobSpec(
        wire.CHECK if program.instrumented else wire.PLAIN, grain, buffers,
        job_launches(program, launches, {n: i for i, n in enumerate(names)}),
        [(_ORDERS[o], _ORDERS[o], opts.seed + 1) for o in opts.orders], opts.quantum,
        int(opts.time_limit_s * 1e6), opts.stack_kb << 10, opts.max_findings,
    )  # fmt: skip
    with wire.Job(spec) as job:
        ended = run_job(
            program, job, time_limit_s=opts.time_limit_s, memory_limit_bytes=opts.memory_limit_mb << 20
        )
        header = job.header()
        if header["status"] == wire.NEED_BYTES:
            return None
        refuse_status(header["status"], ended, launches)
        places = [
            BufferName(n, job.arena_offsets[i], arrays[n].nbytes, arrays[n].itemsize)
            for i, n in enumerate(names)
        ]
        findings = collect(job, program, launches, places) + lost(header["status"], ended, launches[0].kernel)
        outputs: dict[str, Array] = {}
        written: dict[str, Array] = {}
        for i, name in enumerate(names):
            if name not in writable:
                continue
            a = arrays[name]
            outputs[name] = np.frombuffer(job.output(i), a.dtype).reshape(a.shape)
            if program.instrumented:
                cells = np.frombuffer(job.written(i), np.uint8).reshape(-1, max(a.itemsize >> grain, 1))
                written[name] = ((cells & 8) != 0).all(axis=1).reshape(a.shape)
        sensitive = tuple(n for i, n in enumerate(names) if n in writable and job.differs(i))
        return Execution(outputs, written, findings, sensitive, header["accesses"], ended.seconds, 1 << grain)
