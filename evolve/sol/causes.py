"""How a variant's time divides into reasons, each with what addresses it.

Starting from the share of the time that each unit accounts for, a unit's share is split into work that the
bound needs too and work that it does not; the latter goes to what makes it. Waiting is split by what would
shorten it: how far grid, occupancy and access width are from the most that is possible, as logarithms,
because their effects multiply.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log

from evolve.sol.bound import Bound
from evolve.sol.breakdown import Breakdown

_VECTOR_BYTES = 16.0
_BESIDE_SPECIAL = 7.0
"""Instructions beside each special-function result, as in expf."""
_BARRIER_CLOCKS = 100.0
"""What a barrier costs a warp with the pipelines that it empties: as many clocks of waiting for each."""
_REST = log(2.0)
"""Waiting that remains when all of grid, occupancy and width are at their best."""

CAUSES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "redundant_dram": (
        ("stage", "tile", "jam", "accumulate_in_register"),
        "the same data crosses DRAM more than once; keep it in registers or shared memory between uses",
    ),
    "redundant_l2": (
        ("stage", "tile", "split", "bind"),
        "blocks fetch the same data from L2 again; larger tiles fetch less",
    ),
    "uncoalesced": (
        ("bind", "reorder", "stage", "block_reduce"),
        "neighbouring threads touch distant addresses; bind thread.x to the stride-1 loop or stage a tile",
    ),
    "global_accesses": (
        ("stage", "accumulate_in_register", "tile"),
        "threads load the same data again and again; keep it in registers or shared memory",
    ),
    "bank_conflicts": (
        ("set_layout",),
        "lanes of a warp meet in the same shared-memory bank; pad the rows of the tile",
    ),
    "shared_traffic": (
        ("tile", "stage", "vectorize", "distribute"),
        "shared memory is busy; hold a larger tile of results in registers, read it in vectors",
    ),
    "shuffles": (
        ("accumulate_in_register", "split"),
        "warps exchange values for every element; combine within the thread first, then once across the warp",
    ),
    "instructions": (
        ("vectorize", "unroll", "specialize"),
        "instructions beside the arithmetic: loop control, loads and stores, moves",
    ),
    "index_arithmetic": (
        ("specialize", "split", "unroll", "vectorize"),
        "integer arithmetic for addresses; avoid division and remainder, hoist, fix the sizes",
    ),
    "redundant_arithmetic": (
        ("stage", "accumulate_in_register"),
        "values are computed more often than needed; compute once and keep",
    ),
    "double_precision": (
        (),
        "double-precision arithmetic that no result asks for; look for literals without the f suffix",
    ),
    "special_functions": (
        ("stage", "accumulate_in_register"),
        "exponentials and the like are computed more often than needed; compute once and keep",
    ),
    "latency": (
        ("unroll", "split", "vectorize"),
        "too little is in flight; more independent loads in each thread",
    ),
    "narrow_accesses": (
        ("vectorize", "split"),
        "each access moves few bytes, too few are in flight; 16-byte accesses move four floats",
    ),
    "occupancy": (
        ("launch_bounds", "split", "tile", "stage"),
        "few warps fit an SM, too few to hide the waiting; use less of what limits them",
    ),
    "small_grid": (
        ("split", "bind", "warp_reduce", "block_reduce", "grid_reduce"),
        "the grid does not fill the GPU; give a warp, a block or the whole grid to what one thread does now",
    ),
    "barriers": (
        ("warp_reduce", "block_reduce", "tile", "unroll"),
        "warps meet at barriers every few instructions; reduce with shuffles, or do more between barriers",
    ),
    "atomics": (
        ("block_reduce", "warp_reduce", "accumulate_in_register", "grid_reduce", "privatize", "aggregate"),
        "many atomic updates; combine within the block first, in copies of the array or among lanes",
    ),
    "spills": (
        ("launch_bounds", "split", "tile"),
        "registers spill to local memory; smaller register tiles or looser launch bounds",
    ),
    "idle_sms": (
        ("split", "bind", "warp_reduce", "block_reduce", "grid_reduce"),
        "fewer blocks than SMs; give a warp, a block or the whole grid to what one thread does now",
    ),
    "block_starts": (
        ("split", "jam", "distribute", "persistent"),
        "blocks end faster than the GPU starts new ones; more work in each block",
    ),
    "tail": (
        ("split", "tile"),
        "the last blocks leave SMs idle; smaller blocks, or a number of them that divides evenly",
    ),
    "launch": ((), "the launch itself; only more work per launch hides it"),
    "memory_system": ((), "the traffic that is needed anyway, slower than the best that was measured"),
    "arithmetic": ((), "the arithmetic that is needed anyway, not fully overlapped with the rest"),
    "unexplained": ((), "time that the model does not account for"),
}
"""By name: primitives of the transform language that address it, and what to do in a sentence."""


def attribute(bound: Bound, breakdown: Breakdown) -> dict[str, float]:
    """Seconds by cause. They are in proportion to each other; their sum need not be the time lost."""
    ledger = _Ledger(bound, breakdown)
    ledger.global_memory()
    ledger.shared_memory()
    ledger.arithmetic()
    ledger.needed()
    ledger.waiting()
    shares = breakdown.shares
    ledger.put("idle_sms", shares.get("idle", 0.0))
    ledger.put("block_starts", shares.get("dispatch", 0.0))
    ledger.put("tail", shares.get("tail", 0.0))
    # At the bound of a launch, only a slower launch is lost.
    needed = bound.time_s if bound.binding == "launch" else 0.0
    ledger.put("launch", shares.get("launch", 0.0) - needed)
    ledger.put("unexplained", breakdown.time_s - sum(shares.values()))
    return ledger.lost


class _Ledger:
    """`lost` seconds by cause, and seconds of work that the bound needs too (memory, arithmetic)."""

    def __init__(self, bound: Bound, breakdown: Breakdown) -> None:
        self.bound = bound
        self.shares, self.facts, self.terms = breakdown.shares, breakdown.facts, breakdown.terms
        self.lost: dict[str, float] = {}
        self.useful = {"memory_system": 0.0, "arithmetic": 0.0}

    def put(self, name: str, seconds: float) -> None:
        if seconds > 0:
            self.lost[name] = self.lost.get(name, 0.0) + seconds

    def fact(self, name: str, default: float = 0.0) -> float:
        return self.facts.get(name, default)

    def global_memory(self) -> None:
        needed = float(self.bound.bytes_read + self.bound.bytes_written)
        dram, l2, l1 = (self.shares.get(n, 0.0) for n in ("dram", "l2", "l1"))
        for share, name in ((dram, "spill_dram"), (l2, "spill_l2"), (l1, "spill_l1")):
            self.put("spills", share * self.fact(name))
        dram, l2, l1 = (
            share * (1.0 - self.fact(name))
            for share, name in ((dram, "spill_dram"), (l2, "spill_l2"), (l1, "spill_l1"))
        )
        moved = (self.fact("dram_read") + self.fact("dram_written")) * (1.0 - self.fact("spill_dram"))
        useful = _part(needed, moved)
        self.put("redundant_dram", dram * (1.0 - useful))
        self.put("atomics", l2 * self.fact("atomic_l2"))
        l2 *= 1.0 - self.fact("atomic_l2")
        coalescing = self.fact("coalescing", 1.0)
        self.put("uncoalesced", (l1 + l2) * (1.0 - coalescing))
        l1, l2 = l1 * coalescing, l2 * coalescing
        once_l1 = _part(needed, self.fact("global_bytes"))
        once_l2 = _part(needed, self.fact("l2_bytes") * (1.0 - self.fact("spill_l2")) * coalescing)
        self.put("redundant_l2", l2 * (1.0 - once_l2))
        self.put("global_accesses", l1 * (1.0 - once_l1))
        self.useful["memory_system"] += dram * useful + l2 * once_l2 + l1 * once_l1

    def shared_memory(self) -> None:
        path = self.shares.get("shared", 0.0)
        self.put("shuffles", path * self.fact("shuffle_shared"))
        path *= 1.0 - self.fact("shuffle_shared")
        clean = self.fact("conflict_free", 1.0)
        self.put("bank_conflicts", path * (1.0 - clean))
        useful = _part(self.bound.terms.get("shared", 0.0), self.terms.get("shared", 0.0), 0.0)
        self.put("shared_traffic", path * max(0.0, clean - useful))
        self.useful["memory_system"] += path * min(clean, useful)

    def arithmetic(self) -> None:
        for unit, pipe in _PIPES.items():
            part = self.shares.get(unit, 0.0)
            useful = _part(self.bound.terms.get(pipe, 0.0), self.terms.get(unit, 0.0), 0.0)
            self.useful["arithmetic"] += part * useful
            for name, weight in self._makers(unit).items():
                self.put(name, part * (1.0 - useful) * weight)

    def _makers(self, unit: str) -> dict[str, float]:
        """What the work on a unit that nobody needs is for; the weights add up to 1."""
        weights: dict[str, float] = {}
        doubles = "fp64" not in self.bound.terms and self.terms.get("fp64", 0.0) > 0
        special, conversion = self.fact("special_share"), self.fact("conversion_share")
        again = 1.0 - _part(self.bound.terms.get("sfu", 0.0), self.terms.get("sfu", 0.0), 0.0)
        # An integer division is a reciprocal and one or two conversions.
        divisions = 0.0 if doubles else min(special, conversion)
        special = (special - divisions) * again
        match unit:
            case "fp64":
                return {"double_precision" if doubles else "redundant_arithmetic": 1.0}
            case "alu":
                weights = {
                    "index_arithmetic": self.fact("integer_share"),
                    "instructions": self.fact("compare_share"),
                }
            case "fp32":
                weights = {
                    "special_functions": special * _BESIDE_SPECIAL,
                    "redundant_arithmetic": max(0.0, self.fact("fp32_share") - special * _BESIDE_SPECIAL),
                }
            case "sfu":
                weights = {
                    "double_precision" if doubles else "index_arithmetic": conversion + divisions,
                    "special_functions": special,
                }
            case _:
                weights = {
                    "spills": self.fact("spill_share"),
                    "double_precision": (self.fact("double_share") + conversion) * doubles,
                    "special_functions": special * (1.0 + _BESIDE_SPECIAL),
                    "index_arithmetic": self.fact("integer_share") + 3.0 * divisions,
                    "shuffles": self.fact("shuffle_share"),
                    "barriers": self.fact("barrier_share"),
                }
                weights["instructions"] = max(0.0, 1.0 - sum(weights.values()))
        total = sum(weights.values())
        if total <= 0:
            fallback = {"sfu": "special_functions", "alu": "index_arithmetic", "fp32": "redundant_arithmetic"}
            return {fallback.get(unit, "instructions"): 1.0}
        return {name: weight / total for name, weight in weights.items()}

    def needed(self) -> None:
        """What is needed is lost only as far as the variant takes longer for it than the bound does."""
        total = sum(self.useful.values())
        excess = total - self.bound.time_s
        for name, seconds in self.useful.items():
            self.put(name, excess * seconds / total if total else 0.0)

    def waiting(self) -> None:
        wait = self.shares.get("latency", 0.0)
        self.put("spills", wait * self.fact("spill_wait"))
        wait *= 1.0 - self.fact("spill_wait")
        met = self.fact("barrier_share") * self.fact("instructions")
        synced = self.fact("barrier_wait") * self.fact("block_clocks")
        at_barriers = self.fact("barrier_wait") * min(1.0, _BARRIER_CLOCKS * met / synced) if synced else 0.0
        self.put("barriers", wait * at_barriers)
        wait *= 1.0 - at_barriers
        width = self.fact("access_bytes")
        narrow = 0.0 < width < _VECTOR_BYTES and self.fact("coalescing", 1.0) >= 0.5
        # Wider accesses shorten one wait, not a row of them.
        widen = _distance(width / _VECTOR_BYTES) / max(1.0, self.fact("waits")) if narrow else 0.0
        grid = "idle_sms" if self.fact("busy_sms", 1.0) < 1.0 else "small_grid"
        short = {
            grid: _distance(self.fact("waves", 1.0)),
            "occupancy": _distance(self.fact("occupancy", 1.0)),
            "narrow_accesses": widen,
            "latency": _REST,
        }
        total = sum(short.values())
        for name, distance in short.items():
            self.put(name, wait * distance / total)


_PIPES = {"issue": "issue", "fp32": "fp32", "alu": "int", "sfu": "sfu", "fp64": "fp64"}
"""Units of a breakdown and the bound's terms for the same work."""


def _part(needed: float, spent: float, otherwise: float = 1.0) -> float:
    return min(1.0, needed / spent) if spent else otherwise


def _distance(fraction: float) -> float:
    return max(0.0, -log(fraction)) if fraction > 0 else 0.0
