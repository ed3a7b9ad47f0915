"""Walking and rewriting. Every function is pure: IR in, IR out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter, is_
from typing import Any, NamedTuple, assert_never

from evolve.ir.expr import Binary, Call, Cast, Const, Expr, Find, Load, Select, Unary, Var
from evolve.ir.memo import by_object
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

MOST_REMEMBERED = 32768
"""Expressions: the same few subscripts are asked about again and again."""
_OPERANDS: Mapping[type, Callable[[Any], tuple[Expr, ...]]] = {
    Const: lambda e: (),
    Var: lambda e: (),
    Load: attrgetter("indices"),
    Binary: attrgetter("lhs", "rhs"),
    Unary: lambda e: (e.arg,),
    Cast: lambda e: (e.arg,),
    Call: attrgetter("args"),
    Select: attrgetter("cond", "then", "orelse"),
    Find: lambda e: (e.value,),
}


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct operands, left to right."""
    return _OPERANDS[type(e)](e)


def rebuild(e: Expr, parts: tuple[Expr, ...]) -> Expr:
    """`e` with its operands replaced by `parts` (same number)."""
    match e:
        case Const() | Var():
            return e
        case Load():
            return Load(e.buffer, parts, e.dtype)
        case Binary():
            return Binary(e.op, parts[0], parts[1], e.dtype)
        case Unary():
            return Unary(e.op, parts[0], e.dtype)
        case Cast():
            return Cast(parts[0], e.dtype)
        case Call():
            return Call(e.fn, parts, e.dtype)
        case Select():
            return Select(parts[0], parts[1], parts[2], e.dtype)
        case Find():
            return Find(e.buffer, parts[0], e.dtype)
        case _:
            assert_never(e)


def map_expr(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Rewrite bottom-up: operands first, then `f` on the rebuilt node."""
    parts = children(e)
    if parts:
        new = tuple([map_expr(p, f) for p in parts])
        if not _same(new, parts):
            e = rebuild(e, new)
    return f(e)


def _same(new: tuple[object, ...], old: tuple[object, ...]) -> bool:
    """Whether nothing is another object than before."""
    return all(map(is_, new, old))


def subexpressions(e: Expr) -> Iterator[Expr]:
    """`e` and everything below it, operands before the node that uses them."""
    out: list[Expr] = []
    _below(e, out)
    return iter(out)


def _below(e: Expr, out: list[Expr]) -> None:
    for part in children(e):
        _below(part, out)
    out.append(e)


@lru_cache(maxsize=MOST_REMEMBERED)
def variables(e: Expr) -> frozenset[str]:
    """Names of the loop variables and scalars in `e`."""
    return frozenset(x.name for x in subexpressions(e) if isinstance(x, Var))


@lru_cache(maxsize=MOST_REMEMBERED)
def loads(e: Expr) -> tuple[Load, ...]:
    """The loads in `e` in evaluation order; a load inside a subscript comes before the outer one."""
    return tuple(x for x in subexpressions(e) if isinstance(x, Load))


def substitute(e: Expr, by: Mapping[str, Expr]) -> Expr:
    """Replace variables by expressions."""
    if variables(e).isdisjoint(by):
        return e
    if isinstance(e, Var):
        return by[e.name]
    return rebuild(e, tuple([substitute(x, by) for x in children(e)]))


def map_stmt_exprs(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """Apply `f` to every whole expression in `s`: extents, conditions, subscripts, values, origins.

    What `f` leaves as it is stays the same object, by which more than one cache remembers.
    """
    match s:
        case Block():
            return map_block_exprs(s, f)
        case For():
            extent, body = f(s.extent), map_block_exprs(s.body, f)
            same = extent is s.extent and body is s.body
            return s if same else replace(s, extent=extent, body=body)
        case If():
            cond, body, orelse = f(s.cond), map_block_exprs(s.body, f), map_block_exprs(s.orelse, f)
            same = cond is s.cond and body is s.body and orelse is s.orelse
            return s if same else replace(s, cond=cond, body=body, orelse=orelse)
        case Alloc():
            b = s.buffer
            extents = _mapped(b.extents, f)
            return s if extents is b.extents else Alloc(replace(b, extents=extents))
        case Barrier() | Commit() | Wait() | Boundary():
            return s
        case Store() | Reduce():
            origin = s.origin
            if origin is not None:
                instance = _mapped(origin.instance, f)
                origin = origin if instance is origin.instance else Origin(origin.stmt, instance)
            indices, value = _mapped(s.indices, f), f(s.value)
            same = indices is s.indices and value is s.value and origin is s.origin
            return s if same else replace(s, indices=indices, value=value, origin=origin)
        case _:
            assert_never(s)


def _mapped(parts: tuple[Expr, ...], f: Callable[[Expr], Expr]) -> tuple[Expr, ...]:
    new = tuple([f(x) for x in parts])
    return parts if _same(new, parts) else new


def map_block_exprs(b: Block, f: Callable[[Expr], Expr]) -> Block:
    """`map_stmt_exprs` for a block."""
    new = tuple([map_stmt_exprs(x, f) for x in b.stmts])
    return b if _same(new, b.stmts) else Block(new)


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
    new_stmts = tuple(out)
    return b if len(new_stmts) == len(b.stmts) and _same(new_stmts, b.stmts) else Block(new_stmts)


def inside(s: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside one."""
    match s:
        case Block():
            return s.stmts
        case For():
            return s.body.stmts
        case If():
            return (*s.body.stmts, *s.orelse.stmts)
        case _:
            return ()


class Site(NamedTuple):
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
    return iter(_sites(b))


def _all_sites(b: Block) -> list[Site]:
    out: list[Site] = []
    _collect(b, (), (), out)
    return out


_sites = by_object(_all_sites, most=1024)
"""Bodies are walked many times, and shared by kernels that are made from one another."""


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
