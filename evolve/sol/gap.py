"""Where a variant loses time against the attainable bound, as causes that a program can act on.

The causes divide exactly the time above the bound. Their proportions come from the shares of the GPU's units
in the variant's time, each unit's share split into work that the bound needs too and work that it does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from evolve.sol.bound import Bound

Timing = Literal["measured", "estimated"]
Limiter = Literal["memory", "compute", "balanced", "latency", "small grid", "launch", "unknown"]

NEAR_LIMIT = 0.8
BUSY = 0.6
APART = 0.1
"""The thresholds of Nsight Compute's bottleneck rule: below 60 % of both limits latency binds, from 80 % the
kernel is near a limit, and between them one side must lead by 10 points to be called the bottleneck."""

_MEMORY = ("dram", "l2", "l1", "shared")
_COMPUTE = ("issue", "fp32", "alu", "sfu", "fp64")


@dataclass(frozen=True)
class Breakdown:
    """A variant's time and what is known of it.

    time_s   seconds; `timing` says whether measured or estimated
    terms    seconds that each unit is busy: dram, l2, l1, shared, issue, fp32, alu, sfu, fp64, latency
    shares   seconds of the time that each unit accounts for; idle, tail and launch too; may sum to less than
             `time_s`, then the rest is unexplained. Empty when there is only a time.
    facts    dram_read, dram_written, l2_bytes, global_bytes (asked for by threads), in bytes; coalescing,
             conflict_free (fractions); spill_share of the instructions, spill_l1 of the l1 term, spill_wait
             of the latency; waves; trips_scaled, arithmetic_share (see `devices.work`)
    """

    time_s: float
    timing: Timing
    terms: Mapping[str, float] = field(default_factory=dict, hash=False)
    shares: Mapping[str, float] = field(default_factory=dict, hash=False)
    facts: Mapping[str, float] = field(default_factory=dict, hash=False)


_SAYS: Mapping[Limiter, str] = {
    "memory": "limited by memory",
    "compute": "limited by compute",
    "balanced": "memory and compute in balance",
    "latency": "limited by latency",
    "small grid": "the grid is too small",
    "launch": "limited by its launch",
    "unknown": "no breakdown",
}


@dataclass(frozen=True)
class Cause:
    """One reason for lost time: seconds, their share of the variant's time, what addresses it.

    `primitives` are names of the transform language; `advice` says in a sentence what to try.
    """

    name: str
    seconds: float
    share: float
    primitives: tuple[str, ...]
    advice: str


@dataclass(frozen=True)
class GapReport:
    """A variant against the bound.

    fraction   attainable time / time: 1 is the speed of light
    limiter    the headline; `near_limit`: it uses 80 % of the memory or the compute side
    memory, compute   the busiest unit of each side as a fraction of the time
    causes     largest first; they add up to the time above the bound
    """

    time_s: float
    bound_s: float
    bound_by: str
    fraction: float
    timing: Timing
    limiter: Limiter
    near_limit: bool
    memory: float
    compute: float
    causes: tuple[Cause, ...]
    doubts: tuple[str, ...] = ()

    @property
    def binding(self) -> Cause | None:
        """The largest cause; None at the bound."""
        return self.causes[0] if self.causes else None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data, with the binding cause's name."""
        data = asdict(self)
        data["binding"] = self.binding.name if self.binding is not None else None
        return data

    def lines(self) -> list[str]:
        """For people and agents: a headline, then a line a cause of at least one per cent."""
        head = (
            f"{self.timing} {self.time_s * 1e6:.1f} us, {self.fraction:.0%} of the speed of light "
            f"({self.bound_s * 1e6:.1f} us, bound by {self.bound_by}); "
            f"{_SAYS[self.limiter]}{', near the limit' if self.near_limit else ''} "
            f"(memory {self.memory:.0%}, compute {self.compute:.0%})"
        )
        rest = [
            f"  {c.share:5.1%}  {c.name}: {c.advice}"
            + (f" [{', '.join(c.primitives)}]" if c.primitives else "")
            for c in self.causes
            if c.share >= 0.01
        ]
        return [head, *rest, *(f"  {doubt}" for doubt in self.doubts)]


_ADVICE: Mapping[str, tuple[tuple[str, ...], str]] = {
    "redundant_dram": (
        ("stage", "tile", "jam", "accumulate_in_register"),
        "data goes through DRAM more than once; keep it in registers or shared memory between uses",
    ),
    "redundant_l2": (
        ("stage", "tile", "split", "bind"),
        "blocks fetch the same data from L2 again and again; larger tiles fetch less",
    ),
    "uncoalesced": (
        ("bind", "reorder", "stage", "block_reduce"),
        "neighbouring threads touch distant addresses; bind thread.x to the loop with stride 1, or stage",
    ),
    "global_accesses": (
        ("stage", "accumulate_in_register", "tile"),
        "threads load the same data again and again; keep it in registers or shared memory",
    ),
    "bank_conflicts": (
        ("set_layout",),
        "lanes meet in the same shared-memory bank; pad the tile",
    ),
    "shared_traffic": (
        ("tile", "stage", "vectorize", "distribute"),
        "much shared-memory traffic per result; hold a tile of results in registers",
    ),
    "instructions": (
        ("vectorize", "unroll", "specialize"),
        "instructions beside the arithmetic that is needed: addresses, loop control, narrow accesses",
    ),
    "special_functions": (
        ("stage", "accumulate_in_register"),
        "more special-function work than needed; keep values instead of computing them twice",
    ),
    "latency": (
        ("split", "bind", "unroll", "vectorize", "launch_bounds", "warp_reduce", "block_reduce"),
        "too little is in flight: more threads, or more independent loads in each",
    ),
    "spills": (
        ("launch_bounds", "split", "tile"),
        "registers spill to local memory; smaller register tiles or looser launch bounds",
    ),
    "idle_sms": (
        ("split", "bind", "warp_reduce", "block_reduce"),
        "fewer blocks than SMs; give a warp or a block to what one thread does now",
    ),
    "tail": (
        ("split", "tile"),
        "the last blocks leave SMs idle; other block sizes divide the work more evenly",
    ),
    "launch": ((), "the launch itself; only more work per launch hides it"),
    "memory_system": ((), "the traffic that is needed anyway, not fully overlapped with the rest"),
    "arithmetic": ((), "the arithmetic that is needed anyway, not fully overlapped with the rest"),
    "unexplained": ((), "time that the model does not account for"),
}


def gap(bound: Bound, breakdown: Breakdown) -> GapReport:
    """Divides the breakdown's time above the attainable bound into causes."""
    time = breakdown.time_s
    lost = max(0.0, time - bound.time_s)
    raw = _raw(bound, breakdown)
    total = sum(raw.values())
    if total <= 0:
        raw, total = {"unexplained": 1.0}, 1.0
    causes = [
        Cause(name, lost * part / total, lost * part / total / time if time else 0.0, *_ADVICE[name])
        for name, part in raw.items()
        if part > 0 and lost > 0
    ]
    causes.sort(key=lambda c: (-c.seconds, c.name))
    memory, compute = (
        min(1.0, max((breakdown.terms.get(n, 0.0) for n in side), default=0.0) / time) if time else 0.0
        for side in (_MEMORY, _COMPUTE)
    )
    limiter, near = _headline(bound, breakdown, memory, compute)
    return GapReport(
        time_s=time,
        bound_s=bound.time_s,
        bound_by=bound.binding,
        fraction=bound.time_s / time if time else 0.0,
        timing=breakdown.timing,
        limiter=limiter,
        near_limit=near,
        memory=memory,
        compute=compute,
        causes=tuple(causes),
        doubts=_doubts(breakdown),
    )


def _doubts(breakdown: Breakdown) -> tuple[str, ...]:
    scaled, share = (breakdown.facts.get(n, 1.0) for n in ("trips_scaled", "arithmetic_share"))
    if scaled > 1.02:
        return (
            f"loops are taken to run {scaled:.3g} times as often as their accesses tell, for the arithmetic",
        )
    if share < 0.98:
        return (
            f"the code seems to do only {share:.0%} of the arithmetic that is needed: the time is too low",
        )
    return ()


def _headline(bound: Bound, breakdown: Breakdown, memory: float, compute: float) -> tuple[Limiter, bool]:
    if not breakdown.terms:
        return "unknown", False
    if breakdown.shares.get("launch", 0.0) > 0.5 * breakdown.time_s:
        return "launch", bound.binding == "launch"
    near = max(memory, compute) >= NEAR_LIMIT
    if max(memory, compute) < BUSY:
        return ("small grid" if breakdown.facts.get("waves", 1.0) < 1.0 else "latency"), False
    if abs(memory - compute) < APART:
        return "balanced", near
    return ("memory" if memory > compute else "compute"), near


def _raw(bound: Bound, breakdown: Breakdown) -> dict[str, float]:
    """Seconds of each cause before they are scaled to the time above the bound."""
    shares, facts, terms = breakdown.shares, breakdown.facts, breakdown.terms
    out: dict[str, float] = {}

    def put(name: str, seconds: float) -> None:
        if seconds > 0:
            out[name] = out.get(name, 0.0) + seconds

    needed = float(bound.bytes_read + bound.bytes_written)
    moved = facts.get("dram_read", 0.0) + facts.get("dram_written", 0.0)
    dram = shares.get("dram", 0.0)
    useful = min(1.0, needed / moved) if moved else 1.0
    put("redundant_dram", dram * (1.0 - useful))
    # What is needed counts as lost only where the variant takes longer for it than the bound does.
    put("memory_system", dram * useful - bound.time_s)

    coalescing = facts.get("coalescing", 1.0)
    l2, l1 = shares.get("l2", 0.0), shares.get("l1", 0.0)
    put("spills", l1 * facts.get("spill_l1", 0.0))
    l1 *= 1.0 - facts.get("spill_l1", 0.0)
    requested, fetched = facts.get("global_bytes", 0.0), facts.get("l2_bytes", 0.0)
    once_l1 = min(1.0, needed / requested) if requested else 1.0
    once_l2 = min(1.0, needed / (fetched * coalescing)) if fetched else 1.0
    put("uncoalesced", (l1 + l2) * (1.0 - coalescing))
    put("redundant_l2", l2 * coalescing * (1.0 - once_l2))
    put("global_accesses", l1 * coalescing * (1.0 - once_l1))
    put("memory_system", l2 * coalescing * once_l2 + l1 * coalescing * once_l1)
    spill = facts.get("spill_share", 0.0)

    shared, clean = shares.get("shared", 0.0), facts.get("conflict_free", 1.0)
    put("bank_conflicts", shared * (1.0 - clean))
    put("shared_traffic", shared * clean)

    for unit in ("issue", "alu", "fp32", "fp64"):
        part, busy = shares.get(unit, 0.0), terms.get(unit, 0.0)
        pipe = bound.terms.get("fp64" if unit == "fp64" else "fp32", 0.0)
        work = min(1.0, pipe / busy) if busy else 1.0
        put("spills", part * spill)
        put("instructions", part * max(0.0, 1.0 - work - spill))
        put("arithmetic", part * work - bound.time_s)
    special = terms.get("sfu", 0.0)
    work = min(1.0, bound.terms.get("sfu", 0.0) / special) if special else 1.0
    put("special_functions", shares.get("sfu", 0.0) * (1.0 - work))
    put("arithmetic", shares.get("sfu", 0.0) * work - bound.time_s)

    waiting, own = shares.get("latency", 0.0), facts.get("spill_wait", 0.0)
    put("spills", waiting * own)
    put("latency", waiting * (1.0 - own))
    put("idle_sms", shares.get("idle", 0.0))
    put("tail", shares.get("tail", 0.0))
    put("launch", shares.get("launch", 0.0) if bound.binding != "launch" else 0.0)
    put("unexplained", breakdown.time_s - sum(shares.values()))
    return out
