"""What the parent and the GPU worker say to each other. Plain data: the worker never sees the search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evolve.codegen.launch import ConcreteLaunch

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class GpuInfo:
    """Attributes read from the driver. Clocks in MHz, sizes in bytes."""

    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    clock_mhz: int
    memory_clock_mhz: int
    memory_bus_bits: int
    l2_bytes: int
    memory_bytes: int
    driver_version: int

    @property
    def arch(self) -> str:
        """How NVRTC spells it, such as sm_90."""
        return f"sm_{self.compute_capability[0]}{self.compute_capability[1]}"


@dataclass(frozen=True)
class SetArrays:
    """Makes a named set of arrays resident on the device, replacing one of that name.

    `arrays` are host arrays; a path instead of an array is loaded with numpy (memory-mapped).
    """

    key: str
    arrays: Mapping[str, Any]


@dataclass(frozen=True)
class Execute:
    """Runs launches once on a resident set. Outputs are poisoned first, guard bands checked after."""

    cubin: bytes
    launches: tuple[ConcreteLaunch, ...]
    key: str
    outputs: tuple[str, ...]
    inouts: tuple[str, ...] = ()
    expected: str | None = None
    """Key of a resident set with, for each output NAME, arrays NAME (float64) and NAME.tolerance."""


@dataclass(frozen=True)
class Executed:
    """`outputs` are returned unless they were compared on the device's side of the pipe.

    worst          for each compared output, the largest error over its tolerance (<= 1 passes)
    changed        inputs that are not bit-equal to what was sent
    broken_guards  buffers with a changed guard band
    error          the driver's error, after which the worker is to be replaced when `sticky`
    """

    outputs: dict[str, Array] = field(default_factory=dict)
    worst: dict[str, float] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    broken_guards: tuple[str, ...] = ()
    error: str | None = None
    sticky: bool = False


@dataclass(frozen=True)
class Measure:
    """Times one or more launch sequences on a resident set, interleaved, cold L2, with events."""

    cubins: tuple[bytes, ...]
    launches: tuple[tuple[ConcreteLaunch, ...], ...]
    key: str
    inouts: tuple[str, ...] = ()
    repeats: int = 20
    warmup: int = 3
    budget_s: float = 2.0


@dataclass(frozen=True)
class Measured:
    """`samples_us[k]` are the times of sequence k in the order taken; `floor_us` an empty kernel's."""

    samples_us: tuple[tuple[float, ...], ...] = ()
    floor_us: float = 0.0
    error: str | None = None
    sticky: bool = False


@dataclass(frozen=True)
class Ask:
    """Asks for the GPU's attributes."""


Request = SetArrays | Execute | Measure | Ask
