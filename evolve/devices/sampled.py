"""Traces as much of a launch as an effort allows, for the estimate.

Two economies. Where blocks are cheap, as many neighbours as run together on the GPU are traced, because what
they have in common tells what L2 serves. Where a size only lengthens the work inside a block (the K of a
matrix product, the columns of a row-wise kernel), two smaller sizes are traced and each count is extended
linearly, which is exact for loops whose trip counts are affine in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TypeVar

from evolve.codegen.launch import ConcreteLaunch
from evolve.devices.estimate import Estimate, estimate
from evolve.devices.sim.build import HostProgram
from evolve.devices.sim.tracing import TraceBuffer, TraceStats, sample_blocks, trace
from evolve.devices.traffic import SiteTraffic, Traffic, traffic_of
from evolve.target.limits import occupancy
from evolve.target.profile import Profile
from evolve.toolchain.cubin import KernelResources
from evolve.toolchain.sass import Sass

ACCESSES = 1_000_000
"""Traced accesses of all lanes that a launch may cost beyond its first block."""

_SMALLER = ((4096, 2048, 8192), (32, 16, 128), (16, 8, 128))
"""Divisors of the size at which the two traces run, and what the first must leave; the first that do are
taken. A thread that goes through 2^28 elements is traced through 2^16: a trace is held in memory."""

Sizes = Mapping[str, int | float]
LaunchesAt = Callable[[Sizes], tuple[int, Sequence[ConcreteLaunch]]]
"""The variant that runs at these sizes, and its launches."""
BuffersAt = Callable[[Sizes], Mapping[str, TraceBuffer]]


def estimate_at(
    profile: Profile,
    program: HostProgram,
    sizes: Sizes,
    launches_at: LaunchesAt,
    buffers_at: BuffersAt,
    resources: Mapping[str, KernelResources],
    sass: Mapping[str, Sass],
    footprint: tuple[float, float] | None = None,
    work: float | None = None,
) -> tuple[Estimate, ...]:
    """Estimates of the launches at `sizes`, one each; they follow each other, so their times add up.

    `resources` and `sass` by kernel name; compile with `toolchain.lines.LINE_INFO` so that accesses are
    joined line by line. `footprint`: bytes read and written by a single launch as a whole, `work`: the fp32
    results that it must compute (bounds know both).
    Raises as `trace` and `estimate` do.
    """
    _, launches = launches_at(sizes)
    traffic = traffic_at(profile, program, sizes, launches_at, buffers_at, resources)
    alone = len(launches) == 1
    return tuple(
        estimate(
            profile,
            resources[launch.kernel],
            sass[launch.kernel],
            seen,
            launch.grid,
            launch.block,
            launch.shared_bytes,
            footprint if alone else None,
            work if alone else None,
        )
        for launch, seen in zip(launches, traffic, strict=True)
    )


def traffic_at(
    profile: Profile,
    program: HostProgram,
    sizes: Sizes,
    launches_at: LaunchesAt,
    buffers_at: BuffersAt,
    resources: Mapping[str, KernelResources],
) -> tuple[Traffic, ...]:
    """The traffic of an average block of each launch at `sizes`; arguments as for `estimate_at`."""
    variant, launches = launches_at(sizes)
    smaller = _smaller(sizes, variant, launches, launches_at)
    out = []
    for number, launch in enumerate(launches):
        x, y, z = launch.block
        kernel = resources[launch.kernel]
        shared = kernel.shared_bytes + launch.shared_bytes
        held = occupancy(profile, kernel.registers, shared, x * y * z)
        flying = max(1, held.blocks_per_sm * profile.sms)
        traffic = None
        if smaller is not None:
            settings, beyond = smaller
            parts = [(launches_at(s)[1][number], buffers_at(s)) for s in settings]
            traffic = _extended(program, parts, beyond, flying)
        out.append(traffic or sampled_traffic(program, launch, buffers_at(sizes), flying))
    return tuple(out)


def sampled_traffic(
    program: HostProgram,
    launch: ConcreteLaunch,
    buffers: Mapping[str, TraceBuffer],
    in_flight: int,
    accesses: int = ACCESSES,
) -> Traffic:
    """A block's traffic on average, from one block or from as many neighbours as `in_flight` and `accesses`
    allow. Raises as `trace`."""
    first = _trace(program, launch, buffers, 1)
    count = _affordable(first, launch, in_flight, accesses)
    return traffic_of(first if count < 2 else _trace(program, launch, buffers, count))


def _trace(
    program: HostProgram, launch: ConcreteLaunch, buffers: Mapping[str, TraceBuffer], count: int
) -> TraceStats:
    return trace(program, [launch], buffers, [sample_blocks(launch.grid, count)])[0]


def _affordable(first: TraceStats, launch: ConcreteLaunch, in_flight: int, accesses: int) -> int:
    cost = max(1, sum(s.lanes for s in first.sites))
    return min(launch.grid[0] * launch.grid[1] * launch.grid[2], in_flight, accesses // cost)


def _smaller(
    sizes: Sizes, variant: int, launches: Sequence[ConcreteLaunch], launches_at: LaunchesAt
) -> tuple[tuple[Sizes, Sizes], float] | None:
    """Two smaller settings of the largest size that changes neither the variant nor any grid, and how many
    steps from one to the other the full size is beyond the second."""
    shape = (variant, [(x.kernel, x.grid, x.block) for x in launches])
    for name in sorted(sizes, key=lambda n: (-sizes[n], n)):
        value = sizes[name]
        for most, least, left in _SMALLER:
            if not isinstance(value, int) or value % most or value // most < left:
                continue
            found = {**sizes, name: value // most}, {**sizes, name: value // least}
            if all(_shape(launches_at(s)) == shape for s in found):
                return found, (most - most / least) / (most / least - 1.0)
    return None


def _shape(at: tuple[int, Sequence[ConcreteLaunch]]) -> tuple[int, list[object]]:
    return at[0], [(x.kernel, x.grid, x.block) for x in at[1]]


def _extended(
    program: HostProgram,
    parts: Sequence[tuple[ConcreteLaunch, Mapping[str, TraceBuffer]]],
    times: float,
    in_flight: int,
) -> Traffic | None:
    """The traffic at the full size, `times` steps beyond two smaller ones; None when they do not
    correspond."""
    (launch, buffers), (larger, more) = parts
    first = _trace(program, launch, buffers, 1)
    count = max(1, _affordable(first, launch, in_flight, ACCESSES // 2))
    a = traffic_of(first if count == 1 else _trace(program, launch, buffers, count))
    b = traffic_of(_trace(program, larger, more, count))
    if [_place(s) for s in a.sites] != [_place(s) for s in b.sites]:
        return None
    sites = tuple(_extend(x, y, times) for x, y in zip(a.sites, b.sites, strict=True))
    return replace(_extend(a, b, times), sites=sites)


def _place(site: SiteTraffic) -> tuple[object, ...]:
    return site.space, site.write, site.line, site.width


_T = TypeVar("_T", SiteTraffic, Traffic)
_FIXED = {"width", "line", "warps", "sampled"}


def _extend(a: _T, b: _T, times: float) -> _T:
    """Every count as far beyond `b` as `times` steps from `a` to `b`."""
    grown = {}
    for item in fields(b):
        x, y = getattr(a, item.name), getattr(b, item.name)
        if item.name not in _FIXED and isinstance(y, int | float) and not isinstance(y, bool):
            grown[item.name] = max(0.0, y + (y - x) * times)
    return replace(b, **grown)
