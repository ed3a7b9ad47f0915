"""Whether a timing is to be believed. Pure judgement of raw numbers; nothing here measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from evolve.devices.cuda.messages import Measured
from evolve.scoring.fitness import floor_s
from evolve.scoring.task import Status
from evolve.sol.bound import Bound

WALL_SHARE = 0.1
WALL_SLACK_US = 200.0
"""The host's clock may show a tenth and this much more than the events: launching and waking up."""
CLOCK_MOVED = 0.02
"""Samples between which the SM clock moved by more are taken again."""
HELD = 10.0
"""So many times faster than the best so far is looked at twice."""


@dataclass(frozen=True)
class Doubt:
    """Why a timing gives no score."""

    status: Status
    message: str


def times_us(measured: Measured, sequence: int = 0) -> tuple[float, float | None]:
    """Median time of a sample, and of a launch in a batch, microseconds, the launches' own cost included.

    The second is None for kernels that are not short.
    """
    batch = measured.batches[sequence] if sequence < len(measured.batches) else None
    single = median(measured.samples_us[sequence])
    return single, median(batch.us) if batch is not None and batch.us else None


def warm_us(measured: Measured, sequence: int = 0) -> float | None:
    """Median time with what L2 held before, microseconds, for information: nothing rests on it."""
    taken = measured.warm_us[sequence] if sequence < len(measured.warm_us) else ()
    return median(taken) if taken else None


def doubt(measured: Measured, bound: Bound, where: str, sequence: int = 0) -> Doubt | None:
    """The first reason not to believe the times of one sequence; `where` says the sizes."""
    wrong = [m for m in measured.mismatches if m.sequence == sequence]
    sure = [m for m in wrong if m.wrong is not None]
    if sure:
        return Doubt(
            "incorrect",
            f"{where}: {len(sure)} of the timed launches left something else in {sure[0].output} than "
            f"the checked one: {sure[0].wrong} elements of the first are wrong",
        )
    if wrong:
        return Doubt(
            "quarantined",
            f"{where}: results in {wrong[0].output} differ from launch to launch, and there is no reference "
            "at these sizes to judge them by",
        )
    if measured.changed or measured.broken_guards:
        names = ", ".join(dict.fromkeys((*measured.changed, *measured.broken_guards)))
        if len(measured.samples_us) > 1:  # nobody noted which of them did it
            what = f"one of those timed together writes outside its outputs (in or around {names})"
            return Doubt("quarantined", f"{where}: {what}")
        return Doubt(
            "incorrect", f"{where}: it writes outside its outputs while timed (in or around {names})"
        )
    return _unaccounted(measured, where) or _too_fast(measured, bound, where, sequence)


def _unaccounted(measured: Measured, where: str) -> Doubt | None:
    if not measured.wall_us:
        return None
    # A busy host delays many launches, but hardly three of four.
    late = sorted((w - e, w) for w, e in zip(measured.wall_us, measured.event_us, strict=True))
    over, wall = late[len(late) // 4]
    if over <= WALL_SHARE * wall + WALL_SLACK_US:
        return None
    return Doubt(
        "quarantined",
        f"{where}: busy for {wall:.0f} us by the host's clock, for {wall - over:.0f} us by events: "
        "work outside of what is timed, or another process on this GPU",
    )


def _too_fast(measured: Measured, bound: Bound, where: str, sequence: int) -> Doubt | None:
    floor, binding = floor_s(bound)
    single, batched = times_us(measured, sequence)
    for us, how in ((single, ""), (batched, " in a batch")):
        if us is not None and us * 1e-6 < floor:
            resident = (
                "; its arrays fit L2, but they were not in it when it began" if bound.l2_resident else ""
            )
            return Doubt(
                "quarantined",
                f"{where}: it would take {us:.2f} us{how}, and no correct run takes less than "
                f"{floor * 1e6:.2f} us (hard {binding} bound){resident}",
            )
    return None


def clock_shift(measured: Measured) -> float:
    """By which factor the SM clock after the samples differs from before, up or down: at least 1.

    1 where it moved no more than clocks do, and when nobody knows.
    """
    before, after = measured.clocks
    if before is None or after is None or not before.sm_mhz or not after.sm_mhz:
        return 1.0
    ratio = after.sm_mhz / before.sm_mhz
    return max(ratio, 1 / ratio) if abs(ratio - 1) > CLOCK_MOVED else 1.0


def clock_moved(measured: Measured) -> bool:
    """Whether samples were taken at another clock than others; False when nobody knows."""
    return clock_shift(measured) > 1.0


def unsteady(measured: Measured, where: str) -> str | None:
    """In a sentence that the clock moved; None when it did not. `where` says the sizes."""
    before, after = measured.clocks
    if before is None or after is None or not clock_moved(measured):
        return None
    return (
        f"{where}: the SM clock moved from {before.sm_mhz} to {after.sm_mhz} MHz during the samples, "
        "which were taken twice: its time is uncertain by as much"
    )


def summary(measured: Measured, sequence: int = 0) -> dict[str, Any]:
    """What a score says about its timing, JSON data."""
    batch = measured.batches[sequence] if sequence < len(measured.batches) else None
    clocks = [None if c is None else asdict(c) for c in measured.clocks]
    return {
        "samples_us": list(measured.samples_us[sequence]),
        "warm_us": warm_us(measured, sequence),
        "floor_us": measured.floor_us,
        "batch": None
        if batch is None
        else {
            "launches": batch.launches,
            "us": list(batch.us),
            "floor_us": list(batch.floor_us),
            "kernel_us": median(batch.us) - median(batch.floor_us),
        },
        "checked_launches": measured.checked,
        "same_bits": measured.varied == 0,
        "clocks": clocks,
        "clock_moved": clock_moved(measured),
        "persisting_reset": measured.persisting_reset,
    }


def record(measured: Measured, bound: Bound, digests: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """All that is known about a timing that is not believed, JSON data."""
    floor, binding = floor_s(bound)
    return {
        "measured": asdict(measured) | {"fault": None if measured.fault is None else asdict(measured.fault)},
        "hard_terms_s": dict(bound.hard_terms),
        "floor_s": floor,
        "binding": binding,
        "l2_resident": bound.l2_resident,
        "digests": {key: {n: f"{d:016x}" for n, d in of.items()} for key, of in digests.items()},
    }
