"""A candidate's figures for people: where its time goes, what could be gained, what that rests on.

The input is the `gap` and `detail` of a log, which anybody may have edited: what is not as expected is left
out, never an error. All figures, under their own names, are in `show --json`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evolve.report.units import sizes
from evolve.sol.units import microseconds, percent, size, title, unit

_WAITS = {
    "latency": "waiting for results",
    "idle": "SMs without a block",
    "tail": "last blocks, unevenly spread",
    "dispatch": "starting blocks",
}
"""Parts of a time that are no unit of the GPU."""


def _count(value: float) -> str:
    return f"{value:.4g}"


FACTS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("dram_read", "read from DRAM", size),
    ("dram_written", "written to DRAM", size),
    ("l2_bytes", "through the L2 cache", size),
    ("global_bytes", "asked for by the threads", size),
    ("coalescing", "of the sectors moved are needed", percent),
    ("conflict_free", "of shared-memory passes are free of bank conflicts", percent),
    ("occupancy", "of the warps that an SM can hold", percent),
    ("blocks_per_sm", "blocks on an SM at a time", _count),
    ("waves", "waves of blocks", _count),
    ("instructions", "instructions a warp", _count),
    ("spill_share", "of the instructions are register spills", percent),
)


def resources(detail: Mapping[str, Any]) -> str:
    """Registers and memory in a line; '' where nothing is known."""
    said = []
    for name, of in (
        ("registers", "registers a thread"),
        ("shared_bytes", "bytes of shared memory a block"),
        ("local_bytes", "bytes of local memory a thread"),
    ):
        values = [v for v in map(number, listed(detail.get(name))) if v is not None]
        if values:
            said.append(f"{', '.join(_count(v) for v in dict.fromkeys(values))} {of}")
    return ", ".join(said)


def times(detail: Mapping[str, Any], shapes: list[Any]) -> Iterator[str]:
    """A line for each timed size: which variant ran, how long."""
    found, variants = listed(detail.get("times_us")), listed(detail.get("timed_variants"))
    for at, value in enumerate(found):
        time_us = number(value)
        if time_us is None:
            continue
        where = sizes(table(shapes[at])) if at < len(shapes) else f"timed size {at + 1}"
        variant = number(variants[at]) if at < len(variants) else None
        who = "" if variant is None else "the original" if variant < 0 else f"variant {variant + 1:g}"
        yield f"at {where}: {microseconds(time_us * 1e-6)}" + (f", by {who}" if who else "")


def division(detail: Mapping[str, Any]) -> Iterator[str]:
    """How the model divides the time, largest first; what a unit would take alone beside it."""
    model = table(detail.get("estimate"))
    terms = table(model.get("terms"))
    rows = [(number(v), str(name)) for name, v in table(model.get("shares")).items()]
    known = sorted(((v, name) for v, name in rows if v), reverse=True)
    for share, name in known:
        alone = number(terms.get(name))
        beside = "" if alone is None or name in _WAITS else f" (busy for {microseconds(alone)})"
        yield f"{microseconds(share):>8}  {_WAITS.get(name) or unit(name)}{beside}"


def facts(detail: Mapping[str, Any]) -> Iterator[str]:
    """What the model's time rests on."""
    known = table(table(detail.get("estimate")).get("facts"))
    for name, says, form in FACTS:
        value = number(known.get(name))
        if value is not None and (value or name != "spill_share"):
            yield f"{form(value):>8}  {says}"


def gains(gap: Mapping[str, Any]) -> Iterator[str]:
    """The causes of the gap to the speed of light, with their share and what addresses them."""
    for one in listed(gap.get("causes")):
        cause = table(one)
        share, lost = number(cause.get("share")), number(cause.get("seconds"))
        if share is None or lost is None or share < 0.001:
            continue
        names = ", ".join(str(x) for x in listed(cause.get("primitives")))
        means = f" [{names}]" if names else ""
        seen = f": {cause['evidence']}" if cause.get("evidence") else ""
        yield f"{microseconds(lost):>8} {percent(share):>5}  {title(str(cause.get('name')))}{seen}"
        yield f"{'':16}{cause.get('advice')}{means}"


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def listed(value: Any) -> list[Any]:
    """A list, or an empty one."""
    return list(value) if isinstance(value, list | tuple) else []


def table(value: Any) -> Mapping[str, Any]:
    """A mapping, or an empty one."""
    return value if isinstance(value, Mapping) else {}
