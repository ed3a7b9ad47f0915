"""How much of a launch's traffic each level of the memory hierarchy serves, from a sampled trace.

In the manner of Ernst et al. (2023, arXiv 2204.14242): volumes follow from which data is touched by the
threads that are resident together, and from whether it still fits when it is touched again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from evolve.devices.traffic import LINE, SECTOR, SiteTraffic, Traffic
from evolve.sol.ceilings import L2_PORT_BYTES
from evolve.target.profile import Profile
from evolve.toolchain.sass import Sass

# L1 of a GPU whose profile does not say: the smallest of the supported generations.
_L1_BYTES = 96 * 1024

PACKET, PARTIAL_PACKET = 1.8, 3.9
"""Clocks that an SM's port to L2 spends at least on a request to one line, and those of all ports that L2
spends on one that writes sectors in part (one H200: columns read one element a line, 67 million lines in
0.46 ms; a naive transpose by 16 x 16 threads, 33.5 million lines written two elements each in 0.5 ms; but a
quarter of the SMs write 67 million such lines, beside much else, in less than 4.7 ms)."""


@dataclass(frozen=True)
class Levels:
    """Volumes of a launch.

    l1_miss       share of global load sectors that L1 does not have
    port_clocks   that the SMs' ports to L2 are busy, whole launch, summed over SMs
    partial_clocks   the same, for L2 as a whole, of writes that fill sectors in part
    l2_bytes      loads and stores between the SMs and L2, whole launch
    dram_read, dram_written   bytes, whole launch
    dram_miss     share of L1's load misses that L2 does not have either
    local_l2, local_dram   bytes of l2_bytes and of DRAM's that are spills and arrays in local memory
    """

    l1_miss: float
    port_clocks: float
    partial_clocks: float
    l2_bytes: float
    dram_read: float
    dram_written: float
    dram_miss: float
    local_l2: float = 0.0
    local_dram: float = 0.0


@dataclass(frozen=True)
class Local:
    """A block's spills and arrays that are not in registers: bytes that its accesses move, and bytes held."""

    moved: float = 0.0
    held: float = 0.0


def levels(
    profile: Profile,
    traffic: Traffic,
    sass: Sass | None,
    blocks: int,
    resident: int,
    shared_bytes: int,
    footprint: tuple[float, float] | None,
    local: Local = Local(),
    updated: float = 0.0,
) -> Levels:
    """The volumes of a launch of `blocks` blocks of which an SM holds `resident` at once.

    `shared_bytes` per block; `footprint`: distinct bytes that the whole launch reads and writes, when known;
    `updated`: sectors of a block's stores that L2 reads first (`devices.atomics`).
    """
    loads = [s for s in traffic.sites if s.space == "global" and not s.write]
    requested = sum(s.sectors for s in loads)
    unique = min(traffic.sectors_read, requested) if requested else 0.0
    passes = _passes(loads, sass)
    missed = _l1_misses(profile, traffic, passes, unique, resident, shared_bytes)
    stores = [s for s in traffic.sites if s.space == "global" and s.write]
    stored = sum(s.sectors for s in stores)
    miss = missed / requested if requested else 0.0
    fetching = sum(max(s.sectors * SECTOR / L2_PORT_BYTES, PACKET * s.lines) for s in loads) * miss
    storing = sum(max(s.sectors * SECTOR / L2_PORT_BYTES, PACKET * s.lines) for s in stores)

    flying = min(blocks, profile.sms * resident)
    read = _dram_reads(profile, traffic, len(passes), unique, blocks, flying, footprint)
    written = _union(traffic.sectors_written, traffic.set_sectors_written, traffic.sampled, flying)
    written *= SECTOR * blocks / flying
    if footprint is not None:
        written = max(written, footprint[1]) if footprint[1] > profile.memory.l2_bytes else footprint[1]
        written = min(written, traffic.sectors_written * SECTOR * blocks)
    fetched = missed * blocks * SECTOR
    read = min(read, fetched)
    if footprint is not None:
        # Sampled blocks may be smaller than the others; what must move does move.
        read, written = max(read, footprint[0]), max(written, footprint[1])
    beyond_l1, beyond_l2 = _local(profile, local, resident, flying, shared_bytes)
    return Levels(
        l1_miss=miss,
        port_clocks=(fetching + storing + beyond_l1 / L2_PORT_BYTES) * blocks,
        partial_clocks=PARTIAL_PACKET * sum(s.partial_lines for s in stores) * blocks,
        l2_bytes=((missed + stored + updated) * SECTOR + beyond_l1) * blocks,
        # What is pushed out was written, and is read again.
        dram_read=read + beyond_l2 * blocks / 2,
        dram_written=written + beyond_l2 * blocks / 2,
        dram_miss=min(1.0, read / fetched) if fetched else 0.0,
        local_l2=beyond_l1 * blocks,
        local_dram=beyond_l2 * blocks,
    )


def _room(profile: Profile, resident: int, shared_bytes: int) -> float:
    """L1 of an SM that shared memory leaves."""
    whole = profile.memory.l1_shared_bytes_per_sm or _L1_BYTES
    return max(0.0, whole - resident * (shared_bytes + profile.memory.shared_reserved_per_block))


def _local(
    profile: Profile, local: Local, resident: int, flying: int, shared_bytes: int
) -> tuple[float, float]:
    """Bytes of a block's local memory that L1 cannot hold, and of these those that L2 cannot hold."""
    if local.moved <= 0 or local.held <= 0:
        return 0.0, 0.0
    near = min(1.0, _room(profile, resident, shared_bytes) / (resident * local.held))
    cached = min(1.0, profile.memory.l2_bytes / (flying * local.held))
    beyond = local.moved * (1.0 - near)
    return beyond, beyond * (1.0 - cached)


def _passes(loads: list[SiteTraffic], sass: Sass | None) -> list[float]:
    """Sectors requested by each group of loads that walk memory together: those of one loop of the code."""
    loop_of: dict[int, int | None] = {}
    if sass is not None:
        for block in sass.blocks:
            for instruction in sass.instructions[block.first : block.last + 1]:
                if instruction.kind.startswith("ldg") and instruction.line is not None:
                    # A line in several loops is one loop and its remainders: take the first.
                    loop_of.setdefault(instruction.line, block.loop)
                    if loop_of[instruction.line] is None:
                        loop_of[instruction.line] = block.loop
    groups: dict[int | None, float] = defaultdict(float)
    for site in loads:
        groups[loop_of.get(site.line) if site.line is not None else None] += site.sectors
    return [sectors for sectors in groups.values() if sectors > 0]


def _l1_misses(
    profile: Profile,
    traffic: Traffic,
    passes: list[float],
    unique: float,
    resident: int,
    shared_bytes: int,
) -> float:
    """Load sectors of one block that L1 does not serve.

    A sector is fetched once a pass; again in the next pass unless the block's data stays; and again within a
    pass when the lines that all resident warps touch at a time do not fit.
    """
    room = _room(profile, resident, shared_bytes)
    loads = traffic.total("global", write=False)
    if not loads.requests or not passes:
        return 0.0
    window = resident * traffic.warps * traffic.lines(write=False) / loads.requests * LINE
    near = min(1.0, room / window) if window else 1.0
    data = resident * unique * SECTOR
    stays = min(1.0, room / data) if data else 1.0
    total = 0.0
    for number, sectors in enumerate(passes):
        fetched = min(sectors, unique)
        fetched += (sectors - fetched) * (1.0 - near)
        total += fetched if number == 0 else fetched * (1.0 - stays)
    return max(total, unique)


def _union(one: float, together: float, sampled: int, blocks: int) -> float:
    """Distinct sectors of `blocks` neighbouring blocks, extrapolated linearly from the sampled ones."""
    if sampled < 2 or blocks < 2:
        return one * blocks
    each = min(one, max(0.0, together - one) / (sampled - 1))
    return one + (blocks - 1) * each


def _dram_reads(
    profile: Profile,
    traffic: Traffic,
    passes: int,
    unique: float,
    blocks: int,
    flying: int,
    footprint: tuple[float, float] | None,
) -> float:
    """Bytes that DRAM delivers.

    Blocks in flight share what they have in common; the next blocks find it again, and later passes find the
    earlier ones' data, as far as L2 holds it.
    """
    cache = float(profile.memory.l2_bytes)
    together = _union(unique, traffic.set_sectors_read, traffic.sampled, flying) * SECTOR
    if footprint is not None:
        together = min(together, footprint[0]) if footprint[0] else together
    stays = min(1.0, cache / together) if together else 1.0
    once = together * blocks / flying
    if footprint is not None and footprint[0]:
        kept = min(1.0, cache / footprint[0])
        once = max(footprint[0], footprint[0] + (once - footprint[0]) * (1.0 - kept))
    return once * (1.0 + max(0, passes - 1) * (1.0 - stays))
