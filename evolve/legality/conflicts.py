"""Accesses that meet in a cell, and which of them barriers order.

Two accesses of one cell, at least one a write, by different threads of a block need a barrier
between them; by different blocks nothing can order them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import islpy as isl

from evolve.ir.poly import IslObject, limited
from evolve.ir.stmt import For, Reduce
from evolve.ir.types import Space
from evolve.ir.visit import variables
from evolve.legality.instances import BarrierPoint, Moment, Statement, times_of, value_at
from evolve.legality.model import Model
from evolve.legality.schedule import is_later, shortened


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
    shared = {name for name in model.written if model.buffers[name].space in spaces}
    for st in model.statements:
        for r in st.reads:
            if r.load.buffer in shared:
                cells = model.read(st, r, physical=True)
                out.append(Touch(st, r.load.buffer, cells, writes=False))
        if st.leaf.buffer in shared:
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


Place = tuple[object, ...]
"""Of a barrier: what is around it, and its time. Two of one place in kernels that differ in barriers alone
have the same instances, and as nothing else has another time, order the same."""


class Ordering:
    """Which instance pairs a barrier separates.

    `known` is kept by who asks about the same kernel with other barriers: what a barrier separates does not
    depend on the others.
    """

    def __init__(self, model: Model, known: dict[object, IslObject] | None = None) -> None:
        self.model = model
        self._points = {_place(b): b for b in model.barriers}
        self._known: dict[object, IslObject] = {} if known is None else known

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
            before = self.model.end_map(a).lex_lt_map(self.model.time_map(point))
        else:
            one, two = shortened([a.time[: len(point.time)], point.time])
            before = _moments(a, one).lex_lt_map(_moments(point, two))
        block = self._own_block(point)
        if block is None:
            return before
        return before.intersect(self.model.block_map(a).apply_range(block.reverse()))

    def _later(self, point: BarrierPoint, b: Statement) -> IslObject:
        """Instances of the barrier to those of `b` that come after them."""
        one, two = shortened([point.time, b.time[: len(point.time)]])
        return _moments(point, one).lex_lt_map(_moments(b, two))

    @property
    def places(self) -> frozenset[Place]:
        """Of all barriers."""
        return frozenset(self._points)

    def between(self, a: Statement, b: Statement) -> Iterator[tuple[Place, IslObject]]:
        """For each barrier with one: pairs (instance of a, instance of b) that it stands between."""
        for place, point in self._points.items():
            if not is_later(a.time, point.time) and not is_later(point.time, b.time):
                pairs = self._pairs(a, b, place)
                if not pairs.is_empty():
                    yield place, pairs

    def _pairs(self, a: Statement, b: Statement, place: Place) -> IslObject:
        point = self._points[place]

        def together() -> IslObject:
            before = self._remembered(("before", a.name, place), lambda: self._earlier(a, point))
            after = self._remembered(("after", b.name, place), lambda: self._later(point, b))
            return before.apply_range(after)

        return self._remembered(("pairs", a.name, b.name, place), together)

    def _remembered(self, key: object, ask: Callable[[], IslObject]) -> IslObject:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = ask()
        return found


def _place(b: BarrierPoint) -> Place:
    around = (s.var if isinstance(s, For) else s.cond for s in b.site.path)
    return (*around, b.site.in_else, b.time)


def _moments(st: Statement | BarrierPoint, time: Moment) -> IslObject:
    return times_of(st.frame, time, st.instances)


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


def survivors(race: Race, ordering: Ordering) -> tuple[Race | None, frozenset[Place]]:
    """What no barrier orders of a race, and the barriers that order the rest; nothing can order blocks."""
    left, used = race.pairs, set()
    for first, second, turned in _directions(race):
        for place, apart in ordering.between(first, second):
            if left.is_empty():
                break
            used.add(place)
            left = left.subtract(apart.reverse() if turned else apart)
    return None if left.is_empty() else replace(race, pairs=left), frozenset(used)


def _directions(race: Race) -> Iterator[tuple[Statement, Statement, bool]]:
    """Which may come first: the pairs of a race are of its first with its second, turned or not."""
    if race.within:
        yield race.first, race.second, False
        yield race.second, race.first, True


def _differ(meet: IslObject, first: IslObject, second: IslObject) -> IslObject:
    """The pairs of `meet` whose images differ."""
    if first.dim(isl.dim_type.out) == 0:
        return meet.subtract(meet)
    return meet.subtract(first.apply_range(second.reverse()))


def _threads(model: Model, st: Statement) -> IslObject:
    return st.frame.map_to("", [value_at(st.frame, t) for t in st.threads])


def overlapping(model: Model, a: Statement, b: Statement, meet: IslObject) -> IslObject:
    """The pairs of `meet` of which neither has happened when the other starts.

    Those of different threads have a barrier between them, or there is a race: so this finds pairs of one.
    """
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
