"""The numbers behind a cause."""

from __future__ import annotations

from evolve.sol.bound import Bound
from evolve.sol.breakdown import Breakdown
from evolve.sol.units import microseconds, percent, size

_LIMITED = {
    "limited_by_registers": "registers",
    "limited_by_shared": "shared memory",
    "limited_by_blocks": "the number of blocks",
    "limited_by_threads": "the block's size",
}


def because(name: str, bound: Bound, breakdown: Breakdown) -> str:
    """What was seen of a cause, in a few words with numbers; empty where nothing more is known."""
    f, needed = breakdown.facts, float(bound.bytes_read + bound.bytes_written)
    match name:
        case "redundant_dram":
            moved = f.get("dram_read", 0.0) + f.get("dram_written", 0.0)
            return f"{size(moved)} through DRAM, {size(needed)} needed"
        case "redundant_l2" if f.get("l2_bytes"):
            return f"{size(f['l2_bytes'])} through L2, {size(needed)} needed"
        case "global_accesses" if f.get("global_bytes"):
            return f"threads ask for {size(f['global_bytes'])}, {size(needed)} needed"
        case "uncoalesced" if "load_coalescing" in f:
            return (
                f"loads use {percent(f['load_coalescing'])} of the sectors they touch, "
                f"stores {percent(f['store_coalescing'])}"
            )
        case "uncoalesced" if "coalescing" in f:
            return f"{percent(f['coalescing'])} of the sectors' bytes are used"
        case "bank_conflicts" if f.get("conflict_free"):
            return f"{1 / f['conflict_free']:.1f} passes for each that is needed"
        case "occupancy":
            by = next((text for fact, text in _LIMITED.items() if f.get(fact)), "")
            held = f" ({f['registers']:.0f} a thread)" if by == "registers" and "registers" in f else ""
            limit = f", limited by {by}{held}" if by else ""
            return f"{percent(f.get('occupancy', 1.0))} of the warp slots used{limit}"
        case "small_grid" | "tail" if "waves" in f:
            return f"{f['waves']:.3g} waves of blocks"
        case "block_starts":
            return f"{microseconds(breakdown.terms.get('dispatch', 0.0))} to start the blocks"
        case "idle_sms" if f.get("busy_sms", 1.0) < 1.0:
            return f"{percent(f['busy_sms'])} of the SMs have a block"
        case "narrow_accesses" if f.get("access_bytes"):
            return f"{f['access_bytes']:.3g} bytes a lane and access"
        case "latency" if "memory_wait" in f:
            return f"a warp waits for memory {percent(f['memory_wait'])} of its life"
        case "spills" if f.get("spill_share"):
            return f"{percent(f['spill_share'])} of the instructions"
        case "index_arithmetic" if f.get("integer_share"):
            return f"{percent(f['integer_share'])} of the instructions are integer"
        case "special_functions" if f.get("special_share"):
            return f"{percent(f['special_share'])} of the instructions, and those around them"
        case "double_precision":
            return f"{microseconds(breakdown.terms.get('fp64', 0.0))} of the fp64 pipe"
        case "shuffles" if f.get("shuffle_share"):
            return f"{percent(f['shuffle_share'])} of the instructions"
        case "atomics" if f.get("atomic_l2"):
            return f"{percent(f['atomic_l2'])} of what L2 serves"
        case "barriers" if f.get("barrier_wait"):
            return f"{percent(f['barrier_wait'])} of a block's life in loops with barriers"
        case _:
            return ""
