"""Planted kernels compiled, traced and estimated without the IR, as far as the gap report."""

from __future__ import annotations

from functools import cache
from math import prod

from evolve.codegen.launch import ConcreteLaunch
from evolve.devices.compiled import as_compiled
from evolve.devices.estimate import DRAM_NS, Estimate, estimate
from evolve.devices.sampled import sampled_traffic
from evolve.devices.sim.build import HostProgram, compile_host
from evolve.devices.traffic import SECTOR, Traffic
from evolve.devices.trips import trip_counts
from evolve.devices.work import executed
from evolve.features.model import BufferUse, Features
from evolve.sol.bound import Bound, bound_of
from evolve.sol.breakdown import Breakdown
from evolve.sol.evidence import evidence
from evolve.sol.gap import GapReport, gap
from evolve.target.limits import occupancy
from evolve.target.profile import Profile, load_profile
from evolve.toolchain.cubin import KernelResources, read_cubin
from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import Sass, disassemble
from tests.sol.planted import HELPERS, Kernel
from tests.sol.planted_cases import PLANTED

KERNELS = {k.name: k for pair in PLANTED.values() for k in (pair.bad, pair.good)}
TEXT = HELPERS + "\n".join(k.text for k in KERNELS.values())


@cache
def _host() -> HostProgram:
    """All of them in one program."""
    return compile_host(TEXT, list(KERNELS))


@cache
def _code(arch: str) -> tuple[dict[str, KernelResources], dict[str, Sass]]:
    compiled = compile_cuda(TEXT, arch, [LINE_INFO])
    assert compiled.cubin is not None, compiled.log
    return dict(read_cubin(compiled.cubin).kernels), disassemble([compiled.cubin])[0]


def bound_for(kernel: Kernel, profile: Profile) -> Bound:
    """The bounds of what its meaning needs."""
    use = BufferUse("all", 4, kernel.work.read, kernel.work.written, 0.0, 1, 1.0, True)
    operations = dict(kernel.work.operations)
    return bound_of(Features(kernel.name, {}, (use,), (), (), (), operations, 0.0, "other", True), profile)


@cache
def report(name: str, stem: str) -> GapReport:
    """The gap report of a planted kernel on that GPU."""
    kernel, profile = KERNELS[name], load_profile(stem)
    resources, sass = (of[name] for of in _code(profile.arch))
    held = occupancy(profile, resources.registers, resources.shared_bytes, prod(kernel.block))
    flying = held.blocks_per_sm * profile.sms
    traffic = sampled_traffic(_host(), kernel.launch, kernel.trace_buffers, flying)
    bound = bound_for(kernel, profile)
    moved = (float(bound.bytes_read), float(bound.bytes_written))
    e = estimate(
        profile, resources, sass, traffic, kernel.grid, kernel.block, 0, moved, work=bound.least_fp32
    )
    return gap(bound, breakdown(profile, resources, sass, traffic, kernel.launch, e))


def breakdown(
    profile: Profile,
    resources: KernelResources,
    sass: Sass,
    traffic: Traffic,
    launch: ConcreteLaunch,
    e: Estimate,
) -> Breakdown:
    """The estimate's, with the evidence from the same inputs; what the estimate says itself wins."""
    counts = trip_counts(sass, traffic)
    code = as_compiled(traffic, sass, counts)
    latency = (profile.latency.dram_ns or DRAM_NS) * 1e-9 * profile.boost_hz
    facts = evidence(
        executed(sass, counts),
        occupancy(profile, resources.registers, resources.shared_bytes, prod(launch.block)),
        code.total("global", write=False),
        code.total("global", write=True),
        shuffles=traffic.shuffles,
        shared_wavefronts=code.total("shared").wavefronts,
        atomic_sectors=traffic.atomics,
        l2_sectors=e.facts["l2_bytes"] / SECTOR / prod(launch.grid),
        waits=e.facts["memory_wait"] * e.facts["block_clocks"] / latency,
    )
    return Breakdown(e.time_s, "estimated", e.terms, e.shares, facts | e.facts)
