"""What atomic updates of global memory cost.

They are done in L2, where their data is, and those of one address follow each other. NVIDIA gives one update
a clock for a common address (Kepler GK110 white paper, 2012); nothing newer is documented, so this is assumed
for all. Assumed, too: lanes of a request that update different words of a sector are served together, and a
sector that is updated is read and written, so that it takes twice the time of one that is read.

The host traces an atomic as a store. Which stores are atomics is in the machine code, by line; there it also
shows whether the compiler lets one lane of a warp add for all (a vote, and the atomic under a predicate).
Atomics of shared memory are its accesses like others.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from evolve.devices.traffic import SECTOR, SiteTraffic, Traffic
from evolve.toolchain.instructions import Instruction
from evolve.toolchain.sass import Sass

UPDATES_PER_CLOCK = 1.0
"""Of one address (documented for Kepler, assumed since)."""

_APART = 0.98
"""Sampled blocks that find this share of what they touch are taken to share nothing."""

_SHARED = ("ATOMS", "REDS", "REDAS")


@dataclass(frozen=True)
class Atomics:
    """A block's atomic requests to global memory.

    sectors   32-byte sectors, summed over requests
    clocks    that L2 works on them when all sectors are served one after the other
    targets   distinct sectors of a block, `set_targets` of all `sampled` blocks together
    """

    sectors: float = 0.0
    clocks: float = 0.0
    targets: float = 0.0
    set_targets: float = 0.0
    sampled: int = 1

    def launch_targets(self, blocks: int) -> float:
        """Distinct sectors that a launch of so many blocks updates, at least 1.

        Where sampled blocks share sectors, as if each drew its own at random from so many as make the sampled
        blocks meet as often as they do; where they share none, none do.
        """
        touched = self.targets * self.sampled
        if self.sampled < 2 or self.set_targets >= _APART * touched:
            return max(1.0, self.targets * blocks if self.sampled > 1 else self.targets)
        low, high = self.set_targets, self.set_targets * touched
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if _drawn(touched, middle) > self.set_targets else (middle, high)
        return max(1.0, _drawn(self.targets * blocks, high))


def _drawn(draws: float, of: float) -> float:
    """How many different ones so many draws from `of` find, on average."""
    return of * (1.0 - exp(-draws / of))


def atomics(traffic: Traffic, sass: Sass) -> Atomics:
    """The atomic part of a block's stores; zero without atomic instructions."""
    aggregated = _lines(sass)
    stores = [s for s in traffic.sites if s.space == "global" and s.write and s.requests > 0]
    found = [s for s in stores if s.line in aggregated]
    if not found:
        return Atomics()
    # Plain stores touch a sector once as a rule: what else was written is what the atomics share.
    plain = sum(s.sectors for s in stores if s.line not in aggregated)
    return Atomics(
        sectors=sum(s.sectors for s in found),
        clocks=sum(s.sectors * _depth(s, aggregated[s.line]) for s in found) / UPDATES_PER_CLOCK,
        targets=max(1.0, traffic.sectors_written - plain),
        set_targets=max(1.0, traffic.set_sectors_written - plain * traffic.sampled),
        sampled=traffic.sampled,
    )


def _lines(sass: Sass) -> dict[int | None, bool]:
    """Lines with atomics of global memory, and whether one lane of a warp does them for all."""
    voting = {i.line for i in sass.instructions if i.kind == "vote"}
    found = [i for i in sass.instructions if _is_global(i)]
    return {i.line: i.predicate is not None and i.line in voting for i in found}


def _is_global(instruction: Instruction) -> bool:
    return instruction.kind == "atomic" and instruction.opcode not in _SHARED


def _depth(site: SiteTraffic, aggregated: bool) -> float:
    """Updates that follow each other in a sector of a request: more lanes than words must share words, and
    are taken to share one."""
    if aggregated or site.bytes <= site.sectors * SECTOR:
        return 1.0
    return site.lanes / site.sectors
