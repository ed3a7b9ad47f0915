"""Elements of arrays: the text's address, or place of its own, beside the kernel's subscripts."""

from __future__ import annotations

import math

from evolve.ir.expr import Expr as Term
from evolve.ir.expr import Find
from evolve.ir.printer import print_expr
from evolve.ir.types import DType, Space
from evolve.validation.finding import room_to_find
from evolve.validation.forms import spelled
from evolve.validation.formula import at_least
from evolve.validation.meaning import (
    address,
    check_fits,
    constant_extents,
    index,
    kernel_address,
    kernel_index,
    shared_elements,
)
from evolve.validation.places import Access
from evolve.validation.polynomial import Poly, constant
from evolve.validation.state import Environment, Local, Parameter, Place, Shared, State
from evolve.validation.text import Array, Convert, Element, Expr, Invoke, Name
from evolve.validation.verdict import DifferenceError, UnreadError
from evolve.validation.witness import unequal


def same_element(
    st: State,
    t: Expr,
    buffer: str,
    indices: tuple[Term, ...],
    env: Environment,
    place: Place,
    offset: int = 0,
) -> None:
    """Raises DifferenceError unless `t`, or what is `offset` elements behind it, is the kernel's element."""
    ctx, b = place.context, st.buffers[buffer]
    base = t.base if isinstance(t, Element) else t
    if not isinstance(base, Name):
        raise DifferenceError(f"{spelled(t)} is not an element of {buffer}", place.line)
    if b.space is Space.REGISTER:
        _same_place(st, t, st.binding(base, place.line), b.name, indices, env, place, offset)
        return
    if not isinstance(t, Element):
        raise DifferenceError(f"{spelled(t)} is not an element of {buffer}", place.line)
    same_array(st, base, buffer, place)
    if len(t.indices) == 1 and b.space is Space.GLOBAL and any(isinstance(i, Find) for i in indices):
        same_subscript(st, t.indices[0], buffer, indices, env, place, offset)
        return
    p, q = address(st, t, place).plus(offset), kernel_address(st, b, indices, env, ctx)
    if not ctx.same(p, q):
        raise _elsewhere(base.name, p, buffer, indices, q, place)


def same_array(st: State, base: Name, buffer: str, place: Place) -> None:
    """Raises DifferenceError unless a name of the text stands for an array in memory."""
    held, b = st.binding(base, place.line), st.buffers[buffer]
    if b.space is Space.GLOBAL:
        if held != Parameter(buffer, True):
            raise DifferenceError(f"{base.name} is not {buffer}", place.line)
        return
    if b.space is not Space.SHARED or not isinstance(held, Shared):
        raise DifferenceError(f"{base.name} is not {buffer}", place.line)
    st.unify(base, buffer, place)
    needed, there = shared_elements(st, b, place.context), held.declaration.type
    assert isinstance(there, Array)
    if needed is None or math.prod(there.extents) < needed:
        raise DifferenceError(f"{base.name} is smaller than {buffer}", place.line)


def same_segments(st: State, starts: Name, segments: Expr, buffer: str, room: int, place: Place) -> Poly:
    """Raises DifferenceError unless a name is the array whose segments are searched, and a number theirs.

    The first entry that is in one. What searches ask of such an array must hold: that it is in order, none of
    it below zero, and that the number of segments leaves room for what they add to it.
    """
    ctx, b = place.context, st.buffers[buffer]
    same_array(st, starts, buffer, place)
    premise = next((c for c in st.kernel.contents if c.buffer == buffer and c.nondecreasing), None)
    if premise is None or buffer not in st.constants or len(b.extents) != 1:
        raise UnreadError(f"nothing says that {buffer} is in order", place.line)
    number = kernel_index(st, b.extents[0], {}, ctx).plus(-1)
    found = index(st, segments, place)
    if not ctx.same(found, number):
        reason = f"{spelled(segments)} is not how many segments {buffer} has"
        raise unequal(ctx, found, number, reason, place.line)
    low = kernel_index(st, premise.low, {}, ctx)
    if not ctx.holds(at_least(low, constant(0))) or not ctx.holds(at_least(number, constant(1))):
        raise UnreadError(f"{buffer} may begin below zero, or have no segment", place.line)
    check_fits(st, number.plus(room), DType.I32, place)
    return low


def _found(st: State, t: Expr, wanted: Find, env: Environment, place: Place) -> None:
    """Raises DifferenceError unless `t` is a search for the segment that the kernel means."""
    call = st.resolved(t, place)
    if not isinstance(call, Invoke) or call.definition is None or len(call.args) != 3:
        raise DifferenceError(f"{spelled(t)} searches no segment", place.line)
    room = room_to_find(call.definition, st.launched)
    starts, segments, value = call.args
    if not isinstance(starts, Name):
        raise UnreadError("an array that is not by name", place.line)
    same_segments(st, starts, segments, wanted.buffer, room, place)
    # It is in a segment, so it is not too large for what the segments begin with.
    whole = isinstance(value, Convert) and value.type is st.buffers[wanted.buffer].dtype
    here = index(st, value.arg if whole and isinstance(value, Convert) else value, place)
    there = kernel_index(st, wanted.value, env, place.context)
    if not place.context.same(here, there):
        reason = f"{spelled(value)} is not what the kernel searches for"
        raise unequal(place.context, here, there, reason, place.line)


def same_subscript(
    st: State,
    t: Expr,
    buffer: str,
    indices: tuple[Term, ...],
    env: Environment,
    place: Place,
    offset: int = 0,
) -> None:
    """Raises DifferenceError unless `t` counts up to the kernel's element of an array, `offset` further."""
    ctx = place.context
    if any(isinstance(i, Find) for i in indices):
        (wanted,) = indices
        if offset or not isinstance(wanted, Find):
            raise UnreadError("a segment that is searched for", place.line)
        _found(st, t, wanted, env, place)
        return
    p, q = index(st, t, place).plus(offset), kernel_address(st, st.buffers[buffer], indices, env, ctx)
    if not ctx.same(p, q):
        raise _elsewhere(buffer, p, buffer, indices, q, place)


def _elsewhere(
    name: str, p: Poly, buffer: str, indices: tuple[Term, ...], q: Poly, place: Place
) -> DifferenceError | UnreadError:
    wanted = f"{buffer}[{', '.join(map(print_expr, indices))}]"
    reason = f"{name}[{p.text}] is not {wanted}, which is at {q.text}"
    return unequal(place.context, p, q, reason, place.line)


def _same_place(
    st: State,
    t: Expr,
    held: object,
    buffer: str,
    indices: tuple[Term, ...],
    env: Environment,
    place: Place,
    offset: int,
) -> None:
    base = t.base if isinstance(t, Element) else t
    if not isinstance(held, Local) or not isinstance(base, Name) or offset:
        raise DifferenceError(f"{spelled(t)} is not an element of {buffer}", place.line)
    st.unify(base, buffer, place)
    declared = held.declaration.type
    shape = declared.extents if isinstance(declared, Array) else ()
    slots = tuple(index(st, i, place) for i in t.indices) if isinstance(t, Element) else ()
    if len(slots) != len(shape):
        raise UnreadError(f"a part of {base.name}", place.line)
    b = st.buffers[buffer]
    cell: tuple[Poly, ...] = tuple(kernel_index(st, i, env, place.context) for i in indices)
    extents = constant_extents(st, b, {}, place.context)
    lane = env.get(f"lane of {buffer}")
    if lane is not None:
        # Declared in a vector loop: each lane has its own.
        cell, extents = (lane, *cell), (16, *extents)
    which = (buffer, st.allocated[buffer][1])
    st.places.add(which, Access(cell, slots, place.context, place.line), extents, shape)
