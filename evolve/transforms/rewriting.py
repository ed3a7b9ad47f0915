"""Rewriting the statements that name one buffer. Others are not looked into, and stay the same objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import is_

from evolve.ir.expr import Expr, Load
from evolve.ir.stmt import Block, For, If, Stmt
from evolve.ir.visit import loads, map_expr, map_stmt_exprs
from evolve.transforms.taken import named


def rewrite_naming(block: Block, buffer: str, f: Callable[[Stmt], Stmt | tuple[Stmt, ...] | None]) -> Block:
    """As `ir.visit.rewrite` does, statements that name the buffer and those around them."""
    out: list[Stmt] = []
    for s in block.stmts:
        if buffer not in named(s):
            out.append(s)
            continue
        inside = _with_inside(s, lambda b: rewrite_naming(b, buffer, f))
        got = f(inside)
        out += got if isinstance(got, tuple) else (inside if got is None else got,)
    same = len(out) == len(block.stmts) and all(map(is_, out, block.stmts))
    return block if same else Block(tuple(out))


def with_loads(block: Block, buffer: str, f: Callable[[Load], Expr]) -> Block:
    """What is read of the buffer replaced by what `f` makes of it."""
    return rewrite_naming(block, buffer, lambda s: loading(s, buffer, f))


def loading(s: Stmt, buffer: str, f: Callable[[Load], Expr]) -> Stmt:
    """The same for a statement alone, without those inside it."""

    def one(e: Expr) -> Expr:
        return f(e) if isinstance(e, Load) and e.buffer == buffer else e

    def whole(e: Expr) -> Expr:
        return map_expr(e, one) if any(x.buffer == buffer for x in loads(e)) else e

    match s:
        case Block():
            return s
        case For():
            extent = whole(s.extent)
            return s if extent is s.extent else replace(s, extent=extent)
        case If():
            cond = whole(s.cond)
            return s if cond is s.cond else replace(s, cond=cond)
        case _:
            return map_stmt_exprs(s, whole)


def _with_inside(s: Stmt, f: Callable[[Block], Block]) -> Stmt:
    """A statement with its blocks rewritten."""
    match s:
        case Block():
            return f(s)
        case For():
            body = f(s.body)
            return s if body is s.body else replace(s, body=body)
        case If():
            body, orelse = f(s.body), f(s.orelse)
            return s if body is s.body and orelse is s.orelse else replace(s, body=body, orelse=orelse)
        case _:
            return s
