"""Who wrote what is read: last stores and pending reductions, chased through copies and partials.

The value of a cell when it is read is its last store, combined with the reductions made on it since:

    value(read) = base(read)  (+)  { contributions(read) }

A base is an instance of a store, or the cell's initial content. In a transformed kernel copies are
chased to what they copied, and a combine of a partial is replaced by the partial's contributions.

Flows are total: each instance that reads has a base. What compares two of them, or follows one to what it
finds, rests on it: a reader without one would agree with any other. It is asked of what isl has searched, and
is so by construction of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import islpy as isl

from evolve.dsl.diagnostic import Diagnostic
from evolve.ir.expr import Const
from evolve.ir.poly import Frame, IslLimitError, IslObject, context, limited
from evolve.ir.scaled import rescaling
from evolve.ir.stmt import Reduce, Store
from evolve.ir.types import Monoid
from evolve.legality.instances import ModelError, Moment, Read, Statement, times_of, value_at
from evolve.legality.last_writers import empty as _empty
from evolve.legality.last_writers import reaching
from evolve.legality.memory import remembered
from evolve.legality.model import Model
from evolve.legality.schedule import is_later, shortened
from evolve.legality.witness import describe, sample_pair

_COPY_CHAIN = 8
_KEEP = 2048


class FlowError(Exception):
    """A value cannot be what the source computes."""

    def __init__(self, diagnostic: Diagnostic, *, refuted: bool = True) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic
        self.refuted = refuted


@dataclass(frozen=True)
class Value:
    """Relations from the instances that read to what they read (union maps).

    base      store instances, and cells (tuple `@buffer`) for initial contents
    initial   the part of base that is initial content
    adds      reduce instances, each counted once
    monoids   the monoids in `adds`
    """

    base: IslObject
    initial: IslObject
    adds: IslObject
    monoids: frozenset[Monoid]


@dataclass(frozen=True)
class Reader:
    """Who reads: its frame, the instances that do, and when (as long as all times, with a tail of 0)."""

    frame: Frame
    instances: IslObject
    time: Moment


class Flow:
    """Values read in a model. `operations` bounds each isl query."""

    def __init__(self, model: Model, operations: int) -> None:
        self.model = model
        self.operations = operations
        self._last: dict[tuple[str, int], Value] = {}
        self._resolved: dict[tuple[str, int], Value] = {}
        self._singles: dict[str, list[tuple[Statement, IslObject]] | None] = {}
        self._writers: dict[str, list[Statement]] = {}
        for st in model.statements:
            if rescaling(st.leaf) is not None:
                continue  # It changes no contribution, which `online` checks.
            self._writers.setdefault(st.leaf.buffer, []).append(st)

    def last(self, st: Statement, r: Read) -> Value:
        """Base and contributions of a read slot, copies and partials not looked through."""
        key = (st.name, r.twin)
        if key not in self._last:
            sink = self.model.read(st, r)
            reader = Reader(st.frame, r.instances, self.model.padded(st.time, (0,)))
            self._last[key] = self._query(r.load.buffer, sink, reader)
        return self._last[key]

    def found(self, st: Statement) -> Value:
        """What a reduction finds in the cell that it goes on with."""
        reader = Reader(st.frame, st.instances, self.model.padded(st.time, (0,)))
        return self._query(st.leaf.buffer, self.model.write(st), reader)

    def final(self, buffer: str) -> Value:
        """What each cell of a global buffer holds at the end; the domain is the tuple `!buffer`."""
        frame, box = extent_box(self.model, buffer, f"!{buffer}")
        values = [frame.env[d] for d in frame.dims]
        sink = frame.map_to(buffer, values).intersect_domain(box)
        writes = self._single_writes(buffer)
        if writes is not None:
            with limited(self.operations):
                return self._found(buffer, sink, [sink.apply_range(w.reverse()) for _, w in writes])
        return self._query(buffer, sink, Reader(frame, box, self.model.padded((1 << 30,), (0,))))

    def _single_writes(self, buffer: str) -> list[tuple[Statement, IslObject]] | None:
        """The stores into a buffer when no cell is written twice (and none reduced into), else None.

        Then no last writer has to be searched for, which costs many times more on tiled stores.
        """
        if buffer not in self._singles:
            self._singles[buffer] = self._find_single_writes(buffer)
        return self._singles[buffer]

    def _find_single_writes(self, buffer: str) -> list[tuple[Statement, IslObject]] | None:
        writers = self._writers.get(buffer, [])
        if not all(isinstance(w.leaf, Store) for w in writers):
            return None
        out: list[tuple[Statement, IslObject]] = []
        try:
            with limited(self.operations):
                seen: IslObject | None = None
                for w in writers:
                    write = self.model.write(w)
                    cells = write.range()
                    if not write.is_injective() or (seen is not None and not seen.is_disjoint(cells)):
                        return None
                    seen = cells if seen is None else seen.union(cells)
                    out.append((w, write))
        except IslLimitError:
            return None
        return out

    def _before(self, buffer: str, sink: IslObject, reader: Reader) -> Value | None:
        """`_query` for a buffer without rewrites: the writer of the cell, if it comes before."""
        writes = self._single_writes(buffer)
        if writes is None:
            return None
        with limited(self.operations):
            time = times_of(reader.frame, reader.time, reader.instances)
            reach = []
            for w, write in writes:
                earlier = self.model.end_map(w, (1,)).lex_lt_map(time).reverse()
                reach.append(sink.apply_range(write.reverse()).intersect(earlier))
            return self._found(buffer, sink, reach)

    def _found(self, buffer: str, sink: IslObject, reach: list[IslObject]) -> Value:
        """Total: who is in none of `reach` finds what was there."""
        base, rest = _empty(), sink
        for r in reach:
            base = base.union(isl.UnionMap.from_map(r))
            rest = rest.subtract_domain(r.domain())
        initial = isl.UnionMap.from_map(_initial(rest, buffer))
        return Value(base.union(initial), initial, _empty(), frozenset())

    def _query(self, buffer: str, sink: IslObject, reader: Reader) -> Value:
        writers = [w for w in self._writers.get(buffer, []) if not is_later(w.time, reader.time)]
        if not writers:
            base = isl.UnionMap.from_map(_initial(sink, buffer))
            return Value(base, base, _empty(), frozenset())
        try:
            return self._search(writers, buffer, sink, reader)
        except IslLimitError:
            found = self._before(buffer, sink, reader)
            if found is None:
                raise
            return found

    def _search(self, writers: list[Statement], buffer: str, sink: IslObject, reader: Reader) -> Value:
        """isl's own search for last writers.

        The reader gets a tuple name of its own for it: a statement that updates what it reads would
        otherwise have the times of its read and of its write, and read what it writes itself.
        """
        reads = sink.set_tuple_name(isl.dim_type.in_, f"?{reader.frame.name}")
        when, *ends = schedule_of(self.model, writers, reader)
        parts = [x for w, end in zip(writers, ends, strict=True) for x in self._parts(w, end)]
        writes, schedule = tuple(x for x, _ in parts), (when, *(end for _, end in parts))
        with limited(self.operations):
            key = (buffer, reader.instances, reads, writes, schedule, self.operations)
            return remembered("flows", key, _KEEP, lambda: _reaching(buffer, reader, reads, writes, schedule))

    def _parts(self, w: Statement, end: IslObject) -> Iterator[tuple[Write, IslObject]]:
        """A writer's instances and when they have happened, those apart that end at other places in the text.

        isl tells from components of the times that are constant at which depth two statements part. Those of
        one statement must therefore be constant for all of its instances, or for none.
        """
        monoid = w.leaf.monoid if isinstance(w.leaf, Reduce) else None
        write = self.model.write(w)
        if not self.model.lasts(w):
            yield (w.instances.identity(), write, monoid), end
            return
        for n, part in enumerate(self.model.parts(w)):
            name = f"{w.name}!{n}" if n else w.name
            maps = [m.intersect_domain(part).set_tuple_name(isl.dim_type.in_, name) for m in (write, end)]
            back = part.identity().set_tuple_name(isl.dim_type.in_, name)
            yield (back, maps[0], monoid), maps[1]

    def resolve(self, st: Statement, r: Read, depth: int = 0) -> Value:
        """Like `last`, with copies and partials looked through. Raises FlowError."""
        key = (st.name, r.twin)
        if key not in self._resolved:
            self._resolved[key] = self.look_through(self.last(st, r), describe(st, r), depth)
        return self._resolved[key]

    def look_through(self, value: Value, what: str, depth: int = 0) -> Value:
        """Replace copies by what they copied and combines by their partial's contributions.

        Total, as `value` and what copies find are: a copy evaluates the load that it is in each instance.
        """
        if depth > _COPY_CHAIN:
            raise FlowError(
                Diagnostic("E-FLOW", f"{what} goes through a chain of copies that does not end"),
                refuted=False,
            )
        with limited(self.operations):
            base, initial, adds = value.base, value.initial, value.adds
            monoids: set[Monoid] = set()
            for w in self._reached(value.adds):
                assert isinstance(w.leaf, Reduce)
                monoids.add(w.leaf.monoid)
        for w in self._reached(value.base):
            if not w.is_copy:
                continue
            # The copied element; loads in its subscripts come before it.
            inner = self.resolve(w, w.reads[-1], depth + 1)
            with limited(self.operations):
                inst = isl.UnionSet.from_set(w.instances)
                base = base.subtract_range(inst).union(value.base.apply_range(inner.base))
                initial = initial.union(value.base.apply_range(inner.initial))
                extra = value.base.apply_range(inner.adds)
                self._once(adds, extra, what)
                adds = adds.union(extra)
                monoids |= inner.monoids
        for w in self._reached(value.adds):
            if not w.is_combine:
                continue
            inner = self._partial(w, depth)
            with limited(self.operations):
                rest = adds.subtract_range(isl.UnionSet.from_set(w.instances))
                if not injective_per_reader(value.adds, inner.adds):
                    raise FlowError(
                        Diagnostic(
                            "E-REDUCTION",
                            f"{what} receives a contribution twice through {describe(w)}",
                        )
                    )
                extra = value.adds.apply_range(inner.adds)
                self._once(rest, extra, what)
                adds = rest.union(extra)
        if len(monoids) > 1:
            raise FlowError(
                Diagnostic(
                    "E-REDUCTION", f"{what} mixes reductions of different monoids, whose order counts"
                ),
                refuted=False,
            )
        return Value(base, initial, adds, frozenset(monoids))

    def _partial(self, w: Statement, depth: int) -> Value:
        """The contributions that a combine adds. Raises FlowError unless its partial starts neutral."""
        leaf = w.leaf
        assert isinstance(leaf, Reduce)
        if len(w.reads) != 1 or leaf.value != w.reads[0].load:
            raise FlowError(
                Diagnostic("E-REDUCTION", f"{describe(w)} has no origin and is not a combine of a partial")
            )
        inner = self.resolve(w, w.reads[0], depth + 1)
        neutral: IslObject = isl.UnionSet.read_from_str(context(), "{ }")
        for s in self.model.statements:
            if identity_of(s, leaf.monoid):
                neutral = neutral.union(isl.UnionSet.from_set(s.instances))
        with limited(self.operations):
            bad = inner.base.subtract_range(neutral)
            if not bad.is_empty():
                raise FlowError(
                    Diagnostic(
                        "E-REDUCTION",
                        f"{describe(w)} folds a partial that does not start at the identity of "
                        f"{leaf.monoid.name}",
                        witness=sample_pair(self.model, bad),
                    )
                )
        if inner.monoids - {leaf.monoid}:
            raise FlowError(
                Diagnostic(
                    "E-REDUCTION", f"{describe(w)} folds with {leaf.monoid.name} what another monoid gathered"
                )
            )
        return inner

    def _once(self, a: IslObject, b: IslObject, what: str) -> None:
        twice = a.intersect(b)
        if not twice.is_empty():
            raise FlowError(
                Diagnostic(
                    "E-REDUCTION",
                    f"{what} receives a contribution twice",
                    witness=sample_pair(self.model, twice),
                )
            )

    def _reached(self, relation: IslObject) -> list[Statement]:
        names = set()
        relation.range().foreach_set(lambda s: names.add(s.get_tuple_name()))
        return [self.model.by_name[n] for n in sorted(names) if n in self.model.by_name]


Write = tuple[IslObject, IslObject, Monoid | None]
"""Instances under a name of their own to those of a statement, the cells that they write, and with what they
update these."""


def _reaching(
    buffer: str, reader: Reader, sink: IslObject, writes: tuple[Write, ...], schedule: tuple[IslObject, ...]
) -> Value:
    """isl's own search for last writers. The reader's instances are called `?reader` in `sink`.

    Raises ModelError for a reader that it lost.
    """
    must, may = _empty(), _empty()
    stores = reduces = _empty()
    updates: list[tuple[Monoid, IslObject]] = []
    for back, cells, monoid in writes:
        written, inst = isl.UnionMap.from_map(cells), isl.UnionMap.from_map(back)
        if monoid is None:
            must, stores = must.union(written), stores.union(inst)
        else:
            may, reduces = may.union(written), reduces.union(inst)
            updates.append((monoid, inst.range()))
    found, none = reaching(isl.UnionMap.from_map(sink), must, may, schedule)
    found, unwritten = (_named(x, reader.frame.name) for x in (found, none))
    base, adds = found.apply_range(stores), found.apply_range(reduces)
    initial = _empty()
    if not unwritten.is_empty():
        initial = isl.UnionMap.from_map(_initial(isl.Map.from_union_map(unwritten), buffer))
    base = base.union(initial)
    _check_total(reader.instances, base, buffer)
    monoids = frozenset(m for m, inst in updates if not adds.intersect_range(inst).is_empty())
    return Value(base, initial, adds, monoids)


def _check_total(instances: IslObject, base: IslObject, buffer: str) -> None:
    """Raises ModelError unless each instance that reads is known to find something."""
    if not isl.UnionSet.from_set(instances).is_subset(base.domain()):
        text = f"isl's search does not say of each read of {buffer} what it finds there"
        raise ModelError("E-FLOW", text, refuted=False)


def _together(maps: tuple[IslObject, ...]) -> IslObject:
    return reduce(lambda known, m: known.union(isl.UnionMap.from_map(m)), maps, _empty())


def schedule_of(model: Model, writers: list[Statement], reader: Reader) -> tuple[IslObject, ...]:
    """When the reader, called `?` and its name, reads and each writer has happened: maps to times."""
    if any(map(model.lasts, writers)):
        maps = [times_of(reader.frame, reader.time, reader.instances)]
        maps += [model.end_map(w, (1,)) for w in writers]
    else:
        times = shortened([reader.time, *(model.padded(w.time, (1,)) for w in writers)])
        frames = [reader.frame, *(w.frame for w in writers)]
        # Which instances there are the accesses say.
        maps = [f.map_to("", [value_at(f, x) for x in t]) for f, t in zip(frames, times, strict=True)]
    return (maps[0].set_tuple_name(isl.dim_type.in_, f"?{reader.frame.name}"), *maps[1:])


def previous(
    model: Model, writers: list[Statement], sink: IslObject, st: Statement
) -> list[tuple[Statement, IslObject]]:
    """For each instance of `st`, which touches the cell that `sink` says: the writer instance just before.

    Relations from `st` to each writer that is such for some instance. Raises ModelError for one that is lost.
    """
    reader = Reader(st.frame, st.instances, model.padded(st.time, (0,)))
    writers = [w for w in writers if not is_later(w.time, reader.time)]
    reads = sink.set_tuple_name(isl.dim_type.in_, f"?{st.name}")
    writes = tuple(map(model.write, writers))
    schedule = schedule_of(model, writers, reader)

    def search() -> IslObject:
        found, none = reaching(isl.UnionMap.from_map(reads), _together(writes), _empty(), schedule)
        _check_total(sink.domain(), _named(found.union(none), st.name), sink.get_tuple_name(isl.dim_type.out))
        return _named(found, st.name)

    known = remembered("previous", (reads, writes, schedule), _KEEP, search)
    out = []
    for w in writers:
        found = known.intersect_range(isl.UnionSet.from_set(w.instances))
        if not found.is_empty():
            out.append((w, isl.Map.from_union_map(found)))
    return out


def identity_of(st: Statement, monoid: Monoid) -> bool:
    """Whether a statement, if it stores, starts a partial: with exactly the monoid's neutral literal."""
    value = st.leaf.value
    return value == Const(monoid.identity(value.dtype), value.dtype)


def injective_per_reader(path: IslObject, onward: IslObject) -> bool:
    """For r -> k in `path` and k -> x in `onward`: no r reaches an x through two different k."""
    if path.is_empty() or onward.is_empty():
        return True
    steps = path.range_map().apply_range(onward)  # [r -> k] -> x
    tagged = path.domain_map().range_product(steps)  # [r -> k] -> [r -> x]
    return bool(tagged.is_injective())


def _named(relation: IslObject, name: str) -> IslObject:
    """The union map with all its domains called `name`."""
    parts: list[IslObject] = []
    relation.foreach_map(lambda m: parts.append(m))
    out = _empty()
    for m in parts:
        out = out.union(isl.UnionMap.from_map(m.set_tuple_name(isl.dim_type.in_, name)))
    return out


def _initial(cells: IslObject, buffer: str) -> IslObject:
    return cells.set_tuple_name(isl.dim_type.out, f"@{buffer}")


def extent_box(model: Model, buffer: str, name: str) -> tuple[Frame, IslObject]:
    """All index tuples of a global buffer. Raises NonAffineError."""
    extents = model.buffers[buffer].extents
    frame = Frame.of(name, tuple(f"#{i}" for i in range(len(extents))), model.sizes)
    box = frame.universe().intersect_params(model.sizes.known)
    for d, extent in zip(frame.dims, extents, strict=True):
        v = frame.env[d]
        box = box.intersect(v.ge_set(frame.constant(0))).intersect(v.lt_set(frame.affine(extent)))
    return frame, box
