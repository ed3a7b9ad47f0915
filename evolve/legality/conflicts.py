"""Accesses that meet in a cell, and which of them barriers order.

Two accesses of one cell, at least one a write, by different threads of a block need a barrier
between them; by different blocks nothing can order them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import islpy as isl

from evolve.ir.poly import IslObject, limited
from evolve.ir.stmt import For, Reduce
from evolve.ir.types import Space
from evolve.ir.visit import variables
from evolve.legality.instances import BarrierPoint, Statement, value_at
from evolve.legality.model import Model


@dataclass(frozen=True)
class Touch:
    """An access of a statement to a buffer that threads share: instances to cells."""

    st: Statement
    buffer: str
    cells: IslObject
    writes: bool


@dataclass(frozen=True)
class Race:
    """Instances of `first` and `second` that conflict unordered. `within`: in one block."""

    first: Statement
    second: Statement
    pairs: IslObject
    buffer: str
    within: bool


def touches(model: Model, spaces: tuple[Space, ...] = (Space.GLOBAL, Space.SHARED)) -> list[Touch]:
    """Accesses to buffers that some statement writes, subscripts affine.

    Opaque reads are of buffers nobody writes, which `equality` demands of them.
    """
    out: list[Touch] = []
    for st in model.statements:
        for r in st.reads:
            if r.load.buffer in model.written and model.buffers[r.load.buffer].space in spaces:
                cells = model.read(st, r, physical=True)
                out.append(Touch(st, r.load.buffer, cells, writes=False))
        if model.buffers[st.leaf.buffer].space in spaces:
            out.append(Touch(st, st.leaf.buffer, model.write(st, physical=True), writes=True))
    return out


def conflicts(model: Model, operations: int) -> Iterator[tuple[Touch, Touch, IslObject]]:
    """Pairs of accesses with the instances that meet in a cell, at least one writing."""
    found = touches(model)
    for i, a in enumerate(found):
        for b in found[i:]:
            if a.buffer != b.buffer or not (a.writes or b.writes) or both_atomic(a, b):
                continue
            with limited(operations):
                meet = a.cells.apply_range(b.cells.reverse())
                if not meet.is_empty():
                    yield a, b, meet


def both_atomic(a: Touch, b: Touch) -> bool:
    """Whether two accesses are indivisible updates with one monoid, which need no order."""
    x, y = a.st.leaf, b.st.leaf
    updates = a.writes and b.writes and isinstance(x, Reduce) and isinstance(y, Reduce)
    return updates and x.atomic and y.atomic and x.monoid == y.monoid  # type: ignore[union-attr]


class Ordering:
    """Which instance pairs a barrier separates."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._points = [(b, self._own_block(b)) for b in model.barriers]
        self._before: dict[tuple[str, int], IslObject] = {}
        self._after: dict[tuple[str, int], IslObject] = {}

    def _own_block(self, b: BarrierPoint) -> IslObject | None:
        """The barrier's block coordinates, which must be those of what it orders.

        None when every block passes the same barriers (no condition above, no trip count that
        depends on a block coordinate): then comparing blocks, which is slow, changes nothing,
        because pairs in question are of one block.
        """
        grid = {x.var for x in b.site.loops if x.kind.is_grid}
        plain = all(isinstance(s, For) and not variables(s.extent) & grid for s in b.site.path)
        return None if plain else self.model.block_map(b)

    def _earlier(self, a: Statement, point: BarrierPoint) -> IslObject:
        """Instances of `a` to those of the barrier that they come before.

        A barrier has a place in its block of its own. So whatever has the same time up to there, as far as
        it has one, stands at another place: no more of the time has to be looked at.
        """
        if self.model.lasts(a):
            return self.model.end_map(a).lex_lt_map(self.model.time_map(point))
        long = len(point.time)
        return self.model.moment_map(a, long).lex_lt_map(self.model.moment_map(point, long))

    def separated(self, a: Statement, b: Statement) -> IslObject:
        """Pairs (instance of a, instance of b) with a barrier of that block after a and before b."""
        out: IslObject | None = None
        for i, (point, block) in enumerate(self._points):
            key = (a.name, i)
            if key not in self._before:
                before = self._earlier(a, point)
                if block is not None:
                    before = before.intersect(self.model.block_map(a).apply_range(block.reverse()))
                self._before[key] = before
            key_b = (b.name, i)
            if key_b not in self._after:
                long = len(point.time)
                after = self.model.moment_map(point, long).lex_lt_map(self.model.moment_map(b, long))
                self._after[key_b] = after
            between = self._before[key].apply_range(self._after[key_b])
            out = between if out is None else out.union(between)
        if out is None:
            empty = self.model.time_map(a).lex_lt_map(self.model.time_map(b))
            return empty.subtract(empty)
        return out


def unordered(model: Model, operations: int) -> Iterator[Race]:
    """Conflicts of different threads or blocks, barriers not considered, one pair of accesses a time."""
    for a, b, meet in conflicts(model, operations):
        with limited(operations):
            across = _differ(meet, model.block_map(a.st), model.block_map(b.st))
            if not across.is_empty():
                yield Race(a.st, b.st, across, a.buffer, within=False)
                continue
            apart = _differ(meet, _threads(model, a.st), _threads(model, b.st))
            if not apart.is_empty():
                yield Race(a.st, b.st, apart, a.buffer, within=True)


def survivors(race: Race, ordering: Ordering) -> Race | None:
    """What no barrier orders of a race; nothing can order blocks."""
    pairs = race.pairs
    if race.within:
        pairs = pairs.subtract(ordering.separated(race.first, race.second))
        if not pairs.is_empty():
            pairs = pairs.subtract(ordering.separated(race.second, race.first).reverse())
    return None if pairs.is_empty() else replace(race, pairs=pairs)


def _differ(meet: IslObject, first: IslObject, second: IslObject) -> IslObject:
    """The pairs of `meet` whose images differ."""
    if first.dim(isl.dim_type.out) == 0:
        return meet.subtract(meet)
    return meet.subtract(first.apply_range(second.reverse()))


def _threads(model: Model, st: Statement) -> IslObject:
    values = [value_at(st.frame, t) for t in st.threads]
    return st.frame.map_to("", values).intersect_domain(st.instances)


def overlapping(model: Model, a: Statement, b: Statement, meet: IslObject) -> IslObject:
    """The pairs of `meet` by one thread of which neither has happened when the other starts."""
    same = _threads(model, a).apply_range(_threads(model, b).reverse())
    blocks = model.block_map(a).apply_range(model.block_map(b).reverse())
    meet = meet.intersect(same).intersect(blocks)
    if a.name == b.name:
        meet = meet.subtract(isl.Map.identity(meet.get_space()))
    meet = meet.subtract(model.end_map(a).lex_lt_map(model.time_map(b)))
    return meet.subtract(model.end_map(b).lex_lt_map(model.time_map(a)).reverse())


def within(meet: IslObject, a: Statement, b: Statement, same: list[str], lane: str) -> IslObject:
    """Pairs in one iteration of the loops `same` and in different iterations of `lane`."""
    outer_a = a.frame.map_to("", [a.frame.env[v] for v in same])
    outer_b = b.frame.map_to("", [b.frame.env[v] for v in same])
    meet = meet.intersect(outer_a.apply_range(outer_b.reverse()))
    lane_a, lane_b = a.frame.map_to("", [a.frame.env[lane]]), b.frame.map_to("", [b.frame.env[lane]])
    return meet.subtract(lane_a.apply_range(lane_b.reverse()))


def common_loops(a: Statement, b: Statement) -> list[For]:
    """The loops around both statements, outermost first (loop names are unique)."""
    names = {x.var for x in b.site.loops}
    return [x for x in a.site.loops if x.var in names]
