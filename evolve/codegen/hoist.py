"""Moves guards out of loops that do not change them, so that a thread tests each condition once."""

from __future__ import annotations

from dataclasses import replace

from evolve.ir.expr import Expr, conjunction
from evolve.ir.scope import conjuncts
from evolve.ir.stmt import Block, For, If, Stmt
from evolve.ir.visit import loads, rewrite, variables


def hoist_guards(body: Block) -> Block:
    """Each loop whose whole body is one `if` gives up the conditions that its variable is not in."""
    return flatten(rewrite(body, _lift))


def flatten(body: Block) -> Block:
    """The same statements without blocks directly inside blocks."""
    return rewrite(body, lambda s: s.stmts if isinstance(s, Block) else None)


def _lift(s: Stmt) -> Stmt | None:
    if not isinstance(s, For) or s.kind.is_grid or s.kind.is_combine:
        return None
    body = s.body.stmts
    while len(body) == 1 and isinstance(body[0], Block):
        body = body[0].stmts
    if len(body) != 1 or not isinstance(body[0], If) or body[0].orelse.stmts:
        return None
    guard = body[0]
    outside: list[Expr] = []
    inside: list[Expr] = []
    for term in conjuncts((guard.cond,)):
        moves = s.var in variables(term) or loads(term)
        (inside if moves else outside).append(term)
    if not outside:
        return None
    kept = Block((replace(guard, cond=conjunction(tuple(inside))),)) if inside else guard.body
    return If(conjunction(tuple(outside)), Block((replace(s, body=kept),)), span=guard.span)
