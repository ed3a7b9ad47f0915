"""What one statement of the text does: stores, updates, copies; alone or for the lanes of a vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod

from evolve.ir.expr import Load
from evolve.ir.stmt import Commit, Reduce, Store, Wait
from evolve.ir.types import DType
from evolve.validation.context import Context
from evolve.validation.elements import same_element
from evolve.validation.forms import spelled
from evolve.validation.formula import equal, negation
from evolve.validation.items import Item
from evolve.validation.lanes import distinct, reads_of
from evolve.validation.meaning import address
from evolve.validation.peers import ATOMICS
from evolve.validation.polynomial import Atom, Poly, constant, floor
from evolve.validation.read import PREFETCH
from evolve.validation.state import Alias, Parameter, Place, Shared, State
from evolve.validation.text import (
    Address,
    Assign,
    Declare,
    Element,
    Evaluate,
    Expr,
    Invoke,
    Lane,
    Name,
    Number,
    Operation,
    Vector,
    Wide,
)
from evolve.validation.updates import aggregated
from evolve.validation.values import combines, same_value
from evolve.validation.verdict import DifferenceError, UnreadError
from evolve.validation.witness import happens

_COPY = "__pipeline_memcpy_async"


def bind_vector(st: State, s: Declare, place: Place) -> None:
    """`float4 v;`, or a vector that is loaded."""
    assert isinstance(s.type, Vector)
    if s.init is None:
        st.names[s.key] = Alias([None] * s.type.lanes, place.loops, frozenset(), True, place)
        return
    if not isinstance(s.init, Wide) or not s.const:
        raise UnreadError(f"{s.name} begins as something else than what is loaded", place.line)
    _check_aligned(st, s.init, place)
    st.names[s.key] = st.alias(list(lanes_of(s.init)), place, is_vector=True)


def lanes_of(w: Wide) -> tuple[Element, ...]:
    """The elements of a wide access."""
    *most, last = w.first.indices
    # No arithmetic of the text's: nothing of it can be too large.
    lanes = (Number(i, DType.I64) for i in range(w.type.lanes))
    beside = (Operation("+", (last, n), DType.I64) for n in lanes)
    return tuple(Element(w.first.base, (*most, i), w.type.element) for i in beside)


def _check_aligned(st: State, w: Wide, place: Place) -> None:
    """A wide access must begin at a multiple of its own size."""
    if w.first.type is not w.type.element:
        raise UnreadError("a vector of another type than its elements", place.line)
    held = st.binding(w.first.base, place.line)
    size = w.type.lanes * w.type.element.size
    if isinstance(held, Shared):
        d = held.declaration
        base = d.align if not d.offset else gcd(d.align, d.offset)
    else:
        asked = st.aligned.get(held.name, 0) if isinstance(held, Parameter) else 0
        base = max(asked, w.type.element.size)
    p = address(st, w.first, place)
    if base % size:
        raise DifferenceError(f"{w.first.base.name} is not aligned for {size} bytes", place.line)
    if not _divides(w.type.lanes, p, place.context):
        lanes = constant(w.type.lanes)
        other = negation(equal(p, floor(p, lanes, place.context.ranges) * lanes))
        raise happens(place.context, other, f"{spelled(w.first)} is not aligned for {size} bytes", place.line)


def _divides(n: int, p: Poly, ctx: Context) -> bool:
    """Whether n divides the value: each product by what is known of its factors, the rest by isl."""
    rest = Poly({m: c for m, c in p.terms.items() if (c * prod(_divisor(a, n, ctx) for a in m)) % n})
    return ctx.same(floor(rest, constant(n), ctx.ranges).scale(n), rest)


def _divisor(a: Atom, n: int, ctx: Context) -> int:
    """The largest power of two up to n that is known to divide an atom."""
    p = Poly({(a,): 1})
    k = n
    if a.kind == "xor":
        while k > 1 and not all(_divides(k, q, ctx) for q in a.of):
            k //= 2
        return k
    while k > 1 and (a.kind != "var" or not ctx.same(floor(p, constant(k), ctx.ranges).scale(k), p)):
        k //= 2
    return k


def touched_by_call(s: Assign | Evaluate) -> list[int]:
    """Keys of the variables and arrays that a statement writes."""
    targets: list[Expr] = []
    if isinstance(s, Assign):
        targets = [s.target]
    elif isinstance(s.expr, Invoke) and s.expr.name != PREFETCH:
        # A function of the text may write to all that it is given.
        given: Sequence[Expr] = s.expr.args[:1]
        if s.expr.definition is not None:
            function = s.expr.definition
            given = [
                a for p, a in zip(function.params, s.expr.args, strict=True) if p.key not in function.readonly
            ]
        targets = [a.of if isinstance(a, Address) else a for a in given]
    out = []
    for t in targets:
        base = t.vector if isinstance(t, Lane) else t.first if isinstance(t, Wide) else t
        base = base.base if isinstance(base, Element) else base
        if isinstance(base, Name):
            out.append(base.key)
    return out


def copied(s: Assign | Evaluate, item: Commit | Wait) -> bool:
    """Whether the text commits or waits as the kernel does."""
    if not isinstance(s, Evaluate) or not isinstance(s.expr, Invoke):
        return False
    if isinstance(item, Commit):
        return s.expr.name == "__pipeline_commit"
    return s.expr.name == "__pipeline_wait_prior" and s.expr.args == (Number(item.pending, DType.I32),)


def matched(
    st: State, s: Assign | Evaluate, left: list[Item], place: Place, expose: Callable[[], Item | None]
) -> int:
    """Finds a writing statement in the items that are left; the root of the last that it takes."""
    if isinstance(s, Assign):
        if isinstance(s.target, Wide):
            return _wide_store(st, s, s.target, left, place, expose)
        return _scalar(st, s, left, place)
    call = s.expr
    assert isinstance(call, Invoke)
    if call.name == _COPY:
        return _copy(st, call, left, place, expose)
    head = left[0]
    step = head.stmt
    if call.name == PREFETCH:
        return _prefetch(st, call, left, place)
    if not isinstance(step, Reduce) or not step.atomic:
        raise DifferenceError(f"{spelled(call)} where the kernel updates nothing atomically", place.line)
    if call.definition is not None:
        aggregated(st, call, head, place)
        return left.pop(0).root
    target, value = updated(s, step)
    if target is None or value is None:
        raise DifferenceError(f"{call.name} is not the update of the kernel", place.line)
    same_element(st, target, step.buffer, step.indices, head.env, place)
    same_value(st, value, step.value, head.env, place)
    return left.pop(0).root


def updated(s: Assign | Evaluate, step: Reduce) -> tuple[Expr | None, Expr | None]:
    """The cell and what is combined with it, if the statement is an update such as `step`."""
    if isinstance(s, Assign):
        if step.atomic:
            return None, None
        return s.target, combines(s.op, s.target, s.value, step.monoid, step.value.dtype)
    call = s.expr
    plain = isinstance(call, Invoke) and call.definition is None and step.atomic and not step.aggregated
    if not plain or not isinstance(call, Invoke) or ATOMICS.get(call.name) != step.monoid.name:
        return None, None
    cell = call.args[0]
    return (cell.of, call.args[1]) if isinstance(cell, Address) else (None, None)


def _scalar(st: State, s: Assign, left: list[Item], place: Place) -> int:
    head = left[0]
    leaf = head.stmt
    if isinstance(leaf, Store):
        if leaf.asynchronous or leaf.prefetch or s.op:
            raise DifferenceError(f"{spelled(s.target)} is not written so in the kernel", place.line)
        same_element(st, s.target, leaf.buffer, leaf.indices, head.env, place)
        same_value(st, s.value, leaf.value, head.env, place)
        return left.pop(0).root
    assert isinstance(leaf, Reduce)
    _, value = updated(s, leaf)
    if value is None:
        raise DifferenceError(f"{spelled(s.target)} is not updated so in the kernel", place.line)
    same_element(st, s.target, leaf.buffer, leaf.indices, head.env, place)
    same_value(st, value, leaf.value, head.env, place)
    return left.pop(0).root


def _taken(
    number: int, left: list[Item], place: Place, expose: Callable[[], Item | None], *, asynchronous: bool
) -> list[Item]:
    """The stores of all lanes of one access."""
    out = []
    for _ in range(number):
        head = expose()
        plain = head is not None and isinstance(head.stmt, Store) and not head.guards
        if not plain or head is None or not isinstance(head.stmt, Store):
            raise DifferenceError("a wide access to more than the kernel has here", place.line)
        if head.stmt.asynchronous != asynchronous or head.stmt.prefetch:
            raise DifferenceError("an access of another kind than the kernel's", place.line)
        out.append(left.pop(0))
    return out


def _wide_store(
    st: State,
    s: Assign,
    target: Wide,
    left: list[Item],
    place: Place,
    expose: Callable[[], Item | None],
) -> int:
    _check_aligned(st, target, place)
    if s.op or not isinstance(s.value, Name):
        raise UnreadError("a vector that is not by name", place.line)
    items = _taken(target.type.lanes, left, place, expose, asynchronous=False)
    for i, item in enumerate(items):
        leaf = item.stmt
        assert isinstance(leaf, Store)
        same_element(st, target.first, leaf.buffer, leaf.indices, item.env, place, offset=i)
        same_value(st, Lane(s.value, i, target.type.element), leaf.value, item.env, place)
        for earlier in items[:i]:
            # All lanes are read before any is written.
            before = earlier.stmt
            assert isinstance(before, Store)
            for cell in reads_of(leaf):
                mine = (before.buffer, before.indices)
                if not distinct(st, cell, item.env, mine, earlier.env, place.context):
                    raise UnreadError("a lane that reads what an earlier one wrote", place.line)
    return items[-1].root


def _prefetch(st: State, call: Invoke, left: list[Item], place: Place) -> int:
    """A request for the line of an element that the kernel says will be wanted."""
    head, at = left[0], call.args[0]
    leaf = head.stmt
    if not isinstance(leaf, Store) or not leaf.prefetch or not isinstance(leaf.value, Load):
        raise DifferenceError("a request that the kernel does not make", place.line)
    assert isinstance(at, Address)
    same_element(st, at.of, leaf.value.buffer, leaf.value.indices, head.env, place)
    return left.pop(0).root


def _copy(st: State, call: Invoke, left: list[Item], place: Place, expose: Callable[[], Item | None]) -> int:
    to, source, size = call.args
    if not isinstance(to, Address) or not isinstance(source, Address) or not isinstance(size, Number):
        raise UnreadError("a copy of another form", place.line)
    to_e, source_e = to.of, source.of
    if not isinstance(to_e, Element) or not isinstance(source_e, Element):
        raise UnreadError("a copy of another form", place.line)
    dtype = to_e.type
    if not isinstance(dtype, DType) or source_e.type is not dtype or size.value not in (4, 8, 16):
        raise UnreadError("a copy of another form", place.line)
    number = int(size.value) // dtype.size
    for side in (to_e, source_e):
        _check_aligned(st, Wide(side, Vector(dtype, number)), place)
    items = _taken(number, left, place, expose, asynchronous=True)
    for i, item in enumerate(items):
        leaf = item.stmt
        assert isinstance(leaf, Store)
        if not isinstance(leaf.value, Load):
            raise UnreadError("a copy of a value", place.line)
        same_element(st, to_e, leaf.buffer, leaf.indices, item.env, place, offset=i)
        same_element(st, source_e, leaf.value.buffer, leaf.value.indices, item.env, place, offset=i)
    return items[-1].root
