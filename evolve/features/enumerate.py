"""Iterations and elements counted one by one, where loop bounds or subscripts are read from an input.

What is counted holds for that input only. Loops that nothing read from memory depends on are not enumerated:
they multiply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evolve.ir.data import reads
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load, Unary, UnaryOp, Var, index
from evolve.ir.stmt import For
from evolve.ir.types import DType
from evolve.ir.visit import Site, loads, substitute, variables
from evolve.workload.model import Sizes
from evolve.workload.structure import IndexArrays

MOST_POINTS = 1 << 26
"""Domains with more points than this are not enumerated."""
_MOST_MARKS = 1 << 29

Column = NDArray[np.int64]


class UncountableError(Exception):
    """Something that is not known before the kernel runs, or too much of it."""


@dataclass
class Points:
    """Iterations of some loops: each loop's values, one a point. `factor`: those of the loops left out."""

    count: int = 1
    columns: dict[str, Column] = field(default_factory=dict)
    factor: int = 1

    @property
    def total(self) -> float:
        """Iterations of all loops."""
        return float(self.count) * self.factor


def depends_on_data(site: Site) -> bool:
    """Whether how often a statement runs is read from memory."""
    return any(isinstance(step, For) and reads(step.extent) for step in site.path)


def points_of(site: Site, scalars: Sizes, contents: IndexArrays, of: Sequence[Expr] = ()) -> Points:
    """The iterations around a statement, of at least the loops in `of`. Raises UncountableError."""
    needed = _needed(site, of)
    points = Points()
    sides = iter(site.in_else)
    for step in site.path:
        if not isinstance(step, For):
            holds = _value(_sized(step.cond, scalars), points, contents).astype(bool)
            _keep(points, ~holds if next(sides) else holds)
            continue
        extent = np.maximum(_value(_sized(step.extent, scalars), points, contents), 0)
        if step.var not in needed:
            points.factor *= int(extent.flat[0])
            continue
        total = int(extent.sum()) if extent.size > 1 else int(extent.flat[0]) * points.count
        if total > MOST_POINTS:
            raise UncountableError(f"more than {MOST_POINTS} iterations")
        times = np.broadcast_to(extent, (points.count,))
        points.columns = {n: np.repeat(c, times) for n, c in points.columns.items()}
        points.columns[step.var] = np.arange(total, dtype=np.int64) - np.repeat(
            np.cumsum(times) - times, times
        )
        points.count = total
    return points


def longest(site: Site, loop: str, scalars: Sizes, contents: IndexArrays) -> int:
    """The most iterations that a loop around a statement makes. Raises UncountableError."""
    at = next(i for i, step in enumerate(site.path) if isinstance(step, For) and step.var == loop)
    step = site.path[at]
    assert isinstance(step, For)
    above = Site(step, site.path[:at], site.in_else)
    points = points_of(above, scalars, contents, (step.extent,))
    extent = _value(_sized(step.extent, scalars), points, contents)
    return max(0, int(extent.max(initial=0))) if points.count else 0


@dataclass(frozen=True)
class Touched:
    """Elements that an access touches: how many, and the least and greatest subscript of each dimension."""

    count: int
    least: tuple[int, ...]
    most: tuple[int, ...]


def touched(
    indices: Sequence[Expr],
    site: Site,
    scalars: Sizes,
    contents: IndexArrays,
    extents: Sequence[Expr] = (),
) -> Touched:
    """The distinct elements, of an array of these extents. Raises UncountableError.

    Dimensions that one loop alone runs through, from 0 on and in step, are counted by themselves.
    """
    free = _free_dimensions(indices, site, scalars)
    joint = [i for d, i in enumerate(indices) if d not in free]
    sides = [_constant(e, scalars) for d, e in enumerate(extents) if d not in free]
    points = points_of(site, scalars, contents, joint)
    if points.count == 0 or points.factor == 0:
        return Touched(0, (0,) * len(indices), (-1,) * len(indices))
    found = [_value(_sized(i, scalars), points, contents) for i in joint]
    found = _inside(found, sides, points.count)
    if found and not found[0].size:
        return Touched(0, (0,) * len(indices), (-1,) * len(indices))
    count = _distinct(found, points.count) * prod(free.values())
    columns = iter(found)
    ends = [(0, free[d] - 1) if d in free else _ends(next(columns)) for d in range(len(indices))]
    return Touched(count, tuple(a for a, _ in ends), tuple(b for _, b in ends))


def _inside(columns: list[Column], sides: Sequence[int | None], count: int) -> list[Column]:
    """Without subscripts outside of the array, for which the kernel does not go there (`frontend.asked`)."""
    ends = [*(np.inf if s is None else s for s in sides), *[np.inf] * (len(columns) - len(sides))]
    if all(c.min(initial=0) >= 0 and c.max(initial=-1) < e for c, e in zip(columns, ends, strict=True)):
        return columns
    each = ((c >= 0) & (c < e) for c, e in zip(columns, ends, strict=True))
    inside = np.logical_and.reduce([np.broadcast_to(x, (count,)) for x in each])
    return [np.broadcast_to(c, (count,))[inside] for c in columns]


def _ends(column: Column) -> tuple[int, int]:
    return int(column.min()), int(column.max())


def _free_dimensions(indices: Sequence[Expr], site: Site, scalars: Sizes) -> dict[int, int]:
    """Extents of the dimensions that are just a loop of constant extent that nothing else depends on."""
    out: dict[int, int] = {}
    for d, i in enumerate(indices):
        others = frozenset[str]().union(*(variables(x) for n, x in enumerate(indices) if n != d))
        loop = next((x for x in site.loops if i == Var(x.var)), None)
        if loop is None or loop.var in others or loop.var in _needed(site, ()):
            continue
        extent = _constant(loop.extent, scalars)
        if extent is not None:
            out[d] = max(0, extent)
    return out


def _constant(e: Expr, scalars: Sizes) -> int | None:
    try:
        value = _value(_sized(e, scalars), Points(), {})
    except UncountableError:
        return None
    return int(value.flat[0])


def _needed(site: Site, of: Sequence[Expr]) -> frozenset[str]:
    """Loops that must be enumerated: those that subscripts, conditions and the extents of others mention, and
    those whose own extent is not one number."""
    names = frozenset[str]().union(*(variables(e) for e in of))
    for step in site.path:
        if isinstance(step, For):
            names |= variables(step.extent)
            if reads(step.extent) or variables(step.extent) & {x.var for x in site.loops}:
                names |= {step.var}
        else:
            names |= variables(step.cond)
    return names


def _distinct(columns: Sequence[Column], count: int) -> int:
    """How many different rows the columns have."""
    if not columns:
        return 1
    flat: Column = np.zeros(1, np.int64)
    span = 1
    for c in columns:
        low, high = _ends(c)
        span *= high - low + 1
        flat = flat * (high - low + 1) + (c - low)
    if span > _MOST_MARKS:
        return int(np.unique(flat).size)
    marks = np.zeros(span, np.bool_)
    marks[flat] = True
    return int(np.count_nonzero(marks))


def _keep(points: Points, holds: NDArray[np.bool_]) -> None:
    holds = np.broadcast_to(holds, (points.count,))
    points.columns = {n: c[holds] for n, c in points.columns.items()}
    points.count = int(np.count_nonzero(holds))


def _sized(e: Expr, scalars: Sizes) -> Expr:
    return substitute(e, {n: index(int(v)) for n, v in scalars.items() if not isinstance(v, float)})


def _value(e: Expr, points: Points, contents: IndexArrays) -> Any:
    """An INDEX or BOOL expression at all points, or an array of one element for all alike."""
    match e:
        case Const():
            return np.asarray([e.value])
        case Var() if e.name in points.columns:
            return points.columns[e.name]
        case Cast(arg=Load(buffer=name, indices=indices)) if e.dtype is DType.INDEX and name in contents:
            at = tuple(_value(i, points, contents) for i in indices)
            array = contents[name]
            if any(a.size and (a.min() < 0 or a.max() >= n) for a, n in zip(at, array.shape, strict=True)):
                raise UncountableError(f"a subscript of {name} leaves the array")
            return array[at].astype(np.int64)
        case Unary(op=UnaryOp.NOT):
            return ~_value(e.arg, points, contents).astype(bool)
        case Binary() if e.op in _FUNCTIONS and not loads_data(e):
            return _FUNCTIONS[e.op](_value(e.lhs, points, contents), _value(e.rhs, points, contents))
        case _:
            raise UncountableError("it depends on more than indices")


def loads_data(e: Expr) -> bool:
    """Whether an expression compares or computes what is no index."""
    return isinstance(e, Binary) and e.lhs.dtype not in (DType.INDEX, DType.BOOL) and bool(loads(e))


_FUNCTIONS = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.FLOORDIV: np.floor_divide,
    BinaryOp.MOD: np.mod,
    BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum,
    BinaryOp.LT: np.less,
    BinaryOp.LE: np.less_equal,
    BinaryOp.GT: np.greater,
    BinaryOp.GE: np.greater_equal,
    BinaryOp.EQ: np.equal,
    BinaryOp.NE: np.not_equal,
    BinaryOp.AND: np.logical_and,
    BinaryOp.OR: np.logical_or,
}
