"""Forms of C that say one thing: taken apart, or put as the statement that they are."""

from __future__ import annotations

from collections.abc import Sequence

from evolve.ir.expr import Binary, BinaryOp
from evolve.ir.expr import Expr as Term
from evolve.ir.types import DType
from evolve.validation.text import (
    Assign,
    Branch,
    Conditional,
    Convert,
    Declare,
    Element,
    Expr,
    Group,
    Invoke,
    Name,
    Number,
    Operation,
    Stmt,
)


def flat(text: Sequence[Stmt]) -> list[Stmt]:
    """Groups taken apart, and an update by a compared value as the extreme that it is."""
    out: list[Stmt] = []
    for s in text:
        if isinstance(s, Group):
            update = _kept_if_better(s)
            out += [update] if update is not None else flat(s.body)
        else:
            out.append(s)
    return out


def _kept_if_better(s: Group) -> Assign | None:
    """`{ const T value = e; if (value < t) t = value; }` is `t = t < e ? t : e`."""
    if len(s.body) != 2:
        return None
    first, second = s.body
    if not isinstance(first, Declare) or not isinstance(second, Branch) or first.init is None:
        return None
    value = Name(first.key, first.name, first.type)
    only = second.then[0] if len(second.then) == 1 and not second.orelse else None
    if not isinstance(only, Assign) or only.op or only.value != value or not first.const:
        return None
    compared = second.cond
    if not isinstance(compared, Operation) or compared.op not in ("<", ">"):
        return None
    if compared.args != (value, only.target) or not isinstance(first.type, DType) or first.type.is_float:
        return None
    cond = Operation(compared.op, (only.target, first.init), DType.BOOL)
    return Assign("", only.target, Conditional(cond, only.target, first.init, first.type), s.line)


def first_conjunct(cond: Expr) -> tuple[Expr, Expr | None]:
    """The first operand of a conjunction, and the others."""
    if isinstance(cond, Operation) and cond.op == "&&":
        left, right = cond.args
        first, rest = first_conjunct(left)
        return first, right if rest is None else Operation("&&", (rest, right), DType.BOOL)
    return cond, None


def first_of_kernel(cond: Term) -> tuple[Term, Term | None]:
    """The same of the kernel's."""
    if isinstance(cond, Binary) and cond.op is BinaryOp.AND:
        first, rest = first_of_kernel(cond.lhs)
        return first, cond.rhs if rest is None else Binary(BinaryOp.AND, rest, cond.rhs, DType.BOOL)
    return cond, None


def without_conversion(e: Expr) -> Expr:
    return e.arg if isinstance(e, Convert) else e


def spelled(t: Expr) -> str:
    """Roughly what the text says."""
    match t:
        case Number():
            return str(t.value)
        case Name():
            return t.name
        case Operation():
            parts = [spelled(a) for a in t.args]
            return f"{t.op}({parts[0]})" if len(parts) == 1 else f"({f' {t.op} '.join(parts)})"
        case Element():
            return t.base.name + "".join(f"[{spelled(i)}]" for i in t.indices)
        case Invoke():
            return f"{t.name}({', '.join(map(spelled, t.args))})"
        case Conditional():
            return f"({spelled(t.cond)} ? {spelled(t.then)} : {spelled(t.orelse)})"
        case Convert():
            return f"({t.type.value}){spelled(t.arg)}"
        case _:
            return type(t).__name__.lower()
