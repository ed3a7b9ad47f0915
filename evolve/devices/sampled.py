"""Traces as many neighbouring blocks of each launch as an effort allows, for the estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evolve.codegen.launch import ConcreteLaunch
from evolve.devices.estimate import Estimate, estimate
from evolve.devices.sim.build import HostProgram
from evolve.devices.sim.tracing import TraceBuffer, TraceStats, sample_blocks, trace
from evolve.devices.traffic import Traffic, traffic_of
from evolve.target.limits import occupancy
from evolve.target.profile import Profile
from evolve.toolchain.cubin import KernelResources
from evolve.toolchain.sass import Sass

ACCESSES = 1_000_000
"""Traced accesses of all lanes that a launch may cost beyond its first block."""


def sampled_traffic(
    program: HostProgram,
    launch: ConcreteLaunch,
    buffers: Mapping[str, TraceBuffer],
    in_flight: int,
    accesses: int = ACCESSES,
) -> Traffic:
    """A block's traffic on average, and what neighbouring blocks share.

    One block is traced first; then, where blocks are cheap, as many neighbours as run together on the GPU
    (`in_flight`) or as `accesses` allows: what they have in common tells what L2 serves. Raises as `trace`.
    """

    def run(count: int) -> TraceStats:
        return trace(program, [launch], buffers, [sample_blocks(launch.grid, count)])[0]

    first = run(1)
    cost = max(1, sum(s.lanes for s in first.sites))
    total = launch.grid[0] * launch.grid[1] * launch.grid[2]
    count = min(total, in_flight, accesses // cost)
    return traffic_of(first if count < 2 else run(count))


def estimate_launches(
    profile: Profile,
    program: HostProgram,
    launches: Sequence[ConcreteLaunch],
    buffers: Mapping[str, TraceBuffer],
    resources: Mapping[str, KernelResources],
    sass: Mapping[str, Sass],
    footprint: tuple[float, float] | None = None,
) -> tuple[Estimate, ...]:
    """Estimates of launches that follow each other, one each; their times add up.

    `resources` and `sass` by kernel name; compile with `toolchain.lines.LINE_INFO` so that accesses are
    joined line by line. `footprint`: bytes read and written by a single launch as a whole (bounds know them).
    Raises as `sampled_traffic` and `estimate` do.
    """
    out = []
    for launch in launches:
        x, y, z = launch.block
        kernel = resources[launch.kernel]
        shared = kernel.shared_bytes + launch.shared_bytes
        held = occupancy(profile, kernel.registers, shared, x * y * z)
        traffic = sampled_traffic(program, launch, buffers, max(1, held.blocks_per_sm * profile.sms))
        out.append(
            estimate(
                profile,
                kernel,
                sass[launch.kernel],
                traffic,
                launch.grid,
                launch.block,
                launch.shared_bytes,
                footprint if len(launches) == 1 else None,
            )
        )
    return tuple(out)
