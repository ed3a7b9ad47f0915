"""What host execution found: records from the runtime, with names, lines and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evolve.codegen.launch import ConcreteLaunch, Dim3
from evolve.devices.sim.build import HostProgram
from evolve.devices.sim.elf import LineTable
from evolve.devices.sim.job import Job

FindingKind = Literal[
    "race", "out-of-bounds", "uninitialised", "misaligned", "divergent-barrier", "shuffle", "timeout",
    "crash", "stack",
]  # fmt: skip
_KINDS: tuple[FindingKind, ...] = (
    "race", "out-of-bounds", "uninitialised", "misaligned", "divergent-barrier", "shuffle", "timeout",
    "crash",
)  # fmt: skip
_OUT_OF_STACK = 2000
SKIPPED_FILES = (".h", "unit.cpp", "launchers")
"""Files of ours: code inlined from them belongs to the line that calls it."""
Thread = tuple[Dim3, Dim3]
"""(blockIdx, threadIdx)"""


@dataclass(frozen=True)
class Finding:
    """One defect. `index` counts elements of `buffer` (bytes for a shared array, whose type the runtime does
    not know); it may lie outside. `threads` are the one that hit it and, for a race, barrier or shuffle, the
    other party. `line` is in the executed text; `other_line` is the other access or barrier of the pair."""

    kind: FindingKind
    kernel: str
    line: int | None
    buffer: str | None
    index: int | None
    threads: tuple[Thread, Thread] | tuple[Thread] | tuple[()]
    message: str
    other_line: int | None = None


@dataclass(frozen=True)
class BufferName:
    """Where a buffer lies: `begin` is its offset in the arena."""

    name: str
    begin: int
    nbytes: int
    elem: int


def collect(
    job: Job, program: HostProgram, launches: Sequence[ConcreteLaunch], buffers: Sequence[BufferName]
) -> tuple[Finding, ...]:
    """The job's findings in words, in the order they were met."""
    records = job.findings()
    if not records:
        return ()
    lines = _Lines(program)
    names = {d.id: d.name for d in program.shared}
    shared = [BufferName(names.get(i, "shared"), at, size, 1) for i, size, at in job.shared_arrays()]
    return tuple(
        _word(record, hints, launches[record["launch"]], [*buffers, *shared], lines)
        for record, hints in records
    )


class _Lines:
    """Return addresses to lines of the kernel text; the table is read on first use."""

    def __init__(self, program: HostProgram) -> None:
        self._table = LineTable(program.path.read_bytes())

    def __call__(self, pc: int) -> int | None:
        found = self._table.lookup(pc - 1, SKIPPED_FILES) if pc else None
        return found[1] if found else None


def _thread(launch: ConcreteLaunch, block: int, thread: int) -> Thread:
    def split(n: int, dims: Dim3) -> Dim3:
        return n % dims[0], n // dims[0] % dims[1], n // (dims[0] * dims[1])

    return split(block, launch.grid), split(thread, launch.block)


def _locate(offset: int, buffers: Sequence[BufferName]) -> BufferName | None:
    """The buffer that holds the place, or the nearest one."""
    best, distance = None, 1 << 62
    for b in buffers:
        gap = b.begin - offset if offset < b.begin else max(0, offset - (b.begin + b.nbytes) + 1)
        if gap < distance:
            best, distance = b, gap
    return best


def _says(t: Thread) -> str:
    return f"block {t[0]} thread {t[1]}"


def _word(
    r: dict[str, int], hints: list[int], launch: ConcreteLaunch, buffers: Sequence[BufferName], lines: _Lines
) -> Finding:
    kind = _KINDS[r["kind"] - 1]
    if kind == "crash" and r["extra"] == _OUT_OF_STACK:
        kind = "stack"  # told apart, since it is the host's stack that was too small
    line = r["line"] or lines(r["pc"])
    if line is None:
        line = next((found for h in hints if (found := lines(h)) is not None), None)
    other_line = r["other_line"] or lines(r["other_pc"])
    a = _thread(launch, r["block_a"], r["thread_a"])
    b = _thread(launch, r["block_b"], r["thread_b"])
    where = f"{launch.kernel}:{line}" if line else launch.kernel
    verb = "writes" if r["write"] else "reads"
    buffer: str | None = None
    index: int | None = None
    held: BufferName | None = None
    place = ""
    if kind in ("race", "out-of-bounds", "uninitialised", "misaligned") and r["extra"] != 2:
        held = _locate(r["offset"], buffers)
        if held is not None:
            buffer = held.name
            index = (r["offset"] - held.begin) // held.elem
            place = f"{buffer}[{'byte ' if held.elem == 1 else ''}{index}]"
    threads: tuple[Thread, Thread] | tuple[Thread] = (a,)
    extra = r["extra"]
    if kind == "race":
        threads = (a, b)
        scope = "different blocks" if a[0] != b[0] else "no barrier between" if a != b else "not waited for"
        before = f"{'written' if extra else 'read'} by {_says(b)}"
        text = f"{_says(a)} {verb} {place}, {before} ({scope})"
        if other_line:
            text += f" at line {other_line}"
    elif kind == "out-of-bounds":
        if extra == 2:
            text = f"{_says(a)} {verb} {r['size']} bytes at an address outside every buffer"
        elif extra == 1:
            text = f"{_says(a)} writes {place}, which is read-only"
        else:
            count = held.nbytes // held.elem if held is not None else 0
            text = f"{_says(a)} {verb} {place}, outside its {count} elements"
    elif kind == "uninitialised":
        text = f"{_says(a)} reads {place}, which nothing wrote"
    elif kind == "misaligned":
        text = f"{_says(a)} {verb} {r['size']} bytes at {place}, not a multiple of {r['size']}"
    elif kind == "divergent-barrier":
        threads = (a, b)
        rest = f"{_says(b)} has returned" if extra == 1 else f"{_says(b)} waits at line {other_line}"
        text = f"{_says(a)} waits at the barrier, {rest}"
    elif kind == "shuffle":
        threads = (a, b)
        text = _shuffle(extra, a, b, other_line)
    elif kind == "timeout":
        text = f"{_says(a)} is still running" + (
            " after too many accesses" if extra else " at the time limit"
        )
    else:
        text = f"{_says(a)} " + _crash(extra)
    return Finding(kind, launch.kernel, line, buffer, index, threads, f"{where}: {text}", other_line or None)


def _shuffle(extra: int, a: Thread, b: Thread, other_line: int | None) -> str:
    place = f" at line {other_line}" if other_line else ""
    return {
        1: f"{_says(a)} takes a value from {_says(b)}, which has returned",
        2: f"{_says(a)} takes a value from {_says(b)}, which is not in the mask",
        3: f"{_says(a)} takes a value from a lane beyond the block",
        4: f"{_says(a)} is not in its own mask",
        5: f"{_says(a)} waits for {_says(b)}, which is in the mask but at a barrier{place}",
    }.get(extra, f"{_says(a)} waits for {_says(b)}, which is in the mask but at another collective{place}")


def _crash(extra: int) -> str:
    names = {4: "ran an illegal instruction", 6: "aborted", 7: "made a bus error", 8: "divided by zero",
             11: "touched unmapped memory", 1000: "called __trap()",
             1001: "found a shared array over another one, or outside the launch's shared memory",
             _OUT_OF_STACK: "overflowed its stack"}  # fmt: skip
    return names.get(extra, f"died of signal {extra}")
