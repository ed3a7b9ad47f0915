"""Assignments inside expressions become statements of their own: `y[j++] = v` is `y[j] = v; j += 1`.

Only where the order in which C++17 evaluates the parts does not matter: the variable stands nowhere else in
the statement, and the assignment happens whatever the conditions in it say. Others stay as they are, and
are refused where they are evaluated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from evolve.frontend.ctree import (
    Assign,
    CExpr,
    Conditional,
    Convert,
    CStmt,
    Declare,
    Element,
    Evaluate,
    Invoke,
    Name,
    Number,
    Operation,
    Return,
    Void,
)


def separated(s: Declare | Evaluate | Return) -> tuple[CStmt, ...]:
    """The statement with the assignments inside its expression before and after it."""
    match s:
        case Evaluate(expr=Assign() as whole):
            steps = _Steps(whole)
            value, target = steps.chain(whole.value), steps.place(whole.target)
            done = replace(s, expr=replace(whole, target=target, value=value))
            return (*steps.before, done, *steps.after)
        case Evaluate():
            steps = _Steps(s.expr)
            expr = steps.rewrite(s.expr)
            return (*steps.before, replace(s, expr=expr), *steps.after)
        case Declare(init=init) if init is not None and not isinstance(init, tuple):
            steps = _Steps(init)
            declared = replace(s, init=steps.chain(init))
            return (*steps.before, declared, *steps.after)
        case Return(value=value) if value is not None:
            steps = _Steps(value)
            returned = replace(s, value=steps.chain(value))
            # What would be assigned after it are variables that end here.
            return (*steps.before, returned)
        case _:
            return (s,)


class _Steps:
    def __init__(self, whole: CExpr) -> None:
        self._names = _names(whole)
        self.before: list[CStmt] = []
        self.after: list[CStmt] = []

    def chain(self, e: CExpr) -> CExpr:
        """The value of an assignment: it may itself be an assignment, to an array element too."""
        if isinstance(e, Convert):
            return replace(e, arg=self.chain(e.arg))
        if isinstance(e, Assign) and isinstance(e.target, Element) and not isinstance(e.type, Void):
            inner = replace(e, target=self.place(e.target), value=self.chain(e.value))
            self.before.append(Evaluate(inner, e.line))
            known = _literal(inner.value) if e.op is None else None
            return inner.target if known is None else Convert(known, inner.target.type, e.line)
        if isinstance(e, Assign):
            e = replace(e, value=self.chain(e.value))
        return self.rewrite(e)

    def place(self, e: CExpr) -> CExpr:
        """What is assigned."""
        if isinstance(e, Element):
            return replace(e, base=self.rewrite(e.base), index=self.rewrite(e.index))
        return e

    def rewrite(self, e: CExpr, sure: bool = True) -> CExpr:
        """The expression with the values of variables before or after their assignments.

        `sure`: it is evaluated whatever the conditions of the statement say.
        """
        match e:
            case Assign(target=Name() as target) if sure and self._alone(e, target):
                step = Evaluate(replace(e, value=self.rewrite(e.value)), e.line)
                (self.after if isinstance(e.type, Void) else self.before).append(step)
                return target
            case Convert():
                return replace(e, arg=self.rewrite(e.arg, sure))
            case Element():
                return replace(e, base=self.rewrite(e.base, sure), index=self.rewrite(e.index, sure))
            case Operation(op="&&" | "||", operands=(first, *rest)):
                others = tuple(self.rewrite(x, sure=False) for x in rest)
                return replace(e, operands=(self.rewrite(first, sure), *others))
            case Operation():
                return replace(e, operands=tuple(self.rewrite(x, sure) for x in e.operands))
            case Conditional():
                then, orelse = self.rewrite(e.then, sure=False), self.rewrite(e.orelse, sure=False)
                return replace(e, cond=self.rewrite(e.cond, sure), then=then, orelse=orelse)
            case Invoke():
                return replace(e, args=tuple(self.rewrite(x, sure) for x in e.args))
            case _:
                return e

    def _alone(self, e: Assign, target: Name) -> bool:
        return self._names[target.key] == _names(e)[target.key]


def _literal(e: CExpr) -> CExpr | None:
    inner = e
    while isinstance(inner, Convert):
        inner = inner.arg
    return e if isinstance(inner, Number) else None


def _names(e: CExpr) -> Counter[int]:
    """How often each variable occurs."""
    match e:
        case Name():
            return Counter((e.key,))
        case Convert():
            return _names(e.arg)
        case Element():
            return _names(e.base) + _names(e.index)
        case Operation():
            return sum(map(_names, e.operands), Counter())
        case Conditional():
            return _names(e.cond) + _names(e.then) + _names(e.orelse)
        case Invoke():
            return sum(map(_names, e.args), Counter())
        case Assign():
            return _names(e.target) + _names(e.value)
        case _:
            return Counter()
