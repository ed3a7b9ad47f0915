"""What a GPU's own counters say of a variant, as facts of a breakdown.

They replace what the model says of the same things. What they do not tell, such as which accesses are
uncoalesced or what instructions are for, stays the model's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from evolve.sol.breakdown import Breakdown

MEMORY, COMPUTE = "memory_throughput", "compute_throughput"
"""Facts that the headline is taken from where they are known."""
_LIMITERS = ("registers", "shared", "blocks", "threads")


@dataclass(frozen=True)
class Counters:
    """Of all launches of a variant together; None where a GPU does not count it.

    duration_s     under the profiler: not what the variant takes otherwise
    compute, memory   Nsight Compute's two throughputs, each the largest share of its peak that any unit of
                   the side reached
    occupancy      active warps, of those that an SM can hold
    dram_read, dram_written, l2_bytes   bytes
    conflict_free  of the passes through shared memory, those that no bank conflict made necessary
    waves          of blocks
    limited_by     what lets an SM hold no more blocks: registers, shared, blocks, threads
    """

    compute: float
    memory: float
    duration_s: float | None = None
    occupancy: float | None = None
    dram_read: float | None = None
    dram_written: float | None = None
    l2_bytes: float | None = None
    conflict_free: float | None = None
    waves: float | None = None
    limited_by: tuple[str, ...] = ()

    def facts(self) -> dict[str, float]:
        """Under the names of `Breakdown.facts`."""
        known = {
            MEMORY: self.memory,
            COMPUTE: self.compute,
            "occupancy": self.occupancy,
            "dram_read": self.dram_read,
            "dram_written": self.dram_written,
            "l2_bytes": self.l2_bytes,
            "conflict_free": self.conflict_free,
            "waves": self.waves,
        }
        found = {name: value for name, value in known.items() if value is not None}
        if self.limited_by:
            found |= {f"limited_by_{n}": float(n in self.limited_by) for n in _LIMITERS}
        return found


def counted(breakdown: Breakdown, counters: Counters) -> Breakdown:
    """A breakdown with counted facts instead of the model's."""
    return replace(breakdown, facts={**breakdown.facts, **counters.facts()})
