"""Elements of arrays: the text's address, or place of its own, beside the kernel's subscripts."""

from __future__ import annotations

import math

from evolve.ir.expr import Expr as Term
from evolve.ir.printer import print_expr
from evolve.ir.types import Space
from evolve.validation.forms import spelled
from evolve.validation.meaning import (
    address,
    constant_extents,
    index,
    kernel_address,
    kernel_index,
    shared_elements,
)
from evolve.validation.places import Access
from evolve.validation.polynomial import Poly
from evolve.validation.state import Environment, Local, Parameter, Place, Shared, State
from evolve.validation.text import Array, Element, Expr, Name
from evolve.validation.verdict import DifferenceError, UnreadError


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
    held = st.binding(base, place.line)
    if b.space is Space.GLOBAL:
        if held != Parameter(buffer, True) or not isinstance(t, Element):
            raise DifferenceError(f"{spelled(t)} is not an element of {buffer}", place.line)
    elif b.space is Space.SHARED:
        if not isinstance(held, Shared) or not isinstance(t, Element):
            raise DifferenceError(f"{spelled(t)} is not an element of {buffer}", place.line)
        st.unify(base, buffer, place)
        needed, there = shared_elements(st, b, ctx), held.declaration.type
        assert isinstance(there, Array)
        if needed is None or math.prod(there.extents) < needed:
            raise DifferenceError(f"{base.name} is smaller than {buffer}", place.line)
    else:
        _same_place(st, t, held, b.name, indices, env, place, offset)
        return
    assert isinstance(t, Element)
    p, q = address(st, t, place).plus(offset), kernel_address(st, b, indices, env, ctx)
    if not ctx.same(p, q):
        wanted = f"{buffer}[{', '.join(map(print_expr, indices))}]"
        raise DifferenceError(f"{base.name}[{p.text}] is not {wanted}, which is at {q.text}", place.line)


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
