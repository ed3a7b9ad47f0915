"""The memory of a collective is written again only after a barrier that follows its last use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evolve.validation.parts import calls_in
from evolve.validation.text import (
    Branch,
    Declare,
    Element,
    Evaluate,
    Function,
    Group,
    Invoke,
    Loop,
    Name,
    Pointer,
    Stmt,
    While,
)
from evolve.validation.verdict import DifferenceError


def check_scratch(f: Function) -> None:
    """Raises DifferenceError where a thread may write what another still reads."""
    _after(f.body, frozenset(), frozenset(_shared(f.body)))


def _shared(body: Sequence[Stmt]) -> Iterator[int]:
    return (s.key for s in body if isinstance(s, Declare) and s.shared)


def _after(body: Sequence[Stmt], used: frozenset[int], shared: frozenset[int]) -> frozenset[int]:
    """Memory in use behind the statements, where `used` was before them."""
    for s in body:
        match s:
            case Branch():
                used = _after(s.then, used, shared) | _after(s.orelse, used, shared)
            case Loop() | While():
                used |= _after(s.body, _after(s.body, used, shared), shared)
            case Group():
                used = _after(s.body, used, shared)
            case Evaluate(expr=Invoke(name="__syncthreads")):
                used = frozenset()
            case _:
                for call in _calls(s):
                    keys = frozenset(_memory(call)) & shared
                    if keys & used:
                        raise DifferenceError(f"{call.name} writes memory that is still read", s.line)
                    # It has a barrier of its own, before which all others were used.
                    used = keys if keys else used
    return used


def _calls(s: Stmt) -> Iterator[Invoke]:
    # What gives no value has no memory of its own: it updates the kernel's.
    return (call for call in calls_in(s) if call.type is not None)


def _memory(call: Invoke) -> Iterator[int]:
    """Keys of the arrays that a call is given."""
    assert call.definition is not None
    for p, a in zip(call.definition.params, call.args, strict=False):
        base = a.base if isinstance(a, Element) else a
        if isinstance(p.type, Pointer) and isinstance(base, Name):
            yield base.key
