"""Calls of device functions that update memory for several lanes or entries."""

from __future__ import annotations

from evolve.ir.stmt import Reduce
from evolve.validation.elements import same_array, same_subscript
from evolve.validation.forms import spelled
from evolve.validation.items import Item
from evolve.validation.peers import together_of
from evolve.validation.state import Place, State
from evolve.validation.text import Address, Element, Expr, Invoke, Name, Number
from evolve.validation.values import same_value
from evolve.validation.verdict import DifferenceError, UnreadError


def aggregated(st: State, call: Invoke, head: Item, place: Place) -> None:
    """An update by lanes together is the kernel's own of each of them, whichever lanes are here."""
    step = head.stmt
    assert isinstance(step, Reduce) and call.definition is not None
    if not step.aggregated:
        raise UnreadError(f"a call of {call.name}", place.line)
    effect = together_of(call.definition, st.launched)
    if effect.monoid != step.monoid.name or effect.dtype is not st.buffers[step.buffer].dtype:
        raise DifferenceError(f"{call.name} is not the update of the kernel", place.line)
    cells, at, value = call.args
    same_array(st, _array(cells, place), step.buffer, place)
    same_subscript(st, at, step.buffer, step.indices, head.env, place)
    if effect.alike and not isinstance(st.resolved(value, place), Number):
        raise DifferenceError(f"{call.name} is for a value that all lanes have", place.line)
    same_value(st, value, step.value, head.env, place)


def _array(e: Expr, place: Place) -> Name:
    """The array whose first element a function is given."""
    of = e.of if isinstance(e, Address) else None
    if isinstance(of, Element) and all(isinstance(i, Number) and i.value == 0 for i in of.indices):
        return of.base
    if isinstance(e, Name):
        return e
    raise UnreadError(f"{spelled(e)} for an array", place.line)
