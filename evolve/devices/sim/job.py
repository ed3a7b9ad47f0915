"""The binary job shared with the native runtime (`native/job.h`): layout, writing, reading.

Everything is little-endian u64; offsets count from the start of the file.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass, field
from typing import Final

PAGE: Final = 4096
GUARD: Final = 1 << 20
SHARED_SPAN: Final = 1 << 20
ARENA_HEAD: Final = (1 << 16) + SHARED_SPAN
MAX_SITES: Final = 8192
MAX_SHARED: Final = 64
MAX_RECORDS: Final = 65536
CELL_BYTES: Final = 32
SECTOR_BYTES: Final = 20

CHECK, TRACE, PLAIN, RECORD = range(4)
STARTED, FINISHED, STOPPED, NEED_BYTES, BAD_CALL, NO_MEMORY, LIMIT = range(1, 8)


def _fields(text: str) -> list[str]:
    return text.split()


_HEADER: Final = _fields(
    "magic mode grain n_buffers n_launches n_orders n_sampled off_buffers off_launches off_orders "
    "off_sampled off_findings max_findings off_sites max_sites off_stats off_shared max_shared "
    "off_records max_records "
    "quantum time_us stack_bytes arena_bytes shared_span status n_findings n_sites text_base runs_done "
    "accesses n_shared n_records"
)
_FINDING: Final = _fields(
    "kind launch order pc other_pc offset size write block_a thread_a block_b thread_b line other_line extra "
    "n_hints"
)
_SITE: Final = _fields(
    "pc launch space write size requests lanes sectors wavefronts ideal bytes lines partial_lines"
)
_STATS: Final = _fields(
    "blocks warps barriers shuffles syncwarps atomics requests_load requests_store block_sectors_read "
    "block_sectors_written block_bytes_read block_bytes_written set_sectors_read set_sectors_written "
    "shared_bytes pad"
)


@dataclass
class JobBuffer:
    """One buffer: `data` is its content (None: poison or lazy fill), sizes in bytes."""

    nbytes: int
    elem: int
    readonly: bool = False
    poisoned: bool = False
    data: memoryview | None = None
    fill: int = 0
    seed: int = 0
    lo: int = 0
    hi: int = 1


@dataclass
class JobLaunch:
    """One launch: `args` are (kind, raw 8 bytes as int); kind 0 names a buffer by number."""

    kernel: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    args: list[tuple[int, int]]
    blocks: list[int] = field(default_factory=list)


@dataclass
class JobSpec:
    """A whole job. `orders` are (thread order, block order, seed) with 0 forward, 1 reversed, 2 permuted."""

    mode: int
    grain: int
    buffers: list[JobBuffer]
    launches: list[JobLaunch]
    orders: list[tuple[int, int, int]]
    quantum: int
    time_us: int
    stack_bytes: int
    max_findings: int


def scalar(kind: str, value: int | float) -> tuple[int, int]:
    """A by-value argument as (kind, bits). `kind` is a C type's short name: f32, f64, i32, u32, i64, u64."""
    if kind.startswith("f"):
        return 3, int(struct.unpack("<Q", struct.pack("<d", float(value)))[0])
    number = int(value)
    if kind == "u64":
        return 2, number & (2**64 - 1)
    return 1, number & (2**64 - 1)


class Job:
    """The job in an anonymous memory file. Use as a context manager."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self._place()
        self.fd = os.memfd_create("evolve-job", 0)
        try:
            os.ftruncate(self.fd, self.size)
            self._map = mmap.mmap(self.fd, self.size)
        except BaseException:
            os.close(self.fd)
            raise
        self._write()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *exc: object) -> None:
        self._map.close()
        os.close(self.fd)

    # ---- layout ---------------------------------------------------------------------------------
    def _place(self) -> None:
        s = self.spec
        at = 8 * len(_HEADER)

        def take(nbytes: int, align: int = 8) -> int:
            nonlocal at
            at = -(-at // align) * align
            start = at
            at += nbytes
            return start

        self._off_buffers = take(8 * 12 * len(s.buffers))
        self._off_launches = take(8 * 12 * len(s.launches))
        self._off_orders = take(8 * 4 * len(s.orders))
        self._off_args = [take(16 * len(ln.args)) for ln in s.launches]
        self._off_blocks = [take(8 * len(ln.blocks)) for ln in s.launches]
        self._off_findings = take(8 * 32 * s.max_findings)
        self._off_sites = take(8 * len(_SITE) * (MAX_SITES if s.mode == TRACE else 0))
        self._off_stats = take(8 * len(_STATS) * len(s.launches))
        self._off_shared = take(24 * MAX_SHARED)
        self._off_records = take(48 * MAX_RECORDS if s.mode == RECORD else 0)
        self._data: list[tuple[int, int, int]] = []
        arena = -(-ARENA_HEAD // PAGE) * PAGE + GUARD
        self.arena_offsets: list[int] = []
        for b in s.buffers:
            data = take(b.nbytes, PAGE) if b.data is not None else 0
            keep = s.mode != TRACE and not b.readonly
            out = take(b.nbytes, PAGE) if keep else 0
            mask = take(b.nbytes >> s.grain, PAGE) if keep and s.mode == CHECK else 0
            self._data.append((data, out, mask))
            self.arena_offsets.append(arena)
            arena += -(-b.nbytes // PAGE) * PAGE + GUARD
        self.arena_bytes = arena
        self.size = -(-at // PAGE) * PAGE

    def address_space(self) -> int:
        """Bytes of address space the runtime maps, all lazily, besides what the process has."""
        threads = max(ln.block[0] * ln.block[1] * ln.block[2] for ln in self.spec.launches)
        total = self.arena_bytes + self.size + (threads + 1) * self.spec.stack_bytes
        if self.spec.mode == CHECK:
            total += (self.arena_bytes >> self.spec.grain) * (CELL_BYTES * 2 + 1)
        elif self.spec.mode == TRACE:
            total += (self.arena_bytes >> 5) * 24 + (self.arena_bytes >> 12)
        return total

    # ---- writing --------------------------------------------------------------------------------
    def _pack(self, at: int, *values: int) -> None:
        struct.pack_into(f"<{len(values)}Q", self._map, at, *(v & (2**64 - 1) for v in values))

    def _write(self) -> None:
        s = self.spec
        head = dict.fromkeys(_HEADER, 0)
        head.update(
            magic=0x65766F6C76650001, mode=s.mode, grain=s.grain, n_buffers=len(s.buffers),
            n_launches=len(s.launches), n_orders=len(s.orders), off_buffers=self._off_buffers,
            off_launches=self._off_launches, off_orders=self._off_orders, off_findings=self._off_findings,
            max_findings=s.max_findings, off_sites=self._off_sites, max_sites=MAX_SITES,
            off_stats=self._off_stats, off_shared=self._off_shared, max_shared=MAX_SHARED,
            off_records=self._off_records, max_records=MAX_RECORDS, quantum=s.quantum,
            time_us=s.time_us, stack_bytes=s.stack_bytes, arena_bytes=self.arena_bytes,
            shared_span=SHARED_SPAN,
        )  # fmt: skip
        self._pack(0, *head.values())
        for i, b in enumerate(s.buffers):
            data, out, mask = self._data[i]
            flags = (1 if b.readonly else 0) | (2 if b.poisoned else 0)
            self._pack(
                self._off_buffers + 96 * i, b.nbytes, b.elem, flags, data, out, mask, self.arena_offsets[i],
                b.fill, b.seed, b.lo, b.hi, 0,
            )  # fmt: skip
            if b.data is not None and b.nbytes:
                self._map[data : data + b.nbytes] = b.data
        for i, ln in enumerate(s.launches):
            self._pack(
                self._off_launches + 96 * i, ln.kernel, *ln.grid, *ln.block, ln.shared, len(ln.args),
                self._off_args[i], len(ln.blocks), self._off_blocks[i],
            )  # fmt: skip
            for k, (kind, value) in enumerate(ln.args):
                self._pack(self._off_args[i] + 16 * k, kind, value)
            if ln.blocks:
                self._pack(self._off_blocks[i], *ln.blocks)
        for i, (threads, blocks, seed) in enumerate(s.orders):
            self._pack(self._off_orders + 32 * i, threads, blocks, seed, 0)

    # ---- reading --------------------------------------------------------------------------------
    def _record(self, at: int, names: list[str]) -> dict[str, int]:
        return dict(zip(names, struct.unpack_from(f"<{len(names)}Q", self._map, at), strict=True))

    def header(self) -> dict[str, int]:
        """All header fields, results included."""
        return self._record(0, _HEADER)

    def findings(self) -> list[tuple[dict[str, int], list[int]]]:
        """Each finding's fields and its hint addresses."""
        out = []
        for i in range(min(self.header()["n_findings"], self.spec.max_findings)):
            at = self._off_findings + 256 * i
            record = self._record(at, _FINDING)
            hints = struct.unpack_from("<16Q", self._map, at + 128)
            out.append((record, list(hints[: min(record["n_hints"], 16)])))
        return out

    def sites(self) -> list[dict[str, int]]:
        """Per launch and access site counts (trace mode)."""
        n = min(self.header()["n_sites"], MAX_SITES)
        return [self._record(self._off_sites + 8 * len(_SITE) * i, _SITE) for i in range(n)]

    def stats(self) -> list[dict[str, int]]:
        """Per launch counts (trace mode)."""
        size = 8 * len(_STATS)
        return [self._record(self._off_stats + size * i, _STATS) for i in range(len(self.spec.launches))]

    def shared_arrays(self) -> list[tuple[int, int, int]]:
        """(declaration id, bytes, arena offset) of the last launch's shared arrays."""
        n = min(self.header()["n_shared"], MAX_SHARED)
        return [struct.unpack_from("<3Q", self._map, self._off_shared + 24 * i) for i in range(n)]

    def records(self) -> list[tuple[int, int, int, int, int, int]]:
        """Every access in order (record mode): block, thread, pc, arena offset, size, kind (0 read, 1 write,
        2 atomic)."""
        n = min(self.header()["n_records"], MAX_RECORDS)
        return [struct.unpack_from("<6Q", self._map, self._off_records + 48 * i) for i in range(n)]

    def output(self, i: int) -> bytes:
        """Final bytes of writable buffer `i`."""
        _, out, _ = self._data[i]
        return self._map[out : out + self.spec.buffers[i].nbytes]

    def written(self, i: int) -> bytes:
        """One byte for each granule of writable buffer `i`; bit 8 says it was written."""
        _, _, mask = self._data[i]
        return self._map[mask : mask + (self.spec.buffers[i].nbytes >> self.spec.grain)]

    def differs(self, i: int) -> bool:
        """Did buffer `i` end up different in some other order of threads and blocks?"""
        return bool(struct.unpack_from("<Q", self._map, self._off_buffers + 96 * i + 88)[0])
