"""What the microbenchmarks gave: numbers as they were read, nothing worked out yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Pair:
    """One kernel at two amounts of work.

    few, many          the work of a launch: bytes, operations or results of the whole GPU
    few_us, many_us    times in microseconds, the n-th of both taken one after the other
    few_clocks, many_clocks   SM clocks of each block in one launch; empty when the kernel does not count them
    """

    few: float
    many: float
    few_us: tuple[float, ...]
    many_us: tuple[float, ...]
    few_clocks: tuple[int, ...] = ()
    many_clocks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Chased:
    """A pointer chase: SM clocks and nanoseconds of `hops` loads; `arrived` where the ring says."""

    hops: int
    clocks: int
    ns: int
    arrived: bool


@dataclass(frozen=True)
class Samples:
    """Everything that was measured, by kernel; chases by the latency's name.

    launch_us   an empty kernel between two events
    faults      why something is missing, by kernel or latency
    """

    pairs: Mapping[str, Pair] = field(default_factory=dict)
    chases: Mapping[str, Chased] = field(default_factory=dict)
    launch_us: tuple[float, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict)
