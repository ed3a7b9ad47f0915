"""How a time was measured, for people: samples, batches, what was checked meanwhile, clocks.

The input is the `detail` of a log, which anybody may have edited: what is not as expected is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from evolve.report.figures import listed, number, table
from evolve.report.units import microseconds, sizes

_RIGHT_BY = {
    "reference": "by the float64 reference",
    "original": "by what the original leaves, within twice the tolerance",
}


def timing_lines(detail: Mapping[str, Any], shapes: list[Any]) -> Iterator[str]:
    """Some lines for each timed size; none where times are estimated."""
    samples = listed(detail.get("samples_us"))
    for at, one in enumerate(listed(detail.get("timing"))):
        said = table(one)
        where = sizes(table(shapes[at])) if at < len(shapes) else f"timed size {at + 1}"
        yield f"at {where}: {'; '.join(_samples(said, samples[at] if at < len(samples) else ()))}"
        more = (*_warm(said), *_batch(said), *_checked(said), *_clocks(said))
        yield from (f"    {line}" for line in more)
    left_out = ", ".join(str(x) for x in listed(detail.get("families_not_judged_timed")))
    if left_out:
        yield f"inputs on which nobody is judged at a timed size, as nothing tells what is right: {left_out}"


def _samples(said: Mapping[str, Any], samples: Any) -> Iterator[str]:
    values = sorted(v for v in map(number, listed(samples)) if v is not None)
    if values:
        middle, high = median(values), values[min(len(values) - 1, 9 * len(values) // 10)]
        yield (
            f"{len(values)} samples, L2 cold and clean before each: median {microseconds(middle)}, least "
            f"{microseconds(values[0])}, 90 % below {microseconds(high)}"
        )
    floor = number(said.get("floor_us"))
    if floor is not None:
        yield f"an empty launch takes {microseconds(floor)}"


def _warm(said: Mapping[str, Any]) -> Iterator[str]:
    warm = number(said.get("warm_us"))
    if warm is not None:
        yield f"warm, with what L2 held before: {microseconds(warm)}, which the score does not count"


def _batch(said: Mapping[str, Any]) -> Iterator[str]:
    batch = table(said.get("batch"))
    launches, kernel = number(batch.get("launches")), number(batch.get("kernel_us"))
    if launches is not None and kernel is not None:
        yield f"in batches of {launches:.0f} it takes {microseconds(kernel)} longer than an empty launch"


def _checked(said: Mapping[str, Any]) -> Iterator[str]:
    checked = number(said.get("checked_launches"))
    if checked is None:
        return
    by = _RIGHT_BY.get(str(said.get("right_by")), "")
    sets = number(said.get("input_sets"))
    inputs = "" if sets is None else f" on {sets:.0f} set{'' if sets == 1 else 's'} of inputs"
    yield f"what {checked:.0f} timed launches{inputs} left was checked{f' {by}' if by else ''}"
    same = said.get("same_bits")
    if isinstance(same, bool):
        yield "the same bits each time" if same else "not the same bits each time, all within the tolerance"


def _clocks(said: Mapping[str, Any]) -> Iterator[str]:
    before, after = (*(number(table(c).get("sm_mhz")) for c in listed(said.get("clocks"))[:2]), None, None)[
        :2
    ]
    if before is None or after is None:
        return
    moved = ", which moved in two attempts" if said.get("clock_moved") is True else ""
    held = dict.fromkeys(
        str(reason) for c in listed(said.get("clocks"))[:2] for reason in listed(table(c).get("reasons"))
    )
    why = f"; held down by: {', '.join(held)}" if held else ""
    yield f"SM clock {before:.0f} MHz before and {after:.0f} after{moved}{why}"
