"""Where a variant loses time against the attainable bound, as causes that a program can act on.

The causes divide exactly the time above the bound; `causes` gives their proportions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evolve.sol.bound import THIS_INPUT, Bound
from evolve.sol.breakdown import Breakdown, Timing
from evolve.sol.causes import CAUSES, attribute
from evolve.sol.counters import COMPUTE, MEMORY
from evolve.sol.units import microseconds, percent, title, unit
from evolve.sol.wording import because

__all__ = ["Breakdown", "Cause", "GapReport", "Timing", "gap"]

Limiter = Literal["memory", "compute", "balanced", "latency", "small grid", "launch", "unknown"]

NEAR_LIMIT = 0.8
BUSY = 0.6
APART = 0.1
"""The thresholds of Nsight Compute's bottleneck rule: below 60 % of both limits latency binds, from 80 % the
kernel is near a limit, and between them one side must lead by 10 points to be called the bottleneck."""

_MEMORY = ("dram", "l2", "l1", "shared")
_COMPUTE = ("issue", "fp32", "alu", "sfu", "fp64")


NAMED = 0.02
"""A cause that takes less of the time is not named in the text: estimates are not that good."""

MOST_TOLD = 5
"""Causes in the text at most."""

_SAYS: Mapping[Limiter, str] = {
    "memory": "memory-bound",
    "compute": "compute-bound",
    "balanced": "memory and compute balanced",
    "latency": "latency-bound",
    "small grid": "latency-bound, small grid",
    "launch": "launch-bound",
    "unknown": "only the time is known",
}


@dataclass(frozen=True)
class Cause:
    """One reason for lost time: seconds, their share of the variant's time, what addresses it.

    `primitives` are names of the transform language; `advice` says in a sentence what to try, `evidence` what
    was seen.
    """

    name: str
    seconds: float
    share: float
    primitives: tuple[str, ...]
    advice: str
    evidence: str = ""

    def lines(self) -> list[str]:
        """For people: time, share, name and numbers; then advice and primitives."""
        seen = f": {self.evidence}" if self.evidence else ""
        use = f" [{', '.join(self.primitives)}]" if self.primitives else ""
        head = f"{microseconds(self.seconds):>8} {percent(self.share):>4}  {title(self.name)}"
        return [f"{head}{seen}", f"{'':15}{self.advice}{use}"]


@dataclass(frozen=True)
class GapReport:
    """A variant against the bound.

    fraction   attainable time / time: 1 is the speed of light
    limiter    the headline; `near_limit`: it uses 80 % of the memory or the compute side
    memory, compute   the busiest unit of each side as a fraction of the time, and which units these are;
               where the GPU counted what Nsight Compute says of the sides, which are then called so
    causes     largest first; they add up to the time above the bound
    remarks    what to know about the bound
    doubts     what to know about the estimate
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
    memory_unit: str
    compute_unit: str
    causes: tuple[Cause, ...]
    remarks: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def binding(self) -> Cause | None:
        """The largest cause; None at the bound."""
        return self.causes[0] if self.causes else None

    @property
    def named(self) -> tuple[Cause, ...]:
        """Causes that take at least `NAMED` of the time."""
        return tuple(c for c in self.causes if c.share >= NAMED)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data, with the binding cause's name."""
        data = asdict(self)
        data["binding"] = self.binding.name if self.binding is not None else None
        return data

    def lines(self) -> list[str]:
        """For people and agents: a headline, a line a named cause, remarks."""
        head = (
            f"{microseconds(self.time_s)} {self.timing}, {percent(self.fraction)} of the speed of light "
            f"({microseconds(self.bound_s)}, bound by {unit(self.bound_by)})"
        )
        if self.limiter == "unknown":
            return [f"{head}; {_SAYS[self.limiter]}", *self.remarks, *self.doubts]
        near = ", near the limit" if self.near_limit else ""
        state = (
            f"{_SAYS[self.limiter]}{near}: {unit(self.memory_unit)} busy {percent(self.memory)}, "
            f"{unit(self.compute_unit)} {percent(self.compute)} of the time"
        )
        told = self.named[:MOST_TOLD]
        rest = sum(c.share for c in self.causes) - sum(c.share for c in told)
        lost = ["lost to", *(line for c in told for line in c.lines())] if told else []
        if told and rest >= NAMED:
            lost.append(f"{microseconds(rest * self.time_s):>8} {percent(rest):>4}  smaller causes")
        return [head, state, *lost, *self.remarks, *self.doubts]


def gap(bound: Bound, breakdown: Breakdown) -> GapReport:
    """Divides the breakdown's time above the attainable bound into causes."""
    time = breakdown.time_s
    lost = max(0.0, time - bound.time_s)
    raw = attribute(bound, breakdown)
    total = sum(raw.values())
    if total <= 0:
        raw, total = {"unexplained": 1.0}, 1.0
    causes = [
        Cause(
            name,
            lost * part / total,
            lost * part / total / time if time else 0.0,
            *CAUSES[name],
            because(name, bound, breakdown),
        )
        for name, part in raw.items()
        if part > 0 and lost > 0
    ]
    causes.sort(key=lambda c: (-c.seconds, c.name))
    memory_unit, memory = _busiest(breakdown, "memory", _MEMORY, MEMORY)
    compute_unit, compute = _busiest(breakdown, "compute", _COMPUTE, COMPUTE)
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
        memory_unit=memory_unit,
        compute_unit=compute_unit,
        causes=tuple(causes),
        remarks=_remarks(bound),
        doubts=_doubts(breakdown),
    )


def _busiest(breakdown: Breakdown, side: str, units: tuple[str, ...], counter: str) -> tuple[str, float]:
    """The busiest unit of a side and the fraction of the time that it works; where counted, the side."""
    if counter in breakdown.facts:
        return side, breakdown.facts[counter]
    unit = max(units, key=lambda n: breakdown.terms.get(n, 0.0))
    part = breakdown.terms.get(unit, 0.0) / breakdown.time_s if breakdown.time_s else 0.0
    return unit, min(1.0, part)


def _remarks(bound: Bound) -> tuple[str, ...]:
    out = []
    if bound.l2_resident and bound.binding == "dram":
        out.append(
            f"all data fits L2: a warm run may take {microseconds(bound.warm_time_s)}, "
            "the bound is that of a cold one"
        )
    if bound.this_input:
        out.append(THIS_INPUT)
    if not bound.exact:
        out.append("some of the traffic that is needed is an estimate")
    if "assumed" in bound.sources.get(bound.binding, ""):
        out.append(f"not measured on this GPU: {unit(bound.binding)} rate, {bound.sources[bound.binding]}")
    return tuple(out)


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
    if not breakdown.terms and MEMORY not in breakdown.facts:
        return "unknown", False
    if breakdown.shares.get("launch", 0.0) > 0.5 * breakdown.time_s:
        return "launch", bound.binding == "launch"
    near = max(memory, compute) >= NEAR_LIMIT
    if max(memory, compute) < BUSY:
        return ("small grid" if breakdown.facts.get("waves", 1.0) < 1.0 else "latency"), False
    if abs(memory - compute) < APART:
        return "balanced", near
    return ("memory" if memory > compute else "compute"), near
