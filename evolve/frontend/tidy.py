"""Index arithmetic put in its simplest form, and conditions decided by what is known where they stand."""

from __future__ import annotations

from collections.abc import Iterable

from evolve.frontend.polynomial import ONE, Poly, expression, polynomial
from evolve.frontend.prove import Known, facts_of, negate, nonnegative, simplify
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Select
from evolve.ir.stmt import Alloc, Block, For, If, Stmt
from evolve.ir.types import DType
from evolve.ir.visit import children, map_stmt_exprs, rebuild, variables


def substitute(e: Expr, by: dict[str, Poly]) -> Expr:
    """Thread variables replaced in every INDEX part of an expression."""
    if e.dtype is DType.INDEX:
        return expression(polynomial(e).substitute(by))
    parts = children(e)
    return rebuild(e, tuple(substitute(x, by) for x in parts)) if parts else e


def used(stmts: Iterable[Stmt]) -> frozenset[str]:
    """The variables that statements mention."""
    names: set[str] = set()

    def note(e: Expr) -> Expr:
        names.update(variables(e))
        return e

    for s in stmts:
        map_stmt_exprs(s, note)
    return frozenset(names)


def tidy(block: Block, known: Known) -> Block:
    """Index arithmetic simplified and conditions decided by what is known at each place."""
    out: list[Stmt] = []
    for s in block.stmts:
        match s:
            case For():
                extent = simplify(polynomial(s.extent), known)
                body = tidy(s.body, known.inside(s.var, extent))
                if body.stmts:
                    out.append(For(s.var, expression(extent), s.kind, body, span=s.span))
            case If():
                cond = tidy_expr(s.cond, known)
                if isinstance(cond, Const):
                    out.extend(tidy(s.body if cond.value else s.orelse, known).stmts)
                    continue
                body = tidy(s.body, known.assuming(cond))
                orelse = tidy(s.orelse, known.assuming(negate(cond)))
                if not body.stmts and orelse.stmts:
                    cond, body, orelse = negate(cond), orelse, body
                if body.stmts:
                    out.append(If(cond, body, orelse, s.span))
            case Alloc():
                out.append(s)
            case _:
                out.append(map_stmt_exprs(s, lambda e, k=known: tidy_expr(e, k)))  # type: ignore[misc]
    return Block(tuple(out))


def tidy_expr(e: Expr, known: Known) -> Expr:
    """One expression; the sides of a select are simplified under its condition."""
    if e.dtype is DType.INDEX:
        return expression(simplify(polynomial(e), known))
    match e:
        case Binary(op=BinaryOp.AND | BinaryOp.OR):
            a = tidy_expr(e.lhs, known)
            sure = a if e.op is BinaryOp.AND else negate(a)
            b = tidy_expr(e.rhs, known.assuming(sure))
            absorbing = e.op is BinaryOp.OR
            for x, y in ((a, b), (b, a)):
                if isinstance(x, Const):
                    return x if bool(x.value) == absorbing else y
            return Binary(e.op, a, b, DType.BOOL)
        case Binary() if e.op.is_comparison and e.lhs.dtype is DType.INDEX and e.rhs.dtype is DType.INDEX:
            a, b = tidy_expr(e.lhs, known), tidy_expr(e.rhs, known)
            made = Binary(e.op, a, b, DType.BOOL)
            if _holds(made, known):
                return Const(True, DType.BOOL)
            if _holds(negate(made), known):
                return Const(False, DType.BOOL)
            if made.op in (BinaryOp.EQ, BinaryOp.NE) and _differ(made, known):
                return Const(made.op is BinaryOp.NE, DType.BOOL)
            return made
        case Select():
            cond = tidy_expr(e.cond, known)
            if isinstance(cond, Const):
                return tidy_expr(e.then if cond.value else e.orelse, known)
            then = tidy_expr(e.then, known.assuming(cond))
            orelse = tidy_expr(e.orelse, known.assuming(negate(cond)))
            return Select(cond, then, orelse, e.dtype)
        case _:
            parts = children(e)
            return rebuild(e, tuple(tidy_expr(x, known) for x in parts)) if parts else e


def _differ(cond: Binary, known: Known) -> bool:
    d = polynomial(cond.lhs) - polynomial(cond.rhs)
    return nonnegative(d - ONE, known) or nonnegative(-d - ONE, known)


def _holds(cond: Expr, known: Known) -> bool:
    facts = facts_of(cond)
    return bool(facts) and all(nonnegative(f, known) for f in facts)
