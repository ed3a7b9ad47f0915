"""Walking and rewriting. Every function is pure: IR in, IR out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from evolve.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from evolve.ir.stmt import (
    Alloc,
    Barrier,
    Block,
    Boundary,
    Buffer,
    Commit,
    For,
    If,
    Leaf,
    Origin,
    Reduce,
    Stmt,
    Store,
    Wait,
)


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct operands, left to right."""
    match e:
        case Const() | Var():
            return ()
        case Load():
            return e.indices
        case Binary():
            return (e.lhs, e.rhs)
        case Unary() | Cast():
            return (e.arg,)
        case Call():
            return e.args
        case Select():
            return (e.cond, e.then, e.orelse)
        case _:
            assert_never(e)


def rebuild(e: Expr, parts: tuple[Expr, ...]) -> Expr:
    """`e` with its operands replaced by `parts` (same number)."""
    match e:
        case Const() | Var():
            return e
        case Load():
            return replace(e, indices=parts)
        case Binary():
            return replace(e, lhs=parts[0], rhs=parts[1])
        case Unary() | Cast():
            return replace(e, arg=parts[0])
        case Call():
            return replace(e, args=parts)
        case Select():
            return replace(e, cond=parts[0], then=parts[1], orelse=parts[2])
        case _:
            assert_never(e)


def map_expr(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Rewrite bottom-up: operands first, then `f` on the rebuilt node."""
    parts = children(e)
    if parts:
        new = tuple(map_expr(p, f) for p in parts)
        if any(a is not b for a, b in zip(new, parts, strict=True)):
            e = rebuild(e, new)
    return f(e)


def subexpressions(e: Expr) -> Iterator[Expr]:
    """`e` and everything below it, operands before the node that uses them."""
    for part in children(e):
        yield from subexpressions(part)
    yield e


def variables(e: Expr) -> frozenset[str]:
    """Names of the loop variables and scalars in `e`."""
    return frozenset(x.name for x in subexpressions(e) if isinstance(x, Var))


def loads(e: Expr) -> tuple[Load, ...]:
    """The loads in `e` in evaluation order; a load inside a subscript comes before the outer one."""
    return tuple(x for x in subexpressions(e) if isinstance(x, Load))


def substitute(e: Expr, by: Mapping[str, Expr]) -> Expr:
    """Replace variables by expressions."""
    return map_expr(e, lambda x: by.get(x.name, x) if isinstance(x, Var) else x)


def map_stmt_exprs(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """Apply `f` to every whole expression in `s`: extents, conditions, subscripts, values, origins."""
    match s:
        case Block():
            return Block(tuple(map_stmt_exprs(x, f) for x in s.stmts))
        case For():
            return replace(s, extent=f(s.extent), body=map_block_exprs(s.body, f))
        case If():
            return replace(
                s, cond=f(s.cond), body=map_block_exprs(s.body, f), orelse=map_block_exprs(s.orelse, f)
            )
        case Alloc():
            b = s.buffer
            return Alloc(replace(b, extents=tuple(f(x) for x in b.extents)))
        case Barrier() | Commit() | Wait() | Boundary():
            return s
        case Store() | Reduce():
            origin = s.origin
            if origin is not None:
                origin = Origin(origin.stmt, tuple(f(x) for x in origin.instance))
            return replace(s, indices=tuple(f(x) for x in s.indices), value=f(s.value), origin=origin)
        case _:
            assert_never(s)


def map_block_exprs(b: Block, f: Callable[[Expr], Expr]) -> Block:
    """`map_stmt_exprs` for a block."""
    return Block(tuple(map_stmt_exprs(x, f) for x in b.stmts))


def substitute_block(b: Block, by: Mapping[str, Expr]) -> Block:
    """Replace variables by expressions everywhere in `b`."""
    return map_block_exprs(b, lambda e: substitute(e, by))


def rewrite(b: Block, f: Callable[[Stmt], Stmt | tuple[Stmt, ...] | None]) -> Block:
    """Rewrite statements bottom-up.

    `f` gets each statement after its body was rewritten and returns its replacement: a statement,
    several (spliced into the enclosing block), or None to keep it.
    """
    out: list[Stmt] = []
    for s in b.stmts:
        new: Stmt = s
        match s:
            case Block():
                new = rewrite(s, f)
            case For():
                body = rewrite(s.body, f)
                if body is not s.body:
                    new = replace(s, body=body)
            case If():
                body, orelse = rewrite(s.body, f), rewrite(s.orelse, f)
                if body is not s.body or orelse is not s.orelse:
                    new = replace(s, body=body, orelse=orelse)
            case _:
                pass
        got = f(new)
        if got is None:
            out.append(new)
        elif isinstance(got, tuple):
            out.extend(got)
        else:
            out.append(got)
    if len(out) == len(b.stmts) and all(x is y for x, y in zip(out, b.stmts, strict=True)):
        return b
    return Block(tuple(out))


@dataclass(frozen=True)
class Site:
    """A statement and what encloses it, outermost first."""

    stmt: Stmt
    path: tuple[For | If, ...]
    in_else: tuple[bool, ...]
    """For each `If` in `path` (in order), whether the statement is in its else side."""

    @property
    def loops(self) -> tuple[For, ...]:
        return tuple(p for p in self.path if isinstance(p, For))


def walk(b: Block) -> Iterator[Site]:
    """Every statement in execution (textual) order, containers before their contents."""
    out: list[Site] = []
    _collect(b, (), (), out)
    return iter(out)


def _collect(b: Block, path: tuple[For | If, ...], in_else: tuple[bool, ...], out: list[Site]) -> None:
    """A list filled recursively: generators nested as deep as the loops are several times slower."""
    for s in b.stmts:
        out.append(Site(s, path, in_else))
        if isinstance(s, For):
            _collect(s.body, (*path, s), in_else, out)
        elif isinstance(s, If):
            _collect(s.body, (*path, s), (*in_else, False), out)
            _collect(s.orelse, (*path, s), (*in_else, True), out)
        elif isinstance(s, Block):
            _collect(s, path, in_else, out)


def leaves(b: Block) -> Iterator[tuple[Leaf, Site]]:
    """Every store and reduction with its surroundings, in textual order."""
    for site in walk(b):
        if isinstance(site.stmt, Store | Reduce):
            yield site.stmt, site


def loop_sites(b: Block) -> dict[str, Site]:
    """Loops by name."""
    return {s.stmt.var: s for s in walk(b) if isinstance(s.stmt, For)}


def local_buffers(b: Block) -> dict[str, Buffer]:
    """Buffers that the kernel declares itself: shared, register and scratch, by name."""
    return {s.stmt.buffer.name: s.stmt.buffer for s in walk(b) if isinstance(s.stmt, Alloc)}


def fresh(base: str, taken: frozenset[str] | set[str]) -> str:
    """`base`, or `base` with the smallest suffix `_2`, `_3` … that is not in `taken`."""
    if base not in taken:
        return base
    n = 2
    while f"{base}_{n}" in taken:
        n += 1
    return f"{base}_{n}"
