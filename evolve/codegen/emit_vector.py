"""VECTOR loops: aligned unit-stride accesses as one wide access each, the arithmetic lane by lane.

A loop whose lanes cannot run side by side, or that has nothing to widen, becomes an unrolled loop.
Where a guard holds for some lanes only, whole vectors and partial ones are separate code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from evolve.codegen.ctree import Node, branch, line
from evolve.codegen.place import Place, line_origin
from evolve.codegen.vectors import (
    LANES,
    VECTOR_TYPES,
    LaneBody,
    always_evaluated,
    lane_body,
    lanes_commute,
)
from evolve.ir.expr import Const, Expr, Load
from evolve.ir.lanes import lane_guard, lies_wide
from evolve.ir.stmt import For, Leaf, Store
from evolve.ir.types import Space

if TYPE_CHECKING:
    from evolve.codegen.emit import KernelEmitter


def vector_loop(emitter: KernelEmitter, s: For, place: Place) -> list[Node]:
    """The statements of a VECTOR loop."""
    inner = place.below(s)
    ranges = emitter.ranges(inner)
    extent = emitter.simplified(s.extent, place)
    body = lane_body(s.body)
    if not isinstance(extent, Const) or body is None or place.lane is not None:
        return emitter.sequential(s, place)
    width = int(extent.value)
    if not lanes_commute(body, s.var, width, ranges) or not _widens(emitter, body, s, width, inner):
        return emitter.sequential(s, place)
    if body.guard is None:
        return _lanes(emitter, body, s, width, inner)
    guard = lane_guard(emitter.simplified(body.guard, inner), s.var, width, ranges)
    if guard is None:
        return emitter.sequential(s, place)
    whole = _lanes(emitter, body, s, width, inner)
    if isinstance(guard.full, Const):
        return whole if guard.full.value else emitter.sequential(s, place)
    cond = emitter.conditions(guard.full, inner)
    if guard.exact:
        return [branch(cond, whole, line_origin(s, place))]
    rest = emitter.sequential(s, place)
    return [branch(cond, whole, line_origin(s, place), rest, "a partial vector")]


def _widens(emitter: KernelEmitter, body: LaneBody, s: For, width: int, place: Place) -> bool:
    if any(a.buffer.space is not Space.REGISTER for a in body.allocs):
        return False
    for leaf in body.leaves:
        if isinstance(leaf, Store) and _wide_access(emitter, leaf.buffer, leaf.indices, s.var, width, place):
            return True
        if _wide_loads(emitter, leaf, s.var, width, place):
            return True
    return False


def _wide_access(
    emitter: KernelEmitter, buffer: str, indices: tuple[Expr, ...], lane: str, width: int, place: Place
) -> str | None:
    """The vector type of an access that may be widened."""
    b = emitter.buffers[buffer]
    if b.space is Space.REGISTER or (b.dtype, width) not in VECTOR_TYPES or not indices:
        return None
    # Simplified at the place, where loops of one iteration are 0.
    at = tuple(emitter.simplified(i, place) for i in indices)
    if not lies_wide(b, at, lane, width, emitter.ranges(place)):
        return None
    return VECTOR_TYPES[(b.dtype, width)]


def _wide_loads(emitter: KernelEmitter, leaf: Leaf, lane: str, width: int, place: Place) -> dict[Load, str]:
    """Loads of the value, and of the subscripts that say where it goes, with their vector types."""
    found: dict[Load, str] = {}
    for e in (*leaf.indices, leaf.value):
        for load in always_evaluated(emitter.simplified(e, place)):
            kind = _wide_access(emitter, load.buffer, load.indices, lane, width, place)
            if kind is not None:
                found[load] = kind
    return found


def _lanes(emitter: KernelEmitter, body: LaneBody, s: For, width: int, place: Place) -> list[Node]:
    out: list[Node] = []
    place = replace(place, per_lane=place.per_lane | {a.buffer.name for a in body.allocs})
    first = replace(place, lane=(s.var, 0))
    for a in body.allocs:
        out += emitter.declare(a.buffer, replace(place, lane=(s.var, width)))
    for leaf in body.leaves:
        origin = line_origin(leaf, place)
        nodes: list[Node] = []
        wide: dict[Load, str] = {}
        if isinstance(leaf, Store) and leaf.prefetch:
            out += [emitter.leaf(leaf, replace(place, lane=(s.var, i), width=width)) for i in range(width)]
            continue
        if isinstance(leaf, Store) and leaf.asynchronous:
            out += emitter.owned(leaf, place, _copies(emitter, leaf, s.var, width, place))
            continue
        for load, kind in _wide_loads(emitter, leaf, s.var, width, place).items():
            name = emitter.names.fresh(f"{emitter.names.of(load.buffer)}{width}")
            nodes.append(line(f"const {kind} {name} = {emitter.load(load, first, kind)};", origin))
            wide[load] = name
        target = None
        if isinstance(leaf, Store):
            target = _wide_access(emitter, leaf.buffer, leaf.indices, s.var, width, place)
        if target is None or not isinstance(leaf, Store):
            for i in range(width):
                nodes.append(emitter.leaf(leaf, replace(place, lane=(s.var, i), wide=wide, width=width)))
        else:
            copied = emitter.simplified(leaf.value, place)
            if isinstance(copied, Load) and copied in wide:
                name = wide[copied]
            else:
                name = emitter.names.fresh(f"{emitter.names.of(leaf.buffer)}{width}")
                nodes.append(line(f"{target} {name};", origin))
                for i in range(width):
                    value = emitter.value(leaf.value, replace(place, lane=(s.var, i), wide=wide, width=width))
                    nodes.append(line(f"{name}.{LANES[i]} = {value};", origin))
            nodes.append(line(emitter.store(leaf, name, first, target), origin))
        out += emitter.owned(leaf, place, nodes)
    return out


def _copies(emitter: KernelEmitter, leaf: Store, lane: str, width: int, place: Place) -> list[Node]:
    """One asynchronous copy of all lanes where both sides are wide, else one a lane."""
    wide = _wide_access(emitter, leaf.buffer, leaf.indices, lane, width, place)
    if wide is None or not _wide_loads(emitter, leaf, lane, width, place):
        return [emitter.leaf(leaf, replace(place, lane=(lane, i), width=width)) for i in range(width)]
    first = replace(place, lane=(lane, 0))
    return [line(emitter.copy(leaf, first, width * leaf.value.dtype.size), line_origin(leaf, place))]
