"""Statements have effects, expressions inside them have none: an unused one is never compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evolve.validation.parts import subexpressions
from evolve.validation.text import Assign, Branch, Declare, Evaluate, Expr, Group, Loop, Return, Stmt, While
from evolve.validation.verdict import UnreadError


def check_effects(body: Sequence[Stmt]) -> None:
    """Raises UnreadError for an assignment that is no statement, `++` included."""
    for s in body:
        for e in _expressions(s):
            if any(isinstance(x, Assign) for x in subexpressions(e)):
                raise UnreadError("an assignment inside an expression", s.line)
        match s:
            case Branch():
                check_effects((*s.then, *s.orelse))
            case Loop() | While() | Group():
                check_effects(s.body)
            case _:
                pass


def _expressions(s: Stmt) -> Iterator[Expr]:
    match s:
        case Declare():
            parts: tuple[Expr | None, ...] = (s.init,)
        case Assign():
            parts = (s.target, s.value)
        case Evaluate():
            parts = (s.expr,)
        case Branch() | While():
            parts = (s.cond,)
        case Loop():
            parts = (s.var.init, s.cond, s.step.target, s.step.value)
        case Return():
            parts = (s.value,)
        case Group():
            parts = ()
    yield from (x for x in parts if x is not None)
