"""How often each loop of the machine code runs, from how often each source line accessed memory.

Whoever executes the text (a host run, say) can count accesses per line; the line table says which machine
instructions carry a line. A compiler splits one source loop into an unrolled one and loops for the rest: the
machine loop with the most copies of an access takes as many whole trips as fit, the next takes what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import floor

from evolve.toolchain.sass import Sass

Access = tuple[int, str]
"""A source line and `ldg`, `stg`, `lds` or `sts`."""

_STEMS = ("ldg", "stg", "lds", "sts")
# Executions are averages over threads; a rounding error must not cost a whole trip.
_SLACK = 1e-6


def loop_trips(sass: Sass, executions: Mapping[Access, float]) -> dict[int, float]:
    """Iterations of each loop per entry, for `Sass.weigh` and `warp_clocks`.

    `executions` counts, per thread that runs the kernel's body, the executed accesses of a line; vector
    accesses count one. A loop none of whose own instructions has a counted access takes one trip per entry,
    so that products down a nest stay right. Without line information every loop takes one trip.
    """
    copies = [_own_accesses(sass, index) for index in range(len(sass.loops))]
    outside = _own_accesses(sass, None)
    holders_of = {access: _holders(sass, copies, access) for access in executions}
    totals = [0.0] * len(sass.loops)
    counted = [False] * len(sass.loops)
    # Outer loops first: an inner one's share per entry needs to know how often it is entered.
    for access in sorted(
        executions, key=lambda a: min((sass.loops[i].depth for i in holders_of[a]), default=0)
    ):
        for parent, holders in _by_parent(sass, holders_of[access]).items():
            entries = (totals[parent] or 1.0) if parent is not None else 1.0
            share = executions[access] * entries / _entries(sass, holders_of[access], totals)
            around = outside[access] if parent is None else copies[parent][access]
            counts = {index: copies[index][access] for index in holders}
            order = sorted(holders, key=lambda index: (-counts[index], -_variety(sass, copies, index), index))
            for index, trips_per_entry in _split(order, counts, share / entries, around):
                totals[index] = max(totals[index], trips_per_entry * entries)
                counted[index] = True
    trips: dict[int, float] = {}
    real: list[float] = []
    for index, loop in enumerate(sass.loops):
        entries = 1.0 if loop.parent is None else real[loop.parent]
        total = totals[index] if counted[index] else entries
        real.append(total)
        trips[index] = total / entries if entries else 0.0
    return trips


def _own_accesses(sass: Sass, loop: int | None) -> Counter[Access]:
    """Static copies of each access among the instructions whose innermost loop is `loop`."""
    found: Counter[Access] = Counter()
    for block in sass.blocks:
        if block.loop != loop or block.cold:
            continue
        for instruction in sass.instructions[block.first : block.last + 1]:
            stem = instruction.kind.partition("_")[0]
            if instruction.line is not None and stem in _STEMS:
                found[instruction.line, stem] += 1
    return found


def _holders(sass: Sass, copies: list[Counter[Access]], access: Access) -> list[int]:
    """The innermost loops with an access; copies in a loop around one of them are its peeled iterations."""
    found = {index for index, own in enumerate(copies) if own[access]}
    around: set[int] = set()
    for index in found:
        parent = sass.loops[index].parent
        while parent is not None:
            around.add(parent)
            parent = sass.loops[parent].parent
    return sorted(found - around)


def _by_parent(sass: Sass, holders: list[int]) -> dict[int | None, list[int]]:
    groups: dict[int | None, list[int]] = {}
    for index in holders:
        groups.setdefault(sass.loops[index].parent, []).append(index)
    return groups


def _entries(sass: Sass, holders: list[int], totals: list[float]) -> float:
    """How often the groups of siblings among `holders` are entered, all together."""
    parents = {sass.loops[index].parent for index in holders}
    return sum(1.0 if parent is None else totals[parent] or 1.0 for parent in parents)


def _variety(sass: Sass, copies: list[Counter[Access]], loop: int) -> int:
    """Distinct accesses in a loop and those inside it. A compiler's special case, such as a loop for when the
    inner one is empty, has fewer than the loop that it stands in for."""
    inner = set(sass.loops[loop].blocks)
    return len({a for i, own in enumerate(copies) if set(sass.loops[i].blocks) <= inner for a in own})


def _split(
    order: list[int], counts: dict[int, int], executed: float, around: int
) -> Iterator[tuple[int, float]]:
    """Trips of sibling loops that share `executed` accesses per entry, with `around` copies beside them."""
    # Where no smaller loop takes the rest, the copies beside the loop do.
    left = max(0.0, executed - around) if len(set(counts.values())) == 1 else executed
    for position, index in enumerate(order):
        last = position == len(order) - 1 or counts[index] == counts[order[-1]]
        whole = left / counts[index] if last else float(floor(left / counts[index] + _SLACK))
        left = max(0.0, left - whole * counts[index])
        yield index, whole
