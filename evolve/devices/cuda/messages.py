"""What the parent and the GPU worker say to each other. Plain data: the worker never sees the search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evolve.codegen.launch import ConcreteLaunch
from evolve.toolchain.agreement import DriverView

Array = npt.NDArray[np.generic]

FaultKind = Literal["arrays", "memory", "load", "launch", "fault", "timeout", "lost"]
"""arrays: no device memory for arrays, whatever the kernel; memory: none for what a kernel asks for;
load: the image is refused; launch: the launch is refused; fault: the kernel broke the context;
timeout: it outlasted its limit; lost: the worker ended."""


@dataclass(frozen=True)
class GpuInfo:
    """Attributes read from the driver. Clocks in MHz, sizes in bytes.

    `persisting_reset` and `clocks`: whether the driver resets persisting L2 lines, and whether NVML answers.
    """

    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    clock_mhz: int
    memory_clock_mhz: int
    memory_bus_bits: int
    l2_bytes: int
    memory_bytes: int
    driver_version: int
    persisting_reset: bool = False
    clocks: bool = False

    @property
    def arch(self) -> str:
        """How NVRTC spells it, such as sm_90."""
        return f"sm_{self.compute_capability[0]}{self.compute_capability[1]}"


@dataclass(frozen=True)
class Fault:
    """Why a request was not carried out. `sticky`: the context is gone and the worker is to be replaced."""

    kind: FaultKind
    message: str
    sticky: bool = False


@dataclass(frozen=True)
class Clocks:
    """One reading of NVML: MHz, degrees Celsius, watts, and what holds the clock down."""

    sm_mhz: int
    memory_mhz: int
    temperature_c: int | None
    power_w: float | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Ask:
    """Asks for the GPU's attributes.

    `key` makes digests unlike those of any other run; `poison` is the 32-bit word that outputs are filled
    with, NaN as float and as double.
    """

    key: int
    poison: int


@dataclass(frozen=True)
class SetArrays:
    """Makes a named set of arrays resident on the device, replacing one of that name.

    `arrays` are host arrays; a path instead of an array is loaded with numpy (memory-mapped). `shift` moves
    all pointers by so many bytes, a multiple of 256.
    """

    key: str
    arrays: Mapping[str, Any]
    shift: int = 0


@dataclass(frozen=True)
class SetExpected:
    """Keeps what outputs must be on the host: for each name the lowest and the highest right value.

    As `devices.compare.bounds` gives them, in the output's type. Arrays or paths as in SetArrays.
    """

    key: str
    bounds: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Drop:
    """Forgets sets of either kind."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Stored:
    """The answer to SetArrays, SetExpected and Drop."""

    fault: Fault | None = None


@dataclass(frozen=True)
class Execute:
    """Runs launches once on a resident set. Outputs are poisoned first; guards and inputs are checked after.

    expected   key of a SetExpected: then outputs are compared on the device; its bounds are uploaded after
               the launches have ended and are overwritten before the next
    fetch      whether outputs are returned; with `expected` they usually are not
    limit_s    of all launches together
    """

    cubin: bytes
    launches: tuple[ConcreteLaunch, ...]
    key: str
    outputs: tuple[str, ...]
    inouts: tuple[str, ...] = ()
    expected: str | None = None
    fetch: bool = True
    limit_s: float = 10.0


@dataclass(frozen=True)
class Compared:
    """An output against its bounds: how many elements are wrong, which is the first, how wrong the worst is.

    `worst` counts half-widths of the allowed interval from its middle: 1 is the edge.
    """

    wrong: int
    first: int
    worst: float


@dataclass(frozen=True)
class Executed:
    """What came of Execute.

    compared       for each output, when there was something to compare with
    digests        for each output a keyed 64-bit digest of its bytes
    left           for each output, elements that still hold the poison
    changed        inputs that are not bit-equal to what was sent
    broken_guards  buffers with a changed byte around them
    us             microseconds by events, whatever was in the caches: no more than its order of magnitude
    """

    outputs: dict[str, Array] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    compared: dict[str, Compared] = field(default_factory=dict)
    digests: dict[str, int] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    broken_guards: tuple[str, ...] = ()
    us: float = 0.0
    fault: Fault | None = None

    @property
    def error(self) -> str | None:
        """Why it did not run, in words."""
        return self.fault.message if self.fault else None


@dataclass(frozen=True)
class Measure:
    """Times launch sequences on resident sets, interleaved, L2 cold and clean, with events.

    keys      resident sets to rotate over, launch by launch; all sequences see the same one in a turn
    outputs   poisoned before every launch and checked after it
    known     known[k][c]: digests of the outputs of sequence k on keys[c], as a checked Execute gave them;
              None when there is none. A launch that gives others is compared with `expected`
    expected  for each of `keys` the key of a SetExpected, or None
    least     samples of each sequence before the stop rule is asked; most: the end
    warm      whether launches go before until caches are warm and the clock has risen; else one does
    batch     rounds in which short sequences are also timed in batches, see `timing`; 0 for none
    unflushed how often each sequence is timed, after the samples, with nothing flushed from L2
    """

    cubins: tuple[bytes, ...]
    launches: tuple[tuple[ConcreteLaunch, ...], ...]
    keys: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    inouts: tuple[str, ...] = ()
    known: tuple[tuple[Mapping[str, int] | None, ...], ...] = ()
    expected: tuple[str | None, ...] = ()
    least: int = 10
    most: int = 200
    warm: bool = True
    budget_s: float = 2.0
    limit_s: float = 10.0
    batch: int = 5
    unflushed: int = 0


@dataclass(frozen=True)
class Mismatch:
    """A timed launch that left something else than the checked run did.

    `wrong` counts elements outside the bounds; None when there are no bounds to compare with.
    """

    sequence: int
    sample: int
    key: str
    output: str
    wrong: int | None


@dataclass(frozen=True)
class Batch:
    """Several launches between two events, each on buffers of its own. Microseconds a launch, one a round."""

    launches: int
    us: tuple[float, ...]
    floor_us: tuple[float, ...]


@dataclass(frozen=True)
class Measured:
    """Raw numbers; the parent judges them.

    samples_us    samples_us[k] are the times of sequence k in the order taken
    event_us      from before the flush to the end of the last launch by events, one a sample of any sequence
    wall_us       the same by the host's clock, until the context was idle
    warm_us       warm_us[k] are those of sequence k that nothing was flushed before, see `Measure.unflushed`
    floor_us      an empty kernel timed like a sample
    batches       for each sequence its batch timing, None when it is long
    checked       launches whose outputs were checked; `mismatches` among them
    varied        of those, launches that left other bits than the checked run, though right ones (atomics)
    changed, broken_guards   as in Executed, over all sets, at the end
    clocks        NVML before (warmed up) and after
    persisting_reset   whether persisting L2 lines were reset before every launch
    """

    samples_us: tuple[tuple[float, ...], ...] = ()
    event_us: tuple[float, ...] = ()
    wall_us: tuple[float, ...] = ()
    warm_us: tuple[tuple[float, ...], ...] = ()
    floor_us: float = 0.0
    batches: tuple[Batch | None, ...] = ()
    checked: int = 0
    varied: int = 0
    mismatches: tuple[Mismatch, ...] = ()
    changed: tuple[str, ...] = ()
    broken_guards: tuple[str, ...] = ()
    clocks: tuple[Clocks | None, Clocks | None] = (None, None)
    persisting_reset: bool = False
    fault: Fault | None = None

    @property
    def error(self) -> str | None:
        """Why it was not timed, in words."""
        return self.fault.message if self.fault else None


@dataclass(frozen=True)
class Refer:
    """Runs a float64 reference on a resident set; the bounds of its outputs become .npy files, or are kept.

    launches   of the reference's kernels, in order; their buffer arguments are keys of `inputs`, `scratch`
               and `outputs`' two arrays
    inputs     reference array name to array of the set
    scratch    name to element count, doubles
    outputs    array of the set to (value's name, error's name, path of the lows, path of the highs)
    factor     tolerance = factor * error
    keep       the key under which the bounds are kept as those of a SetExpected are; then no file is written
    """

    cubin: bytes
    launches: tuple[ConcreteLaunch, ...]
    key: str
    inputs: Mapping[str, str]
    scratch: Mapping[str, int]
    outputs: Mapping[str, tuple[str, str, str, str]]
    factor: float
    limit_s: float = 60.0
    keep: str | None = None


@dataclass(frozen=True)
class View:
    """Asks how the driver describes the kernels of these launches. Nothing is launched."""

    cubin: bytes
    launches: tuple[ConcreteLaunch, ...]


@dataclass(frozen=True)
class Viewed:
    """The answer, one view a launch."""

    views: tuple[DriverView, ...] = ()
    fault: Fault | None = None


Request = Ask | SetArrays | SetExpected | Drop | Execute | Measure | Refer | View
Answer = GpuInfo | Stored | Executed | Measured | Viewed
