"""Sampled points in words: which instances, with which sizes, from which source lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import islpy as isl

from evolve.ir.errors import EvolveError
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Expr
from evolve.ir.poly import IslLimitError, IslObject, limited
from evolve.ir.printer import print_stmt
from evolve.ir.stmt import Reduce
from evolve.ir.types import SUM
from evolve.legality.instances import Read, Statement
from evolve.legality.model import Model


def describe(st: Statement, r: Read | None = None) -> str:
    """A statement in the kernel's own names, and the read meant."""
    text = f"`{print_stmt(st.leaf)}`"
    if r is None:
        return text
    return f"{r.load.buffer} (read {r.slot + 1} of {text})"


def sample_pair(model: Model, relation: IslObject, source: Model | None = None) -> str:
    """One pair of a non-empty relation, at small sizes."""
    maps: list[IslObject] = []
    if isinstance(relation, isl.UnionMap):
        relation.foreach_map(lambda m: maps.append(m))
    else:
        maps = [relation]
    names = _names(model, source)
    for m in maps:
        point = _smallest(m.wrap())
        if point is None:
            continue
        values = _coordinates(point, isl.dim_type.set)
        n = m.dim(isl.dim_type.in_)
        left = _instance(m.get_tuple_name(isl.dim_type.in_), values[:n], names)
        right = _instance(m.get_tuple_name(isl.dim_type.out), values[n:], names)
        return f"{left} and {right}{_sizes(model, m, point)}"
    return ""


def sample_race(model: Model, pairs: IslObject, buffer: str) -> str:
    """Who does what to which cell: "thread 15 reads As[3][0], which thread 0 writes, and no barrier is
    between", and the two instances behind it. Of pairs that touch a cell unordered, one of them writing."""
    names = model.by_name
    point = _smallest(pairs.wrap())
    if point is None:
        return ""
    values = _coordinates(point, isl.dim_type.set)
    n = pairs.dim(isl.dim_type.in_)
    first, second = (names[pairs.get_tuple_name(t)] for t in (isl.dim_type.in_, isl.dim_type.out))
    sizes = _parameters(model, pairs, point)
    ours = Doer(model, first, dict(zip(first.frame.dims, values[:n], strict=True)) | sizes)
    theirs = Doer(model, second, dict(zip(second.frame.dims, values[n:], strict=True)) | sizes)
    told = _meeting(ours, theirs, buffer)
    return f"{told}: {sample}" if (sample := sample_pair(model, pairs)) and told else sample


@dataclass(frozen=True)
class Doer:
    """An instance of a statement, with the values of its loops and of the sizes."""

    model: Model
    st: Statement
    values: Mapping[str, int]

    def cells(self, buffer: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        """What it does to cells of the buffer, writing first. Raises EvolveError for subscripts on data."""
        leaf = self.st.leaf
        if leaf.buffer == buffer:
            verb = "adds to" if isinstance(leaf, Reduce) and leaf.monoid is SUM else "writes"
            yield verb, tuple(int(evaluate(i, self.values)) for i in leaf.indices)
        for r in self.st.reads:
            if r.load.buffer == buffer:
                yield "reads", tuple(int(evaluate(i, self.values)) for i in r.load.indices)

    @property
    def thread(self) -> tuple[int, ...]:
        """Its coordinates in the block, over the axes that have several threads."""
        extents = self.model.geometries[self.st.launch].threads
        return tuple(
            self._number(t) for axis, t in zip(extents, self.st.threads, strict=True) if extents[axis] > 1
        )

    @property
    def block(self) -> tuple[int, ...]:
        """Its block."""
        return tuple(self._number(b) for b in self.st.blocks)

    def _number(self, x: Expr | str | int) -> int:
        if isinstance(x, Expr):
            return int(evaluate(x, self.values))
        return x if isinstance(x, int) else self.values[x]


def _meeting(a: Doer, b: Doer, buffer: str) -> str:
    """The two accesses of one cell in a sentence; empty where the cell depends on data."""
    try:
        pairs = ((x, y) for x in a.cells(buffer) for y in b.cells(buffer))
        met = next((x, y) for x, y in pairs if x[1] == y[1] and {x[0], y[0]} != {"reads"})
        (ours, cell), (theirs, _) = met
        a_who, b_who = (_who("thread", d.thread) for d in (a, b))
        if a.block != b.block:
            a_who, b_who = (f"{_who('thread', d.thread)} of {_who('block', d.block)}" for d in (a, b))
    except (EvolveError, StopIteration):
        return ""
    what = f"{buffer}{''.join(f'[{i}]' for i in cell)}"
    order = "no barrier is between" if a.block == b.block else "nothing orders blocks"
    return f"{a_who} {ours} {what}, which {b_who} {theirs}, and {order}"


def _who(what: str, at: tuple[int, ...]) -> str:
    return f"{what} {at[0] if len(at) == 1 else at or 0}"


def sample_instance(model: Model, where: IslObject) -> str:
    """One instance of a non-empty set, at small sizes."""
    point = _smallest(where)
    if point is None:
        return ""
    values = _coordinates(point, isl.dim_type.set)
    return f"{_instance(where.get_tuple_name(), values, _names(model, None))}{_sizes(model, where, point)}"


def _smallest(where: IslObject) -> IslObject | None:
    """A point of `where`, at the smallest sizes if those are easily found; None when none is.

    That there are points is known before: a sample too hard to find does not change a verdict.
    """
    for smallest in (True, False):
        try:
            with limited():
                some = where.intersect_params(where.params().lexmin()) if smallest else where
                point = some.sample_point()
                return None if point.is_void() else point
        except IslLimitError:
            continue
    return None


def _names(model: Model, source: Model | None) -> Mapping[str, Statement]:
    return {**model.by_name, **(source.by_name if source else {})}


def _coordinates(point: IslObject, kind: object) -> list[int]:
    n = point.get_space().dim(kind)
    return [int(point.get_coordinate_val(kind, i).to_python()) for i in range(n)]


def _instance(name: str | None, values: list[int], names: Mapping[str, Statement]) -> str:
    name = name or ""
    st = names.get(name)
    if st is None:
        cell = name.lstrip("@!")
        start = "initial " if name.startswith("@") else "final " if name.startswith("!") else ""
        return f"{start}{cell}[{', '.join(map(str, values))}]"
    at = ", ".join(f"{d.lstrip('@')}={v}" for d, v in zip(st.frame.dims, values, strict=True))
    span = f" ({st.leaf.span})" if st.leaf.span else ""
    return f"{describe(st)} at {at or 'its one instance'}{span}"


def _parameters(model: Model, where: IslObject, point: IslObject) -> dict[str, int]:
    values = _coordinates(point, isl.dim_type.param)
    named = {where.get_dim_name(isl.dim_type.param, i): value for i, value in enumerate(values)}
    return {**model.sizes.fixed, **named}


def _sizes(model: Model, where: IslObject, point: IslObject) -> str:
    shown = _parameters(model, where, point)
    return f", with {', '.join(f'{k}={v}' for k, v in sorted(shown.items()))}" if shown else ""
