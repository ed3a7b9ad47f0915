"""Finding and replacing statements by identity, for damage to one place of a kernel."""

from __future__ import annotations

import random
from dataclasses import replace

from evolve.ir.expr import Binary, BinaryOp, Expr
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Block, For, If, Stmt
from evolve.ir.types import DType
from evolve.ir.visit import rewrite, walk


def pick(kernel: Kernel, rng: random.Random, *types: type) -> Stmt:
    """A random statement of the types. Raises LookupError."""
    found = [s.stmt for s in walk(kernel.body) if isinstance(s.stmt, types)]
    if not found:
        raise LookupError(types)
    return rng.choice(found)


def swap_in(kernel: Kernel, old: Stmt, new: Stmt | tuple[Stmt, ...]) -> Kernel:
    """The kernel with one statement, found by identity, replaced."""
    return replace(kernel, body=_swap(kernel.body, old, new))


def _swap(block: Block, old: Stmt, new: Stmt | tuple[Stmt, ...]) -> Block:
    out: list[Stmt] = []
    for s in block.stmts:
        if s is old:
            out += new if isinstance(new, tuple) else (new,)
        elif isinstance(s, For):
            out.append(replace(s, body=_swap(s.body, old, new)))
        elif isinstance(s, If):
            out.append(replace(s, body=_swap(s.body, old, new), orelse=_swap(s.orelse, old, new)))
        elif isinstance(s, Block):
            out.append(_swap(s, old, new))
        else:
            out.append(s)
    return Block(tuple(out))


def blocks(k: Kernel) -> list[Block]:
    out = [k.body]
    for s in walk(k.body):
        if isinstance(s.stmt, For | If):
            out.append(s.stmt.body)
    return out


def with_block(block: Block, old: Block, new: Block) -> Block:
    if block is old:
        return new

    def swap(s: Stmt) -> Stmt | None:
        return replace(s, body=new) if isinstance(s, For | If) and s.body is old else None

    return rewrite(block, swap)


def less(a: Expr, b: Expr) -> Expr:
    return Binary(BinaryOp.LT, a, b, DType.BOOL)


def equal(a: Expr, b: Expr) -> Expr:
    return Binary(BinaryOp.EQ, a, b, DType.BOOL)
