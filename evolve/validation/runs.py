"""Consecutive entries of one thread that go to the segments of an array, gathered before memory is updated.

    for i in 0..8:  if i + base < entries:  atomic y[find(starts, base + i)] sum= e(i)

The text may put the contributions into an array of its own first, the neutral element where there is none,
and call a function that updates memory with all of them. Here the kernel's nest is put so, whatever the text
does: what it stores is compared with this as with any kernel.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from evolve.ir.expr import Const, Find, add, index, mul, var
from evolve.ir.expr import Expr as Term
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Reduce, Stmt, Store
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import loads
from evolve.validation.elements import same_array, same_segments
from evolve.validation.finding import ROOM
from evolve.validation.formula import at_least
from evolve.validation.gathering import gathered_of
from evolve.validation.items import Item, Run
from evolve.validation.meaning import index as text_index
from evolve.validation.meaning import kernel_index
from evolve.validation.places import Access
from evolve.validation.polynomial import Poly, variable
from evolve.validation.state import Place, State
from evolve.validation.text import Array, Assign, Element, Evaluate, Invoke, Loop, Name, Number
from evolve.validation.verdict import DifferenceError, UnreadError
from evolve.validation.witness import unequal

MOST = 1024
"""Entries of one thread."""


def begins_run(s: Loop) -> bool:
    """Whether a loop of the text sets elements of an array to one number."""
    only = s.body[0] if len(s.body) == 1 else None
    if not isinstance(only, Assign) or only.op or not isinstance(only.target, Element):
        return False
    counter = Name(s.var.key, s.var.name, s.var.type)
    return only.target.indices == (counter,) and isinstance(only.value, Number)


def gathered_items(st: State, item: Item, place: Place) -> list[Item] | None:
    """What a nest around one update of a segment does, in four steps; None for any other item."""
    nest = item.stmt
    found = _nest(nest) if isinstance(nest, For) and not item.guards else None
    if found is None or not isinstance(nest, For):
        return None
    loops, update = found
    (where,) = update.indices
    assert isinstance(where, Find)
    extents = [kernel_index(st, x.extent, item.env, place.context).value for x in loops]
    if any(n is None or n < 1 for n in extents) or prod(n or 0 for n in extents) > MOST:
        return None
    sizes = [n or 0 for n in extents]
    base = _base(st, loops, sizes, where.value, item, place)
    if base is None:
        return None
    number = prod(sizes)
    st.serial += 1
    name, start = f"entries of {update.buffer}.{st.serial}", f"start.{st.serial}"
    dtype = update.value.dtype
    buffer = Buffer(name, dtype, (index(number),), Space.REGISTER)
    st.buffers[name] = buffer
    neutral = Const(update.monoid.identity(dtype), dtype)
    begin = For(start, index(number), LoopKind.SERIAL, Block((Store(name, (var(start),), neutral),)))
    stored = _stored(nest, Store(name, (_cell(loops, sizes),), update.value, span=update.span))
    steps: tuple[Stmt | Run, ...] = (Alloc(buffer), begin, stored, Run(update, name, base, number))
    return [replace(item, stmt=s, settled=False) for s in steps]


def _nest(s: Stmt) -> tuple[list[For], Reduce] | None:
    """Loops and conditions directly inside one another around one update of a segment."""
    loops: list[For] = []
    conditions: list[Term] = []
    while not isinstance(s, Reduce):
        if isinstance(s, For) and s.kind.is_sequential:
            loops.append(s)
        elif isinstance(s, If) and not s.orelse.stmts:
            conditions.append(s.cond)
        elif not isinstance(s, Block):
            return None
        inner = s.stmts if isinstance(s, Block) else s.body.stmts
        if len(inner) != 1:
            return None
        (s,) = inner
    if not s.atomic or len(s.indices) != 1 or not isinstance(s.indices[0], Find):
        return None
    if any(x.buffer == s.buffer for e in (s.value, *conditions) for x in loads(e)):
        return None
    return loops, s


def _base(
    st: State, loops: list[For], sizes: list[int], position: Term, item: Item, place: Place
) -> Poly | None:
    """The first entry, where the loops count on from it one by one."""
    st.serial += 1
    env = {**item.env, **{x.var: variable(f"digit.{st.serial}.{x.var}") for x in loops}}
    rest, stride = kernel_index(st, position, env, place.context), 1
    for x, n in zip(reversed(loops), reversed(sizes), strict=True):
        rest, stride = rest - env[x.var].scale(stride), stride * n
    own = {env[x.var].text for x in loops}
    return None if any(a.name in own for a in rest.atoms()) else rest


def _cell(loops: list[For], sizes: list[int]) -> Term:
    """Which of the entries the loops are at."""
    out: Term = index(0)
    for x, n in zip(loops, sizes, strict=True):
        out = add(mul(out, n), var(x.var))
    return out


def _stored(s: Stmt, store: Store) -> Stmt:
    """The nest with a store in the place of its update."""
    match s:
        case Reduce():
            return store
        case Block():
            return Block(tuple(_stored(x, store) for x in s.stmts))
        case For() | If():
            body = _stored(s.body, store)
            assert isinstance(body, Block)
            return replace(s, body=body)
        case _:
            raise UnreadError("a nest of another form")


def updated_by_run(st: State, s: Assign | Evaluate, head: Item, place: Place) -> None:
    """The text updates memory with all entries of a run."""
    run = head.stmt
    assert isinstance(run, Run)
    update = run.update
    (where,) = update.indices
    assert isinstance(where, Find)
    call = s.expr if isinstance(s, Evaluate) else None
    if not isinstance(call, Invoke) or call.definition is None:
        raise DifferenceError(f"entries of {update.buffer} that reach no memory", place.line)
    effect = gathered_of(call.definition, st.launched)
    dtype, starts_dtype = st.buffers[update.buffer].dtype, st.buffers[where.buffer].dtype
    if (effect.monoid, effect.dtype, effect.starts, effect.number) != (
        update.monoid.name,
        dtype,
        starts_dtype,
        run.number,
    ):
        raise DifferenceError(f"{call.name} is not the update of the kernel", place.line)
    value, starts, segments, first, target = call.args
    if not all(isinstance(x, Name) for x in (value, starts, target)):
        raise UnreadError("arrays that are not by name", place.line)
    assert isinstance(value, Name) and isinstance(starts, Name) and isinstance(target, Name)
    _same_entries(st, value, run, place)
    low = same_segments(st, starts, segments, where.buffer, ROOM, place)
    begin = text_index(st, first, place)
    if not place.context.same(begin, run.base):
        raise unequal(place.context, begin, run.base, f"{call.name} begins at another entry", place.line)
    if not place.context.holds(at_least(run.base, low)):
        raise UnreadError("an entry that may be before all segments", place.line)
    same_array(st, target, update.buffer, place)


def _same_entries(st: State, value: Name, run: Run, place: Place) -> None:
    """Each entry is in the place of its number."""
    st.unify(value, run.values, place)
    if value.type != Array(st.buffers[run.values].dtype, (run.number,)):
        raise DifferenceError(f"{value.name} has another number of elements", place.line)
    v = variable("entry")
    context = place.context.ranging("entry", 0, run.number - 1)
    which = (run.values, st.allocated[run.values][1])
    st.places.add(which, Access((v,), (v,), context, place.line), (run.number,), (run.number,))
