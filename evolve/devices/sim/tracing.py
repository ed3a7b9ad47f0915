"""Memory traffic of sampled blocks at the real size, as warp requests, sectors and wavefronts.

Buffers are mapped lazily; a page gets its content (a hash of the element index) when first touched, so
extents may be far larger than memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from evolve.codegen.launch import ConcreteLaunch, Dim3, scratch_of
from evolve.devices.sim import job as wire
from evolve.devices.sim.build import HostProgram
from evolve.devices.sim.elf import LineTable
from evolve.devices.sim.execute import Array, check_launches, job_launches, lost, raw_bytes, refuse_status
from evolve.devices.sim.findings import SKIPPED_FILES, BufferName, Finding, collect
from evolve.devices.sim.process import run_job
from evolve.ir.errors import EvolveError

_GIVEN = 4
"""The fill code of a buffer whose content is in the job (`native/trace.h`)."""


@dataclass(frozen=True)
class TraceBuffer:
    """An array of the trace: element type (a numpy name), number of elements, and for integers the range
    `[lo, hi]` of its content. Floats are uniform in [-1, 1). `data` is the content where it matters, as for
    index arrays."""

    dtype: str
    elements: int
    lo: int = 0
    hi: int = 1
    data: Array | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SiteTraffic:
    """One access site (an instruction), summed over the sampled blocks.

    `requests` are warp-level instructions, `lanes` their active threads, `bytes` what the lanes asked for,
    `sectors` distinct 32-byte sectors request by request (global), `wavefronts` passes over the 32 banks
    (shared), `ideal_wavefronts` the passes that the same requests need without bank conflicts. `lines` are
    distinct 128-byte lines request by request (global), `partial_lines` those in which a store fills some
    sector only in part.
    """

    line: int | None
    space: str
    write: bool
    size: int
    requests: int
    lanes: int
    bytes: int
    sectors: int
    wavefronts: int
    ideal_wavefronts: int
    lines: int = 0
    partial_lines: int = 0


@dataclass(frozen=True)
class TraceStats:
    """One launch: averages for each sampled block, unless the name says `set`.

    Global memory: `load_requests`, `store_requests` (warp instructions), `load_sectors`, `store_sectors`
    (32-byte sectors summed over requests), `load_bytes`, `store_bytes` (asked for by lanes);
    `unique_*` count each sector or byte once for each block; `set_sectors_*` once for the whole sampled set,
    so that unique_sectors_read * blocks / set_sectors_read is the reuse that a cache shared by neighbouring
    blocks can find. Shared memory: requests, bytes and wavefronts. `barriers` count block barriers,
    `shuffles` warp-level shuffle and vote instructions.
    """

    kernel: str
    blocks: int
    grid_blocks: int
    threads: int
    load_requests: float
    store_requests: float
    load_sectors: float
    store_sectors: float
    load_bytes: float
    store_bytes: float
    unique_sectors_read: float
    unique_sectors_written: float
    unique_bytes_read: float
    unique_bytes_written: float
    set_sectors_read: int
    set_sectors_written: int
    shared_load_requests: float
    shared_store_requests: float
    shared_load_wavefronts: float
    shared_store_wavefronts: float
    shared_bytes: float
    barriers: float
    shuffles: float
    syncwarps: float
    atomics: float
    static_shared_bytes: int
    sites: tuple[SiteTraffic, ...]

    @property
    def sectors_per_load(self) -> float:
        """Sectors per load request: 4 for 32 lanes reading consecutive floats, 32 when every lane strays."""
        return self.load_sectors / self.load_requests if self.load_requests else 0.0

    @property
    def sectors_per_store(self) -> float:
        """Sectors per store request."""
        return self.store_sectors / self.store_requests if self.store_requests else 0.0

    @property
    def bank_conflict(self) -> float:
        """Shared-memory wavefronts over what the same requests need without any conflict; 1.0 is none."""
        ideal = sum(s.ideal_wavefronts for s in self.sites)
        return sum(s.wavefronts for s in self.sites) / ideal if ideal else 1.0


def sample_blocks(grid: Dim3, count: int = 4) -> list[int]:
    """`count` neighbouring linear block numbers from the middle of the grid, its edges avoided."""
    total = grid[0] * grid[1] * grid[2]
    count = min(count, total)
    start = max(0, (total - count) // 2)
    row = start // grid[0] * grid[0]
    if count <= grid[0]:
        start = min(start, row + grid[0] - count)
    return list(range(start, start + count))


def trace(
    program: HostProgram,
    launches: Sequence[ConcreteLaunch],
    buffers: Mapping[str, TraceBuffer],
    blocks: Sequence[Sequence[int]] | None = None,
    *,
    time_limit_s: float = 30.0,
    memory_limit_mb: int = 1536,
    stack_kb: int = 128,
) -> tuple[TraceStats, ...]:
    """Run the sampled `blocks` (linear numbers, for each launch; default `sample_blocks`) of each launch.

    Raises EvolveError `sim.trace` when the code does something wrong on the way (out of bounds, hang, crash),
    `sim.launch`, `sim.memory` and `sim.limit` as `execute` does.
    """
    if not program.instrumented:
        raise EvolveError("sim.trace", "only an instrumented program can be traced")
    check_launches(program, launches, set(buffers))
    own = scratch_of(launches).values()
    buffers = {**buffers, **{s.name: TraceBuffer(s.numpy, s.elements) for s in own}}
    names = list(buffers)
    raw = []
    for i, name in enumerate(names):
        b = buffers[name]
        dtype = np.dtype(b.dtype)
        fill = {"f4": 1, "f8": 2}.get(dtype.str[1:], 3 if dtype.kind in "iub" else 0)
        size, data = b.elements * dtype.itemsize, None
        if b.data is not None:
            if b.data.nbytes != size:
                raise EvolveError("sim.launch", f"array {name} has {size} bytes, {b.data.nbytes} are given")
            fill, data = _GIVEN, raw_bytes(np.ascontiguousarray(b.data))
        raw.append(wire.JobBuffer(size, dtype.itemsize, False, False, data, fill, i + 1, b.lo, b.hi))
    made = job_launches(program, launches, {n: i for i, n in enumerate(names)})
    for i, (ln, m) in enumerate(zip(launches, made, strict=True)):
        m.blocks = list(blocks[i]) if blocks is not None else sample_blocks(ln.grid)
        total = ln.grid[0] * ln.grid[1] * ln.grid[2]
        if not m.blocks or min(m.blocks) < 0 or max(m.blocks) >= total:
            raise EvolveError("sim.launch", f"{ln.kernel}: sampled blocks must lie in 0..{total - 1}")
    spec = wire.JobSpec(
        wire.TRACE, 2, raw, made, [(0, 0, 0)], 2**62, int(time_limit_s * 1e6), stack_kb << 10, 8
    )
    with wire.Job(spec) as job:
        ended = run_job(program, job, time_limit_s=time_limit_s, memory_limit_bytes=memory_limit_mb << 20)
        status = job.header()["status"]
        refuse_status(status, ended, launches)
        places = [
            BufferName(n, job.arena_offsets[i], raw[i].nbytes, raw[i].elem) for i, n in enumerate(names)
        ]
        findings: tuple[Finding, ...] = collect(job, program, launches, places)
        findings += lost(status, ended, launches[0].kernel)
        if findings:
            raise EvolveError("sim.trace", findings[0].message, line=findings[0].line)
        lines = LineTable(program.path.read_bytes())
        sites, stats = job.sites(), job.stats()
        return tuple(
            _stats(ln, stats[i], [s for s in sites if s["launch"] == i], lines)
            for i, ln in enumerate(launches)
        )


def _stats(
    launch: ConcreteLaunch, s: dict[str, int], sites: list[dict[str, int]], lines: LineTable
) -> TraceStats:
    n = max(s["blocks"], 1)

    def total(space: int, write: int, field: str) -> float:
        return sum(x[field] for x in sites if x["space"] == space and x["write"] == write) / n

    traffic = []
    for x in sites:
        found = lines.lookup(x["pc"] - 1, SKIPPED_FILES)
        traffic.append(
            SiteTraffic(
                found[1] if found else None, "shared" if x["space"] else "global", bool(x["write"]),
                x["size"],
                x["requests"], x["lanes"], x["bytes"], x["sectors"], x["wavefronts"],
                x["ideal"], x["lines"], x["partial_lines"],
            )
        )  # fmt: skip
    return TraceStats(
        kernel=launch.kernel,
        blocks=s["blocks"],
        grid_blocks=launch.grid[0] * launch.grid[1] * launch.grid[2],
        threads=launch.block[0] * launch.block[1] * launch.block[2],
        load_requests=total(0, 0, "requests"),
        store_requests=total(0, 1, "requests"),
        load_sectors=total(0, 0, "sectors"),
        store_sectors=total(0, 1, "sectors"),
        load_bytes=total(0, 0, "bytes"),
        store_bytes=total(0, 1, "bytes"),
        unique_sectors_read=s["block_sectors_read"] / n,
        unique_sectors_written=s["block_sectors_written"] / n,
        unique_bytes_read=s["block_bytes_read"] / n,
        unique_bytes_written=s["block_bytes_written"] / n,
        set_sectors_read=s["set_sectors_read"],
        set_sectors_written=s["set_sectors_written"],
        shared_load_requests=total(1, 0, "requests"),
        shared_store_requests=total(1, 1, "requests"),
        shared_load_wavefronts=total(1, 0, "wavefronts"),
        shared_store_wavefronts=total(1, 1, "wavefronts"),
        shared_bytes=total(1, 0, "bytes") + total(1, 1, "bytes"),
        barriers=s["barriers"] / n,
        shuffles=s["shuffles"] / n,
        syncwarps=s["syncwarps"] / n,
        atomics=s["atomics"] / n,
        static_shared_bytes=s["shared_bytes"],
        sites=tuple(sorted(traffic, key=lambda t: (t.line or 0, t.space, t.write))),
    )
