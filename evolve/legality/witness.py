"""Sampled points in words: which instances, with which sizes, from which source lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import islpy as isl

from evolve.ir.poly import IslLimitError, IslObject, limited
from evolve.ir.printer import print_stmt
from evolve.legality.instances import Read, Statement
from evolve.legality.model import Model

if TYPE_CHECKING:
    from collections.abc import Mapping


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


def _sizes(model: Model, where: IslObject, point: IslObject) -> str:
    shown: dict[str, int] = dict(model.sizes.fixed)
    values = _coordinates(point, isl.dim_type.param)
    for i, value in enumerate(values):
        shown[where.get_dim_name(isl.dim_type.param, i)] = value
    return f", with {', '.join(f'{k}={v}' for k, v in sorted(shown.items()))}" if shown else ""
