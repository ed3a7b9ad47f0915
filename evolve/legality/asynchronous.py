"""When asynchronous copies have happened: at the wait that covers the group they are in.

A thread's copies join the group of its next commit. A wait with n pending covers a group when at least n
commits lie between the two. All threads of all blocks pass the same commits and waits (what is asked of their
surroundings), so one sequence of times serves for all, and the number of commits in between is found by
stepping from each to the next, n times.

A copy occupies its cell from its start to that wait. To others it is a write that begins at the one time and
ends at the other: who touches the cell must come before the start or after the wait, with a barrier between
if it is another thread (`conflicts.Ordering`). The value is there from the wait on (`flow`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import islpy as isl

from evolve.ir.expr import Load
from evolve.ir.poly import Frame, IslObject, context, domain
from evolve.ir.printer import print_stmt
from evolve.ir.stmt import Commit, For, Store, Wait
from evolve.ir.types import Space
from evolve.ir.visit import Site, loads, variables
from evolve.legality.instances import ModelError, Moment, Statement, value_at
from evolve.target.limits import COPIED_BYTES

if TYPE_CHECKING:
    from evolve.legality.model import Model


@dataclass(frozen=True)
class Point:
    """A commit or a wait: its time and place."""

    stmt: Commit | Wait
    time: Moment
    site: Site


def is_asynchronous(st: Statement) -> bool:
    """Whether the statement only starts a copy."""
    return isinstance(st.leaf, Store) and st.leaf.asynchronous


def landings(model: Model, points: list[Point]) -> Mapping[str, IslObject]:
    """For each asynchronous copy, by name: instances to the time of the wait that covers them.

    The times have the length of the longest time in `points`. Raises ModelError E-ASYNC for a copy that is no
    copy from memory nobody writes into shared memory, that no wait covers, or whose commits or waits not
    all threads pass alike.
    """
    copies = [st for st in model.statements if is_asynchronous(st)]
    if not copies:
        return {}
    if len(model.geometries) > 1:
        raise ModelError("E-ASYNC", "asynchronous copies in a kernel of several launches", refuted=False)
    for st in copies:
        _check_copy(model, st)
    length = max([len(p.time) for p in points] + [1])
    commits = _times(model, [p for p in points if isinstance(p.stmt, Commit)], length)
    later = isl.Map.lex_lt(isl.Space.set_alloc(context(), 0, length))
    following = later.intersect_domain(commits).intersect_range(commits).lexmin()
    covering = later.subtract(later)
    for p in points:
        if isinstance(p.stmt, Wait):
            reach = isl.Map.identity(isl.Space.map_from_set(commits.get_space())).intersect_domain(commits)
            for _ in range(p.stmt.pending):
                reach = reach.apply_range(following)
            covering = covering.union(reach.apply_range(later).intersect_range(_times(model, [p], length)))
    first_wait = covering.lexmin()
    out: dict[str, IslObject] = {}
    for st in copies:
        start = st.frame.map_to("", [value_at(st.frame, x) for x in _padded(st.time[:length], length)])
        group = start.intersect_domain(st.instances).apply_range(later.intersect_range(commits)).lexmin()
        end = group.apply_range(first_wait)
        if not st.instances.is_subset(end.domain()):
            raise ModelError("E-ASYNC", f"nothing waits for `{print_stmt(st.leaf)}` to have happened")
        out[st.name] = end
    return out


def by_wait(model: Model, ends: IslObject, points: list[Point]) -> list[IslObject]:
    """The instances of a copy, those together that have happened at the same wait in the text."""
    length = ends.dim(isl.dim_type.out)
    waits = [p for p in points if isinstance(p.stmt, Wait)]
    found = [ends.intersect_range(_times(model, [p], length)).domain() for p in waits]
    return [x for x in found if not x.is_empty()]


def landing_at(
    model: Model, ends: IslObject, st: Statement, at: Mapping[str, int], point: Point
) -> tuple[int, ...] | None:
    """The time at which the instance `at` of a copy is waited for, if that is at `point`."""
    here = st.instances
    for d in st.frame.dims:
        here = here.intersect(st.frame.env[d].eq_set(st.frame.constant(at[d])))
    length = ends.dim(isl.dim_type.out)
    found = ends.intersect_domain(here).range().intersect(_times(model, [point], length))
    if found.is_empty():
        return None
    sample = found.sample_point()
    return tuple(int(sample.get_coordinate_val(isl.dim_type.set, i).to_python()) for i in range(length))


def extended(times: IslObject, length: int, tail: tuple[int, ...]) -> IslObject:
    """Times lengthened by zeros, then by `tail`."""
    known = times.dim(isl.dim_type.out)
    names = [f"t{i}" for i in range(known)]
    longer = [*names, *["0"] * (length - known), *map(str, tail)]
    pad = isl.Map.read_from_str(context(), f"{{ [{', '.join(names)}] -> [{', '.join(longer)}] }}")
    return times.apply_range(pad)


def _padded(time: Moment, length: int) -> Moment:
    return (*time, *(0,) * (length - len(time)))


def _times(model: Model, points: list[Point], length: int) -> IslObject:
    """The times at which a thread passes any of these points."""
    out = isl.Set.empty(isl.Space.set_alloc(context(), 0, length))
    for p in points:
        _check_alike(p)
        frame = Frame.of("", tuple(x.var for x in p.site.loops), model.sizes)
        inst = domain(frame, model.kernel, p.site.path, p.site.in_else, model.sizes)
        values = [frame.env[x] if isinstance(x, str) else frame.constant(x) for x in _padded(p.time, length)]
        out = out.union(frame.map_to("", values).intersect_domain(inst).range())
    return out


def _check_alike(p: Point) -> None:
    """Raises ModelError E-ASYNC (unknown) unless all threads of all blocks pass it at the same times."""
    grid: set[str] = set()
    for step in p.site.path:
        decides = step.extent if isinstance(step, For) else step.cond
        if isinstance(step, For) and (step.kind.is_thread or step.kind.is_combine):
            raise ModelError(
                "E-ASYNC", f"a commit or wait inside {step.kind.value} loop {step.var}", refuted=False
            )
        if variables(decides) & grid or loads(decides):
            raise ModelError(
                "E-ASYNC", "blocks or threads may differ in their commits and waits", refuted=False
            )
        if isinstance(step, For) and step.kind.is_grid:
            grid.add(step.var)


def _check_copy(model: Model, st: Statement) -> None:
    """Raises ModelError E-ASYNC (unknown). That no copy converts is for `equality`."""
    leaf, value = st.leaf, st.leaf.value
    shared = model.buffers[leaf.buffer].space is Space.SHARED
    if leaf.origin is not None or not isinstance(value, Load) or not shared:
        raise ModelError("E-ASYNC", f"`{print_stmt(leaf)}` is no copy into shared memory", refuted=False)
    if value.dtype.size not in COPIED_BYTES:
        raise ModelError("E-ASYNC", f"elements of {value.dtype.size} bytes are not copied so", refuted=False)
    if value.buffer in model.kernel_writes:
        raise ModelError(
            "E-ASYNC", f"{value.buffer} may change while `{print_stmt(leaf)}` is under way", refuted=False
        )
