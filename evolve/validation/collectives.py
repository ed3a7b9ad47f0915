"""Combine loops and scans: a call of a device function whose effect was found by running it (`combining`)."""

from __future__ import annotations

from evolve.ir.expr import Load
from evolve.ir.stmt import For, Reduce, Store
from evolve.ir.types import LoopKind
from evolve.validation.combining import Effect, effect_of
from evolve.validation.elements import same_element
from evolve.validation.forms import spelled
from evolve.validation.formula import Every, Some, at_least, below, negation
from evolve.validation.items import Item, Total
from evolve.validation.meaning import condition, index, kernel_index
from evolve.validation.polynomial import Poly, constant, variable
from evolve.validation.state import AXES, Alias, Environment, Local, Place, Shared, State
from evolve.validation.statements import updated
from evolve.validation.text import (
    Array,
    Assign,
    Conditional,
    Element,
    Evaluate,
    Expr,
    Invoke,
    Name,
    Operation,
)
from evolve.validation.values import combines, is_identity, same_value
from evolve.validation.verdict import DifferenceError, UnreadError
from evolve.validation.witness import happens, unequal

THREAD_X = LoopKind.THREAD_X


def _call(st: State, e: Expr, place: Place) -> tuple[Invoke, Effect]:
    """The collective behind a value, called where all threads that it needs come."""
    divergent = place.divergent
    if isinstance(e, Name):
        held = st.binding(e, place.line)
        if isinstance(held, Alias) and held.place is not None:
            divergent = held.place.divergent
    found = st.resolved(e, place)
    if not isinstance(found, Invoke) or found.definition is None:
        raise DifferenceError(f"{spelled(e)} is not combined over threads", place.line)
    block = (st.block[AXES[0]], st.block[AXES[1]], st.block[AXES[2]])
    if st.is_warps:
        raise UnreadError("a collective where lanes have two coordinates", place.line)
    effect = effect_of(found.definition, block)
    apart = divergent if effect.needs_block else divergent & {THREAD_X}
    if apart:
        raise DifferenceError(f"{found.name} is not called by all threads", place.line)
    return found, effect


def combined(st: State, s: Assign | Evaluate, head: Item, place: Place) -> None:
    """The text combines what the kernel's combine loop does, over all threads along x."""
    loop = head.stmt
    assert isinstance(loop, For)
    step = loop.body.stmts[0] if len(loop.body.stmts) == 1 else None
    if not isinstance(step, Reduce):
        raise UnreadError(f"combine loop {loop.var}", place.line)
    target, value = updated(s, step)
    if value is None or target is None:
        raise DifferenceError(f"the text does not update {step.buffer} as the kernel does", place.line)
    call, effect = _call(st, value, place)
    if effect.kind != "combine" or effect.monoid != step.monoid.name:
        raise DifferenceError(f"{call.name} is no {step.monoid.name}", place.line)
    same_element(st, target, step.buffer, step.indices, head.env, place)
    _scratch(st, call.args[1:], effect, step, place)
    _partials(st, call.args[0], loop, step, head.env, place)


def _partials(st: State, t: Expr, loop: For, step: Reduce, env: Environment, place: Place) -> None:
    """What each thread gives: its own partial, or the identity where it has none."""
    ctx, width = place.context, st.block[THREAD_X]
    extent = kernel_index(st, loop.extent, env, ctx)
    own = variable(THREAD_X.value) if width > 1 else constant(0)
    inner = {**env, loop.var: own}
    if extent == constant(width):
        same_value(st, t, step.value, inner, place)
        return
    reason = f"{loop.var} combines {extent.text} partials, the text {width}"
    if not isinstance(t, Conditional):
        raise DifferenceError(reason, place.line)
    if not ctx.holds(below(extent, constant(width))):
        raise happens(ctx, at_least(extent, constant(width)), reason, place.line)
    f = condition(st, t.cond, place)
    own_is, own_not = below(own, extent), at_least(own, extent)
    if not ctx.given(own_is).holds(f) or not ctx.given(own_not).excludes(f):
        other = Some((Every((own_is, negation(f))), Every((own_not, f))))
        reason = f"{spelled(t.cond)} does not tell threads that have a partial"
        raise happens(ctx, other, reason, place.line)
    same_value(st, t.then, step.value, inner, place)
    if not is_identity(t.orelse, step.monoid, step.value.dtype):
        raise DifferenceError(f"{spelled(t.orelse)} is not neutral", place.line)


def _scratch(st: State, args: tuple[Expr, ...], effect: Effect, step: Reduce, place: Place) -> None:
    """Shared memory that nothing else uses, a row for each value of the other axes."""
    if not effect.elements:
        if args:
            raise UnreadError("an argument more", place.line)
        return
    if len(args) != 1:
        raise UnreadError("a collective without its memory", place.line)
    e = args[0]
    base = e.base if isinstance(e, Element) else e
    if not isinstance(base, Name):
        raise UnreadError("memory of a collective", place.line)
    held = st.binding(base, place.line)
    if not isinstance(held, Shared) or base.key in st.buffer_of:
        raise DifferenceError(f"{base.name} is not memory for {step.buffer} alone", place.line)
    declared = held.declaration.type
    rows = st.block[AXES[1]] * st.block[AXES[2]]
    if not isinstance(declared, Array) or declared.element is not step.value.dtype:
        raise DifferenceError(f"{base.name} has another type", place.line)
    if rows > 1:
        if not isinstance(e, Element) or len(declared.extents) != 2 or declared.extents[0] < rows:
            raise DifferenceError(f"{base.name} has fewer than {rows} rows", place.line)
        own = _own_row(st)
        found = index(st, e.indices[0], place)
        if not place.context.same(found, own):
            raise unequal(place.context, found, own, f"{spelled(e)} is not the thread's own row", place.line)
    elif isinstance(e, Element) or len(declared.extents) != 1:
        raise UnreadError("memory of a collective", place.line)
    if declared.extents[-1] < effect.elements:
        raise DifferenceError(f"{base.name} has fewer than {effect.elements} elements", place.line)
    st.scratch.add(base.key)


def _own_row(st: State) -> Poly:
    y, z = (variable(a.value) if st.block[a] > 1 else constant(0) for a in AXES[1:])
    return y + z.scale(st.block[AXES[1]])


def scanned(st: State, s: Assign | Evaluate, head: Item, place: Place) -> Total:
    """`before = total op prefix`, the first half of a scan."""
    loop = head.stmt
    assert isinstance(loop, For)
    first, step = loop.body.stmts
    if not isinstance(first, Store) or not isinstance(step, Reduce) or not isinstance(s, Assign) or s.op:
        raise UnreadError(f"scan {loop.var}", place.line)
    if first.value != Load(step.buffer, step.indices, step.value.dtype):
        raise UnreadError(f"scan {loop.var}", place.line)
    sign = {"sum": "+", "prod": "*"}.get(step.monoid.name, "")
    parts: tuple[Expr, ...] = s.value.args if isinstance(s.value, Operation | Invoke) else ()
    same = isinstance(s.value, Operation) and s.value.op == sign
    if len(parts) == 2 and not sign:
        same = combines("", parts[0], s.value, step.monoid, step.value.dtype) is not None
    if len(parts) != 2 or not same:
        raise DifferenceError(f"{spelled(s.value)} is not the total with what came before", place.line)
    call, effect = _call(st, parts[1], place)
    if effect.kind != "scan" or effect.monoid != step.monoid.name:
        raise DifferenceError(f"{call.name} is no running {step.monoid.name}", place.line)
    width = st.block[THREAD_X]
    own = variable(THREAD_X.value) if width > 1 else constant(0)
    inner = {**head.env, loop.var: own}
    if kernel_index(st, loop.extent, head.env, place.context) != constant(width):
        raise DifferenceError(f"{loop.var} is not over all {width} threads", place.line)
    same_element(st, parts[0], step.buffer, step.indices, head.env, place)
    same_element(st, s.target, first.buffer, first.indices, inner, place)
    *memory, total = call.args[1:]
    _scratch(st, tuple(memory), effect, step, place)
    same_value(st, call.args[0], step.value, inner, place)
    if not isinstance(total, Name) or not isinstance(st.binding(total, place.line), Local):
        raise UnreadError("a scan without its total", place.line)
    if total.key in st.buffer_of:
        raise DifferenceError(f"{total.name} is used for something else", place.line)
    st.scratch.add(total.key)
    return Total(step, total.key)


def added(st: State, s: Assign | Evaluate, head: Item, total: Total, place: Place) -> bool:
    """Whether the statement combines a scan's total with what was there."""
    if not isinstance(s, Assign):
        return False
    step = total.step
    value = combines(s.op, s.target, s.value, step.monoid, step.value.dtype)
    if not isinstance(value, Name) or value.key != total.key:
        return False
    same_element(st, s.target, step.buffer, step.indices, head.env, place)
    return True
