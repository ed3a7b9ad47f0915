"""What the examination at the end of a measured run came to, in lines: loud where the best program failed it.

The input is an `Examined` event of a log, which anybody may have edited: what is not as expected is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evolve.report.figures import listed, number, table
from evolve.sol.units import percent

_MOST = 4
_INTERVALS = (("95 %: ", "ratio_interval"), ("by chance: ", "noise_interval"))


def examined_lines(examined: Mapping[str, Any] | None) -> Iterator[str]:
    """One line when it passed, more when it did not; none without an examination."""
    if examined is None:
        return
    if examined.get("state") == "failed":
        yield "THE BEST PROGRAM FAILED THE EXAMINATION AFTER THE SEARCH: do not use it"
        yield from _some("failed", examined.get("failures"))
    yield f"examined after the search: {'; '.join(_parts(examined))}"
    yield from _some("not judged", examined.get("open_points"))


def _some(word: str, sentences: Any) -> Iterator[str]:
    found = [str(s) for s in listed(sentences)]
    yield from (f"    {word}: {s}" for s in found[:_MOST])
    if len(found) > _MOST:
        yield f"    and {len(found) - _MOST} more"


def _parts(examined: Mapping[str, Any]) -> Iterator[str]:
    held_out = [table(h) for h in listed(examined.get("held_out"))]
    right = [h for h in held_out if h.get("verdict") == "right"]
    gains = [s for s in (number(h.get("speedup")) for h in right) if s is not None]
    fractions = [f for f in (number(h.get("fraction")) for h in right) if f is not None]
    said = f"right at {len(right)} of {len(held_out)} held-out sizes"
    if gains:
        said += f", there {_span(gains, '.2f')}x the speed of the original"
    if fractions:
        said += f" and {_span(fractions, '.3f')} of the speed of light"
    yield from _retimed(table(examined.get("retimed")))
    yield said
    changes = [table(p) for p in listed(examined.get("perturbed"))]
    if changes:
        good = sum(p.get("verdict") == "right" for p in changes)
        yield f"{good} of {len(changes)} times right with one input element changed"
    yield f"compute-sanitizer: {table(examined.get('sanitizer')).get('state', 'not run')}"
    yield from _counters(table(examined.get("counters")))


def _retimed(again: Mapping[str, Any]) -> Iterator[str]:
    speedup = number(again.get("speedup"))
    if speedup is None:
        return
    said = [f"{word}{_interval(again.get(name))}" for word, name in _INTERVALS if _interval(again.get(name))]
    within = f" ({', '.join(said)})" if said else ""
    yield f"timed once more, {speedup:.2f}x the speed of the original{within}"


def _counters(found: Mapping[str, Any]) -> Iterator[str]:
    memory, compute = number(found.get("memory")), number(found.get("compute"))
    if memory is None or compute is None:
        if found:
            yield f"Nsight Compute: {found.get('state')}"
        return
    near = ", near the limit" if found.get("near_limit") is True else ""
    yield (
        f"by the GPU's counters limited by {found.get('limiter')}{near} (memory at {percent(memory)} of its "
        f"peak, compute at {percent(compute)})"
    )


def _interval(values: Any) -> str:
    """The widest of the intervals of all sizes, '' without one."""
    ends = [e for e in (number(x) for pair in listed(values) for x in listed(pair)) if e is not None]
    return _span(ends, ".3f") if ends else ""


def _span(values: list[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"
