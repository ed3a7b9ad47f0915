"""Nsight Compute on launches of a cubin: a short list of the GPU's counters.

`ncu` replays every launch some times to read them all, with caches flushed before each and, here, without
touching the clocks: the machine may be somebody else's. Its times are not the benchmark's. It may be missing,
and reading counters may be forbidden to users; then the reason is the answer.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evolve.devices.cuda.alone import Alone, Ended, Run, alone, find
from evolve.sol.counters import Counters

LIMIT_S = 120.0

_COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
_MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
_DURATION = "gpu__time_duration.sum"
_DRAM, _READ, _WRITTEN = "dram__bytes.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
_L2 = "lts__t_bytes.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
_CONFLICTS = tuple(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("ld", "st"))
_WAVES = "launch__waves_per_multiprocessor"
_LIMITS = {
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared",
    "launch__occupancy_limit_blocks": "blocks",
    "launch__occupancy_limit_warps": "threads",
}
"""Blocks an SM could hold as far as each goes, and what `sol` calls it."""
METRICS = (
    *(_DURATION, _COMPUTE, _MEMORY, _OCCUPANCY, _DRAM, _READ, _WRITTEN, _L2, _WAVEFRONTS),
    *(*_CONFLICTS, _WAVES, *_LIMITS),
)
_UNKNOWN = re.compile(r"Failed to find metric (?:regex:\^)?(\w+)")
_FORBIDDEN = "ERR_NVGPUCTRPERM"
_MOST_RETRIES = 4

Launch = Mapping[str, float]
"""Values by metric, of one launch."""


@dataclass(frozen=True)
class Unavailable:
    """Why there are no counters. `lasting`: the next attempt would end alike."""

    kind: Literal["not installed", "not permitted", "failed"]
    message: str

    @property
    def lasting(self) -> bool:
        return self.kind != "failed"


def profile(cubin: bytes, run: Run, *, ordinal: int = 0, limit_s: float = LIMIT_S) -> Counters | Unavailable:
    """Counters of the launches, one after the other on these arrays.

    Starts Python under ncu, which replays each launch for every group of counters that the GPU can count at a
    time; what the launches write is saved and restored between replays. Nothing that is timed may run on the
    GPU meanwhile.
    """
    tool = find("ncu")
    if tool is None:
        return Unavailable("not installed", "Nsight Compute (ncu) was not found")
    with alone(cubin, [run], ordinal) as job:
        return _counters(job, tool, limit_s)


def _counters(job: Alone, tool: Path, limit_s: float) -> Counters | Unavailable:
    metrics = list(METRICS)
    for _ in range(_MOST_RETRIES):
        options = [
            *("--csv", "--page", "details", "--print-units", "base", "--target-processes", "all"),
            *("--clock-control", "none", "--cache-control", "all", "--metrics", ",".join(metrics)),
        ]
        try:
            ended = job.under(tool, options, limit_s)
        except OSError as e:
            return Unavailable("failed", f"ncu cannot be started: {e}")
        said = f"{ended.log}\n{ended.streams}"
        if _FORBIDDEN in said:
            message = f"this user may not read the GPU's performance counters ({_FORBIDDEN})"
            return Unavailable("not permitted", message)
        # Not every GPU has every counter, and ncu then reads none at all.
        unknown = {m for m in metrics if m.partition(".")[0] in _UNKNOWN.findall(said)}
        if not unknown:
            return _judged(ended)
        metrics = [m for m in metrics if m not in unknown]
    return Unavailable("failed", "ncu knows too few of the metrics")


def _judged(ended: Ended) -> Counters | Unavailable:
    if ended.error is not None:
        return Unavailable("failed", f"under ncu the launches failed: {ended.error}")
    found = combine(read(ended.log))
    return found or Unavailable("failed", f"ncu said nothing about a kernel: {_last_line(ended)}")


def _last_line(ended: Ended) -> str:
    lines = [x.strip() for x in (ended.log or ended.streams).splitlines()]
    return next((x for x in reversed(lines) if x), "no output")[:200]


def read(log: str) -> tuple[Launch, ...]:
    """The launches in ncu's comma-separated output, in order; values that are no number left out.

    Base units: bytes, nanoseconds, per cent. Numbers may have commas between thousands.
    """
    lines = log.splitlines()
    at = next((i for i, x in enumerate(lines) if x.startswith('"ID"')), None)
    if at is None:
        return ()
    launches: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(x for x in lines[at:] if x.startswith('"')):
        name, value = row.get("Metric Name"), _number(row.get("Metric Value"))
        if name and value is not None:
            launches.setdefault(str(row.get("ID")), {})[name] = value
    return tuple(launches.values())


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def combine(launches: Sequence[Launch]) -> Counters | None:
    """All launches as one: amounts added up, shares weighted by time, waves those of the longest launch.

    None without a throughput of any launch.
    """
    known = [x for x in launches if _COMPUTE in x and _MEMORY in x]
    if not known:
        return None
    longest = max(known, key=lambda x: x.get(_DURATION, 0.0))
    wavefronts, conflicts = _sum(known, _WAVEFRONTS), [_sum(known, n) for n in _CONFLICTS]
    lost = sum(c for c in conflicts if c is not None)
    limits = {name: longest[metric] for metric, name in _LIMITS.items() if metric in longest}
    least = min(limits.values(), default=0.0)
    duration = _sum(known, _DURATION)
    read_, written = _sum(known, _READ), _sum(known, _WRITTEN)
    if read_ is None or written is None:
        read_, written = _sum(known, _DRAM), 0.0
    return Counters(
        duration_s=None if duration is None else duration * 1e-9,
        compute=(_mean(known, _COMPUTE) or 0.0) / 100,
        memory=(_mean(known, _MEMORY) or 0.0) / 100,
        occupancy=_percent(_mean(known, _OCCUPANCY)),
        dram_read=read_,
        dram_written=written if read_ is not None else None,
        l2_bytes=_sum(known, _L2),
        conflict_free=max(0.0, 1 - lost / wavefronts) if wavefronts else None,
        waves=longest.get(_WAVES),
        limited_by=tuple(n for n, blocks in limits.items() if blocks == least),
    )


def _sum(launches: Sequence[Launch], name: str) -> float | None:
    """None unless every launch has it."""
    values = [x[name] for x in launches if name in x]
    return sum(values) if len(values) == len(launches) else None


def _mean(launches: Sequence[Launch], name: str) -> float | None:
    """By duration."""
    if any(name not in x for x in launches):
        return None
    weights = [x.get(_DURATION, 0.0) for x in launches]
    if not sum(weights):
        weights = [1.0] * len(launches)
    return sum(w * x[name] for w, x in zip(weights, launches, strict=True)) / sum(weights)


def _percent(value: float | None) -> float | None:
    return None if value is None else value / 100
