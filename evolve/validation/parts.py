"""What statements and expressions are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evolve.validation.text import (
    Address,
    Assign,
    Conditional,
    Convert,
    Element,
    Expr,
    Function,
    Invoke,
    Lane,
    Name,
    Operation,
    Wide,
)


def parts(x: Any) -> Iterator[Any]:
    """Every node of a statement, an expression or several; bodies of functions called are not entered."""
    if isinstance(x, tuple):
        for item in x:
            yield from parts(item)
    elif hasattr(x, "__dataclass_fields__") and not isinstance(x, Function):
        yield x
        for name in x.__dataclass_fields__:
            yield from parts(getattr(x, name))


def names_in(x: Any) -> Iterator[Name]:
    """Variables that are named there."""
    return (part for part in parts(x) if isinstance(part, Name))


def calls_in(x: Any) -> Iterator[Invoke]:
    """Calls of functions that the text defines."""
    return (p for p in parts(x) if isinstance(p, Invoke) and p.definition is not None)


def subexpressions(e: Expr) -> Iterator[Expr]:
    """`e` and what is evaluated for it: of an element its subscripts, not the array."""
    yield e
    match e:
        case Operation() | Invoke():
            parts: tuple[Expr, ...] = e.args
        case Conditional():
            parts = (e.cond, e.then, e.orelse)
        case Convert():
            parts = (e.arg,)
        case Element():
            parts = e.indices
        case Wide():
            parts = (e.first,)
        case Lane():
            parts = (e.vector,)
        case Address():
            parts = (e.of,)
        case Assign():
            parts = (e.target, e.value)
        case _:
            parts = ()
    for x in parts:
        yield from subexpressions(x)
