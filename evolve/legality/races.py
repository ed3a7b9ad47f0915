"""Checks `races`, `vector` and `source-race`: accesses that nothing orders."""

from __future__ import annotations

from evolve.ir.poly import limited
from evolve.ir.stmt import Reduce
from evolve.ir.types import LoopKind, Space
from evolve.legality.asynchronous import is_asynchronous
from evolve.legality.conflicts import (
    Touch,
    both_atomic,
    common_loops,
    conflicts,
    overlapping,
    touches,
    within,
)
from evolve.legality.model import Model
from evolve.legality.proof import Finding, Proof, refuted
from evolve.legality.witness import describe, sample_pair, sample_race

_MOST = 3


def check_races(p: Proof) -> list[Finding]:
    """E-RACE."""
    out: list[Finding] = []
    ordering = p.analysis.ordering(p.target)
    for number in range(len(p.analysis.unordered)):
        race = p.analysis.left(number, ordering)
        if race is None:
            continue
        who = "threads of one block" if race.within else "different blocks"
        out.append(
            refuted(
                "E-RACE",
                f"{who} touch {race.buffer} unordered: {describe(race.first)} and {describe(race.second)}",
                sample_race(p.target, race.pairs, race.buffer),
                None if race.within else "bind another loop: nothing orders blocks",
            )
        )
        if len(out) == _MOST:
            break
    return out or _under_way(p)


def _under_way(p: Proof) -> list[Finding]:
    """E-RACE: a thread touches a cell that its own asynchronous copy is still to fill."""
    if not any(is_asynchronous(st) for st in p.target.statements):
        return []
    for a, b, meet in conflicts(p.target, p.limits.operations):
        if not (is_asynchronous(a.st) or is_asynchronous(b.st)):
            continue
        with limited(p.limits.operations):
            left = overlapping(p.target, a.st, b.st, meet)
        if not left.is_empty():
            text = f"{describe(a.st)} and {describe(b.st)} touch {a.buffer} while it is copied"
            repair = "wait for the copy before, or start it after"
            return [refuted("E-RACE", text, sample_pair(p.target, left), repair)]
    return []


def check_vector(p: Proof) -> list[Finding]:
    """E-VECTOR: lanes of a vector loop run together, so none may depend on another.

    Reductions of lanes into one accumulator with one monoid are unrolled, in any order.
    """
    out: list[Finding] = []
    model = p.target
    found = touches(model, (Space.GLOBAL, Space.SHARED, Space.REGISTER))
    for i, a in enumerate(found):
        for b in found[i:]:
            if a.buffer != b.buffer or not (a.writes or b.writes):
                continue
            if _accumulate(a, b):
                continue
            common = common_loops(a.st, b.st)
            for n, loop in enumerate(common):
                if loop.kind is not LoopKind.VECTOR:
                    continue
                with limited(p.limits.operations):
                    meet = a.cells.apply_range(b.cells.reverse())
                    meet = within(meet, a.st, b.st, [x.var for x in common[:n]], loop.var)
                    if not meet.is_empty():
                        out.append(
                            refuted(
                                "E-VECTOR",
                                f"lanes of {loop.var} depend on one another through {a.buffer}: "
                                f"{describe(a.st)} and {describe(b.st)}",
                                sample_pair(model, meet),
                                f"do not vectorize {loop.var}",
                            )
                        )
    return out


def _accumulate(a: Touch, b: Touch) -> bool:
    x, y = a.st.leaf, b.st.leaf
    return a.writes and b.writes and isinstance(x, Reduce) and isinstance(y, Reduce) and x.monoid == y.monoid


def source_race(model: Model, operations: int) -> Finding | None:
    """E-SOURCE-RACE: the iterations of the lifted kernel's parallel loops must not meet in a cell.

    A parallel loop carries a conflict when the loops around it agree and it does not; where an
    outer sequential loop differs, that loop orders the two.
    """
    found = touches(model, (Space.GLOBAL, Space.SHARED, Space.REGISTER))
    for i, a in enumerate(found):
        for b in found[i:]:
            if a.buffer != b.buffer or not (a.writes or b.writes) or both_atomic(a, b):
                continue
            common = common_loops(a.st, b.st)
            for n, loop in enumerate(common):
                if loop.kind is not LoopKind.PARALLEL:
                    continue
                with limited(operations):
                    meet = a.cells.apply_range(b.cells.reverse())
                    meet = within(meet, a.st, b.st, [x.var for x in common[:n]], loop.var)
                    if not meet.is_empty():
                        return refuted(
                            "E-SOURCE-RACE",
                            f"threads of the source kernel touch {a.buffer} unordered: {describe(a.st)} "
                            f"and {describe(b.st)}",
                            sample_pair(model, meet),
                        )
    return None
