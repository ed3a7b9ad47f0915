"""An analytic estimate of a kernel's time on a GPU that is not there.

Every unit of the GPU gets the time that the launch keeps it busy: DRAM and L2 by volume, the load-store path
by wavefronts, the issue slots and arithmetic pipes by instructions, all on the busiest SM. To these comes the
time that the warps would need if nothing were shared: the chain of one block, as often as blocks follow each
other on an SM. All work at the same time, but not in perfect overlap. Between the largest (full overlap) and
the sum (none) lie the norms: many warps keep busy units busy, so those are combined with the third power;
latencies grow with load, so waiting is combined with the work by the second. Loops with barriers are the
exception: a block's warps wait together, and the blocks of an SM, which start together and are served in
turn, stay in step. There the SM's own units idle while a warp would wait: that time is added to theirs.

Inputs are the machine code with its loops, a trace of sampled blocks and the profile. The exponents were
chosen on the kernels of `tests/devices/h200_times.json`; how fast blocks start, what a request to L2 costs
and when shared sectors are written twice on the gelu, column sum and stencil of `benchmarks/validation`,
whose other seven kernels check them (`benchmarks/results/estimate-validation-h200.json`). The other figures
are measured or documented rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Any

from evolve.devices.atomics import atomics
from evolve.devices.cache import Levels, Local, levels
from evolve.devices.chain import SHARED_CLOCKS, Access, AccessModel, chain
from evolve.devices.compiled import as_compiled
from evolve.devices.traffic import SECTOR, SiteTraffic, Traffic
from evolve.devices.trips import trip_counts
from evolve.devices.work import Work, conserved, executed
from evolve.sol.ceilings import dram_ceiling, fp32_rate, l2_rate, launch_floor
from evolve.sol.evidence import evidence
from evolve.sol.gap import Breakdown
from evolve.target.limits import Occupancy, occupancy
from evolve.target.profile import Profile
from evolve.toolchain.cubin import KernelResources
from evolve.toolchain.instructions import Instruction, Mix
from evolve.toolchain.sass import Sass

Dim3 = tuple[int, int, int]

L1_CLOCKS, L2_CLOCKS, DRAM_NS = 33.0, 260.0, 450.0
"""Where a profile does not say."""
BLOCK_CLOCKS = 200.0
"""From a block slot becoming free to the next block's first instruction."""
BLOCKS_PER_CLOCK = 0.84
"""Blocks that the whole GPU starts per clock (one H200: 1.66 a nanosecond, with 32, 64 and 128 threads)."""

_OUTSIDE = ("dram", "l2", "dispatch")
_CROWDED = 3.0
_WAITING = 2.0


@dataclass(frozen=True)
class Estimate:
    """Estimated time of one launch.

    time_s      seconds; the launch floor and what the units take
    binding     the unit that takes longest
    terms       seconds each unit is busy: dram, l2, l1 (global wavefronts), shared, issue, fp32, alu, sfu,
                fp64, latency, dispatch (starting blocks); and what adds: idle (SMs without a block),
                tail (uneven last blocks), launch
    shares      how `time_s` divides among the units; the parts add up to it
    facts       what it rests on: occupancy, waves, miss shares, bytes, instructions per warp, …
    """

    time_s: float
    binding: str
    terms: Mapping[str, float] = field(hash=False)
    shares: Mapping[str, float] = field(hash=False)
    facts: Mapping[str, float] = field(hash=False)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return asdict(self)

    def breakdown(self, measured_s: float | None = None) -> Breakdown:
        """For the gap report. With a measured time the model only says how it divides.

        A measured time below the estimate scales the shares down; one above it leaves a rest unexplained.
        """
        if measured_s is None:
            return Breakdown(self.time_s, "estimated", self.terms, self.shares, self.facts)
        scale = min(1.0, measured_s / self.time_s)
        terms = {name: t * scale for name, t in self.terms.items()}
        shares = {name: t * scale for name, t in self.shares.items()}
        return Breakdown(measured_s, "measured", terms, shares, self.facts)


def together(parts: Sequence[Estimate]) -> Estimate:
    """Launches that follow each other as one: what takes time adds up, the facts are those of the longest.

    `parts` are not empty.
    """
    if len(parts) == 1:
        return parts[0]
    longest = max(parts, key=lambda p: p.time_s)
    terms, shares = (
        {name: sum(m.get(name, 0.0) for m in maps) for name in dict.fromkeys(n for m in maps for n in m)}
        for maps in ([p.terms for p in parts], [p.shares for p in parts])
    )
    time_s = sum(p.time_s for p in parts)
    return Estimate(time_s, max(shares, key=lambda n: shares[n]), terms, shares, longest.facts)


def estimate(
    profile: Profile,
    resources: KernelResources,
    sass: Sass,
    traffic: Traffic,
    grid: Dim3,
    block: Dim3,
    shared_bytes: int = 0,
    footprint: tuple[float, float] | None = None,
    work: float | None = None,
) -> Estimate:
    """The time of one launch.

    `traffic` is a block's on average; `shared_bytes` the dynamic shared memory; `footprint` the distinct
    bytes that the launch reads and writes in all, which a few sampled blocks cannot tell; `work` the fp32
    results that it must compute in all (see `devices.work`).
    Raises EvolveError `no-occupancy-model` for a profile without one, ValueError when no block fits an SM.
    """
    threads = block[0] * block[1] * block[2]
    blocks = grid[0] * grid[1] * grid[2]
    shared = resources.shared_bytes + shared_bytes
    held = occupancy(profile, resources.registers, shared, threads)
    if held.blocks_per_sm == 0:
        raise ValueError(f"a block of {sass.kernel} does not fit an SM of {profile.name}")
    resident = min(held.blocks_per_sm, ceil(blocks / profile.sms))
    checked = conserved(sass, trip_counts(sass, traffic), (work or 0.0) / (blocks * threads))
    counts = checked.counts
    mix = executed(sass, counts)
    local = Local(traffic.warps * profile.limits.warp * _local_bytes(mix), threads * resources.stack_bytes)
    waves = blocks / (profile.sms * held.blocks_per_sm)
    updates = atomics(traffic, sass)
    volumes = levels(profile, traffic, sass, blocks, resident, shared, footprint, local, updates.sectors)
    volumes = _with_unmerged(profile, volumes, traffic.shared_ends() * blocks, waves)
    code = as_compiled(traffic, sass, counts)

    even = blocks / profile.sms
    busiest = float(ceil(even))
    clock = profile.boost_hz
    per_sm = {name: clocks * busiest / clock for name, clocks in _sm_clocks(profile, mix, code).items()}
    alone = chain(sass, counts.loops, _access_model(profile, code, volumes), counts.blocks)
    life = (alone.clocks + BLOCK_CLOCKS) / clock
    moving = max(volumes.l2_bytes / l2_rate(profile), volumes.partial_clocks / (profile.sms * clock))
    targets = updates.launch_targets(blocks)
    if footprint is not None and footprint[1] > 0:
        targets = max(1.0, min(targets, footprint[1] / SECTOR))
    queueing = updates.clocks * blocks / targets / clock
    slices = max(moving, queueing)
    port = volumes.port_clocks / blocks / clock
    terms = {
        "dram": _dram_s(profile, volumes),
        "l2": max(slices, port * busiest),
        "dispatch": blocks / (BLOCKS_PER_CLOCK * clock),
        **per_sm,
        "latency": life * ceil(waves),
    }
    in_step = alone.synced_clocks / clock
    busy = _combine(terms, in_step * ceil(waves))
    # What equal work on every SM, or an even last wave, would have saved.
    evenly = {n: t * even / busiest if n in per_sm else t for n, t in terms.items()}
    evenly |= {"l2": max(slices, port * even), "latency": life * max(1.0, waves)}
    level = _combine(evenly, in_step * max(1.0, waves))
    floor = launch_floor(profile)
    time = busy + floor
    added = {"idle" if even < 1 else "tail": busy - level, "launch": time - busy}
    shares = _shares(terms, in_step * ceil(waves), level, added)
    terms |= added
    return Estimate(
        time_s=time,
        binding=max(shares, key=lambda name: shares[name]),
        terms=terms,
        shares=shares,
        facts=_facts(held, volumes, code, mix, sass, resources, checked)
        | {
            "waves": waves,
            "global_bytes": traffic.total("global").bytes * blocks,
            "busy_sms": min(1.0, even),
            "block_clocks": alone.clocks,
            "memory_wait": alone.memory_clocks / alone.clocks if alone.clocks else 0.0,
            "barrier_wait": alone.synced_clocks / alone.clocks if alone.clocks else 0.0,
            "spill_wait": alone.local_clocks / alone.clocks if alone.clocks else 0.0,
        }
        | evidence(
            mix,
            held,
            code.total("global", write=False),
            code.total("global", write=True),
            shuffles=traffic.shuffles,
            shared_wavefronts=code.total("shared").wavefronts,
            atomic_sectors=2.0 * updates.sectors,
            l2_sectors=volumes.l2_bytes / SECTOR / blocks,
            waits=alone.memory_clocks / ((profile.latency.dram_ns or DRAM_NS) * 1e-9 * clock),
        )
        | ({"atomic_l2": 1.0} if queueing > moving else {}),
    )


def _local_bytes(mix: Mix) -> float:
    """Bytes that a thread moves to and from its local memory."""
    return sum(mix[f"{stem}_{bits}"] * bits / 8 for stem in ("ldl", "stl") for bits in (32, 64, 128))


def _dram_s(profile: Profile, volumes: Levels) -> float:
    moved = volumes.dram_read + volumes.dram_written
    return moved / dram_ceiling(profile, volumes.dram_read, volumes.dram_written) if moved else 0.0


def _with_unmerged(profile: Profile, volumes: Levels, ends: float, waves: float) -> Levels:
    """`volumes` with what DRAM moves when two warps that share a sector write their parts far apart.

    L2 merges them as long as it holds the first. Warps of a block drift apart by up to the block's life; a
    sector stays until as much was moved as half of L2 holds (each half keeps copies of its own). What comes
    later is a sector read and one more written. One H200: a stencil whose rows start at the second float
    takes 154 us in blocks of 8 rows, 164 in blocks of 16 and 187 in blocks of 32.
    """
    moved = volumes.dram_read + volumes.dram_written
    life = moved / max(1.0, waves)
    if ends <= 0 or life <= profile.memory.l2_bytes / 2:
        return volumes
    apart = min(ends * SECTOR, volumes.dram_written) * (1.0 - profile.memory.l2_bytes / 2 / life)
    return replace(volumes, dram_read=volumes.dram_read + apart, dram_written=volumes.dram_written + apart)


def _sm_clocks(profile: Profile, mix: Mix, traffic: Traffic) -> dict[str, float]:
    """Clocks that one block keeps each unit of its SM busy."""
    limits, rates = profile.limits, profile.rates
    warps = traffic.warps
    lane = limits.warp
    # Sustained clocks and register bank conflicts: what FMA chains reach of the peak.
    pace = fp32_rate(profile) / (profile.peaks.fp32_tflops * 1e12 / 2)
    plain = mix["fp32_fma"] + mix["fp32_add"] + mix["fp32_mul"] + mix["fp16"]
    integer_rate = rates.int_add or rates.fp32_fma / 2
    imad_rate = rates.imad or rates.fp32_fma / 2
    local = mix.count("ldl") + mix.count("stl")
    shuffles = traffic.shuffles * lane / (rates.shuffle_lanes or lane)
    return {
        "issue": warps * mix.total / (limits.schedulers * pace),
        "fp32": warps * lane * max((plain + mix["imad"]) / rates.fp32_fma, mix["imad"] / imad_rate) / pace,
        "alu": warps * lane * (mix["int"] + mix["fp32_other"]) / integer_rate,
        "sfu": warps * lane * (mix["mufu"] + mix["conversion"]) / rates.mufu,
        "fp64": warps * lane * mix["fp64"] / rates.fp64_fma,
        "l1": traffic.lines() + warps * local,
        "shared": traffic.total("shared").wavefronts * 128.0 / rates.shared_bytes + shuffles,
    }


def _combine(terms: Mapping[str, float], in_step: float) -> float:
    """The time of units that work at the same time; `in_step` is the part of the latency that the SM's own
    units sit out (see the module's text)."""
    units = _independent(terms)
    waiting = units.pop("latency") - in_step
    outside = sum(units.pop(name, 0.0) for name in _OUTSIDE)
    sm = _norm(units.values(), _CROWDED) + in_step
    return _norm((_norm((sm, outside), _CROWDED), waiting), _WAITING)


def _norm(times: Iterable[float], power: float) -> float:
    return float(sum(t**power for t in times) ** (1.0 / power))


def _independent(terms: Mapping[str, float]) -> dict[str, float]:
    """Units that are busy on their own account: one of those that work through the same instructions or
    bytes stands for all of them; global and shared accesses take turns on one data path."""
    arithmetic = max(("issue", "fp32", "alu", "sfu", "fp64"), key=lambda name: terms[name])
    memory = max(_OUTSIDE, key=lambda name: terms[name])
    return {
        memory: terms[memory],
        "lsu": terms["l1"] + terms["shared"],
        arithmetic: terms[arithmetic],
        "latency": terms["latency"],
    }


def _shares(
    terms: Mapping[str, float], in_step: float, busy: float, added: Mapping[str, float]
) -> dict[str, float]:
    units = _independent(terms)
    waiting = units.pop("latency") - in_step
    outside = {name: units.pop(name) for name in _OUTSIDE if name in units}
    own = _norm(units.values(), _CROWDED)
    working = _norm((own + in_step, *outside.values()), _CROWDED)
    whole = working**_WAITING + waiting**_WAITING
    if not whole:
        return {**dict.fromkeys(("latency", *outside, *units), 0.0), **added}
    work = busy * working**_WAITING / whole
    out = {n: work * (t / working) ** _CROWDED if working else 0.0 for n, t in outside.items()}
    inside = work - sum(out.values())
    for name, t in units.items():
        out[name] = inside * own / (own + in_step) * (t / own) ** _CROWDED if own else 0.0
    out["latency"] = busy - sum(out.values())
    path = out.pop("lsu")
    both = terms["l1"] + terms["shared"]
    out["l1"] = path * terms["l1"] / both if both else 0.0
    out["shared"] = path * terms["shared"] / both if both else 0.0
    return {**out, **added}


def _access_model(profile: Profile, traffic: Traffic, volumes: Levels) -> AccessModel:
    latency = profile.latency
    clock = profile.boost_hz
    l1 = latency.l1_clocks or L1_CLOCKS
    l2 = latency.l2_clocks or L2_CLOCKS
    dram = (latency.dram_ns or DRAM_NS) * 1e-9 * clock
    beyond = volumes.dram_miss * dram + (1.0 - volumes.dram_miss) * l2
    by_line: dict[tuple[str, bool, int | None], SiteTraffic] = {}
    for site in traffic.sites:
        by_line[site.space, site.write, site.line] = site
    whole = {
        (space, write): traffic.total(space, write=write)
        for space in ("global", "shared")
        for write in (False, True)
    }

    def model(instruction: Instruction) -> Access:
        stem = instruction.kind.partition("_")[0]
        if stem in ("ldl", "stl"):
            return Access(l1, l1, 0.0, 1.0)
        if stem == "atomic":
            return Access(l2, l2, 0.0, 1.0)
        space = "shared" if stem in ("lds", "sts") else "global"
        write = stem in ("sts", "stg")
        site = by_line.get((space, write, instruction.line)) or whole[space, write]
        if not site.requests:
            return Access(l1, l1, 0.0, 1.0)
        if space == "shared":
            return Access(SHARED_CLOCKS, SHARED_CLOCKS, 0.0, site.wavefronts / site.requests)
        # A request misses when any of its sectors does; neighbours in one sector are fetched together, so
        # requests miss as often as sectors do.
        misses = 0.0 if write else volumes.l1_miss
        return Access(l1, beyond, misses, site.lines / site.requests)

    return model


def _facts(
    held: Occupancy,
    volumes: Levels,
    traffic: Traffic,
    mix: Mix,
    sass: Sass,
    resources: KernelResources,
    work: Work,
) -> dict[str, float]:
    loads, shared = traffic.total("global"), traffic.total("shared")
    local = mix.count("ldl") + mix.count("stl")
    return {
        "occupancy": held.fraction,
        "blocks_per_sm": float(held.blocks_per_sm),
        "registers": float(resources.registers),
        "l1_miss": volumes.l1_miss,
        "dram_read": volumes.dram_read,
        "dram_written": volumes.dram_written,
        "l2_bytes": volumes.l2_bytes,
        "instructions": mix.total,
        "arithmetic_share": work.share,
        "trips_scaled": work.scaled,
        "coalescing": min(1.0, loads.ideal_sectors / loads.sectors) if loads.sectors else 1.0,
        "conflict_free": min(1.0, shared.conflict_free / shared.wavefronts) if shared.wavefronts else 1.0,
        "spills": float(sass.spills),
        "spill_share": local / mix.total if mix.total else 0.0,
        "spill_l1": traffic.warps * local / max(1.0, traffic.lines() + traffic.warps * local),
        "spill_l2": volumes.local_l2 / max(1.0, volumes.l2_bytes),
        "spill_dram": volumes.local_dram / max(1.0, volumes.dram_read + volumes.dram_written),
        "special_share": (mix["mufu"] + mix["conversion"]) / mix.total if mix.total else 0.0,
    }
