"""Shared pieces of the transforms: finding, replacing and tidying."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import is_

from evolve.ir.affine import Ranges, simplify
from evolve.ir.data import reads
from evolve.ir.effects import Mode, effects
from evolve.ir.expr import TRUE, Binary, BinaryOp, Const, Expr, Load, Var, conjunction, var
from evolve.ir.kernel import Kernel
from evolve.ir.memo import by_object
from evolve.ir.scope import conjuncts, ranges_at
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Reduce, Stmt, Store
from evolve.ir.types import DType, Space
from evolve.ir.visit import (
    Site,
    fresh,
    inside,
    leaves,
    loads,
    map_block_exprs,
    map_expr,
    map_stmt_exprs,
    rewrite,
    variables,
    walk,
)
from evolve.transforms.rewriting import rewrite_naming


def replace_loop(kernel: Kernel, name: str, f: Callable[[For], Stmt | tuple[Stmt, ...]]) -> Kernel:
    """The kernel with the loop `name` replaced by what `f` makes of it. Raises KeyError."""
    old, site = loop_at(kernel, name)
    made = f(old)
    new = made if isinstance(made, tuple) else (made,)
    here: Stmt = old
    sides = list(site.in_else)
    for around in reversed(site.path):
        if isinstance(around, For):
            body = _with(around.body, here, new)
            new = (For(around.var, around.extent, around.kind, body, around.note, around.span),)
        elif sides.pop():
            new = (replace(around, orelse=_with(around.orelse, here, new)),)
        else:
            new = (replace(around, body=_with(around.body, here, new)),)
        here = around
    return replace(kernel, body=_with(kernel.body, here, new))


def _with(block: Block, old: Stmt, new: tuple[Stmt, ...]) -> Block:
    """The block with others in the place of a statement of its own, or of a block in it."""
    for i, s in enumerate(block.stmts):
        if s is old:
            return Block((*block.stmts[:i], *new, *block.stmts[i + 1 :]))
    for i, s in enumerate(block.stmts):
        if isinstance(s, Block) and (found := _with(s, old, new)) is not s:
            return Block((*block.stmts[:i], found, *block.stmts[i + 1 :]))
    return block


def without_buffer(body: Block, buffer: str) -> Block:
    """No declaration and no statement that writes the buffer, and no loop or condition around nothing."""

    def gone(s: Stmt) -> tuple[Stmt, ...] | None:
        match s:
            case Store() | Reduce() if s.buffer == buffer:
                return ()
            case Alloc() if s.buffer.name == buffer:
                return ()
            case For() if not s.body.stmts:
                return ()
            case If() if not s.body.stmts and not s.orelse.stmts:
                return ()
            case _:
                return None

    return rewrite_naming(body, buffer, gone)


def loops_gone(before: Kernel, after: Kernel) -> tuple[str, ...]:
    """The loops of the one that the other does not have."""
    left = loops_in(after.body)
    return tuple(name for name in sites(before) if name not in left)


@by_object
def loops_in(s: Stmt) -> frozenset[str]:
    """Names of the loops in a statement, itself among them."""
    own = {s.var} if isinstance(s, For) else set()
    return frozenset(own.union(*map(loops_in, inside(s))))


@dataclass(frozen=True)
class _Seen:
    """A body's statements in textual order, its loops and its own buffers by name."""

    body: Block
    sites: tuple[Site, ...]
    loops: Mapping[str, Site]
    buffers: Mapping[str, Buffer]


_SEEN: list[_Seen] = []


def _seen(kernel: Kernel) -> _Seen:
    """Remembered for the last few kernels, which are asked many times."""
    for known in _SEEN:
        if known.body is kernel.body:
            return known
    found = tuple(walk(kernel.body))
    loops = {s.stmt.var: s for s in found if isinstance(s.stmt, For)}
    buffers = {s.stmt.buffer.name: s.stmt.buffer for s in found if isinstance(s.stmt, Alloc)}
    _SEEN.append(_Seen(kernel.body, found, loops, buffers))
    del _SEEN[:-8]
    return _SEEN[-1]


def all_sites(kernel: Kernel) -> tuple[Site, ...]:
    """Every statement in textual order."""
    return _seen(kernel).sites


def sites(kernel: Kernel) -> Mapping[str, Site]:
    """Loops by name, in textual order."""
    return _seen(kernel).loops


def buffers_of(kernel: Kernel) -> Mapping[str, Buffer]:
    """All buffers by name: the arrays, then those that the kernel declares."""
    return {**{b.name: b for b in kernel.buffers}, **_seen(kernel).buffers}


def loop_at(kernel: Kernel, name: str) -> tuple[For, Site]:
    """The loop of that name and where it is. Raises KeyError."""
    site = next((known.loops[name] for known in _SEEN if known.body is kernel.body), None)
    if site is None:
        site = _find(kernel.body, name, (), ())
    assert isinstance(site.stmt, For)
    return site.stmt, site


def _find(block: Block, name: str, path: tuple[For | If, ...], in_else: tuple[bool, ...]) -> Site:
    """Without a look at anything but what is around the loop. Raises KeyError."""
    for s in block.stmts:
        if not isinstance(s, Block | For | If) or name not in loops_in(s):
            continue
        if isinstance(s, Block):
            return _find(s, name, path, in_else)
        if isinstance(s, For):
            return Site(s, path, in_else) if s.var == name else _find(s.body, name, (*path, s), in_else)
        second = name not in loops_in(s.body)
        return _find(s.orelse if second else s.body, name, (*path, s), (*in_else, second))
    raise KeyError(name)


def extent_at(kernel: Kernel, name: str) -> Expr:
    """The loop's extent under what is known where it stands."""
    loop, site = loop_at(kernel, name)
    return simplify(loop.extent, ranges_at(kernel, site.path))


def constant_extent(kernel: Kernel, name: str) -> int | None:
    """The loop's extent if it is constant."""
    extent = extent_at(kernel, name)
    return int(extent.value) if isinstance(extent, Const) else None


@by_object
def touched(s: Stmt) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the buffers that are read, and that are written, in a statement."""
    own = effects(s).accesses
    reads = {a.buffer for a in own if a.mode is not Mode.WRITE}
    writes = {a.buffer for a in own if a.mode is not Mode.READ}
    for read, written in map(touched, inside(s)):
        reads |= read
        writes |= written
    return frozenset(reads), frozenset(writes)


def is_request(s: Stmt) -> bool:
    """Whether it only asks L2 for an element of an array (`prefetch`)."""
    return isinstance(s, Store) and s.prefetch


def conflict(a: Block, b: Block) -> str | None:
    """A buffer that keeps two blocks from being exchanged; None if there is none."""
    reads_a, writes_a = touched(a)
    reads_b, writes_b = touched(b)
    shared = (writes_a & (reads_b | writes_b)) | (reads_a & writes_b)
    return min(shared) if shared else None


@by_object
def declared_in(s: Stmt) -> frozenset[str]:
    """Buffers allocated anywhere in a statement."""
    own = {s.buffer.name} if isinstance(s, Alloc) else set()
    return frozenset(own.union(*map(declared_in, inside(s))))


def renamed(block: Block, suffix: str, taken: set[str]) -> Block:
    """A copy whose loops and buffers are called `<name>.<suffix>`; these names are added to `taken`."""
    loops: dict[str, str] = {}
    buffers: dict[str, str] = {}
    for site in walk(block):
        x = site.stmt
        if isinstance(x, For | Alloc):
            old, of = (x.var, loops) if isinstance(x, For) else (x.buffer.name, buffers)
            of[old] = fresh(f"{old}.{suffix}", taken)
            taken.add(of[old])

    def in_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in buffers:
            return replace(e, buffer=buffers[e.buffer])
        return var(loops[e.name]) if isinstance(e, Var) and e.name in loops else e

    def in_stmt(s: Stmt) -> Stmt | None:
        if isinstance(s, For):
            return replace(s, var=loops[s.var])
        if isinstance(s, Alloc):
            return Alloc(replace(s.buffer, name=buffers[s.buffer.name]))
        if isinstance(s, Store | Reduce) and s.buffer in buffers:
            return replace(s, buffer=buffers[s.buffer])
        return None

    return rewrite(map_block_exprs(block, lambda e: map_expr(e, in_expr)), in_stmt)


def carried_write(loop: For) -> Store | Reduce | None:
    """A store or reduction into one cell for all iterations of `loop`, the cell living outside it.

    Atomic ones are of no concern: any threads may make them.
    """
    local = declared_in(loop.body)
    for leaf, _ in leaves(loop.body):
        if leaf.buffer in local or (isinstance(leaf, Reduce) and leaf.atomic):
            continue
        # Subscripts that use a loop below are not of concern: they reach the cell anew each iteration.
        if loop.var not in frozenset().union(*(variables(i) for i in leaf.indices), frozenset()):
            return leaf
    return None


def tidy(kernel: Kernel) -> Kernel:
    """Subscripts, extents and conditions simplified; decided conditions and unused registers removed.

    What is tidy stays the same object, by which more than one cache remembers.
    """
    body = _tidy_block(kernel, kernel.body, (), frozenset())
    used = frozenset[str]().union(*touched(body))

    def unused(s: Stmt) -> tuple[Stmt, ...] | None:
        idle = isinstance(s, Alloc) and s.buffer.space is Space.REGISTER and s.buffer.name not in used
        return () if idle else None

    return replace(kernel, body=rewrite(body, unused))


_TIDIED: dict[tuple[int, int, frozenset[Expr]], tuple[Stmt, Ranges, tuple[Stmt, ...]]] = {}
_MOST_TIDIED = 16384
"""By statement and ranges, which are kept so that their numbers stay their own, and what holds around it:
after a statement of a program most of the kernel is what it was."""


def _tidy_block(kernel: Kernel, block: Block, path: tuple[For, ...], known: frozenset[Expr]) -> Block:
    ranges = ranges_at(kernel, path)
    out: list[Stmt] = []
    for s in block.stmts:
        key = (id(s), id(ranges), known)
        found = _TIDIED.get(key)
        if found is None:
            if len(_TIDIED) >= _MOST_TIDIED:
                _TIDIED.clear()
            found = _TIDIED[key] = (s, ranges, _tidy(kernel, s, path, known, ranges))
        out.extend(found[2])
    same = len(out) == len(block.stmts) and all(map(is_, out, block.stmts))
    return block if same else Block(tuple(out))


def _tidy(
    kernel: Kernel, s: Stmt, path: tuple[For, ...], known: frozenset[Expr], ranges: Ranges
) -> tuple[Stmt, ...]:
    match s:
        case Block():
            return (_tidy_block(kernel, s, path, known),)
        case For():
            extent = _kept(s.extent, simplify(s.extent, ranges))
            loop = s if extent is s.extent else replace(s, extent=extent)
            body = _tidy_block(kernel, s.body, (*path, loop), known)
            return (loop if body is s.body else replace(loop, body=body),)
        case If():
            terms = tuple(t for t in conjuncts((simplify(s.cond, ranges),)) if t not in known)
            cond = _kept(s.cond, conjunction(terms))
            if cond == TRUE:
                return _tidy_block(kernel, s.body, path, known).stmts
            if isinstance(cond, Const):
                return _tidy_block(kernel, s.orelse, path, known).stmts
            pure = frozenset(t for t in terms if not reads_memory(t))
            body = _tidy_block(kernel, s.body, path, known | pure)
            orelse = _tidy_block(kernel, s.orelse, path, known)
            same = cond is s.cond and body is s.body and orelse is s.orelse
            return (s if same else replace(s, cond=cond, body=body, orelse=orelse),)
        case Alloc() | Store() | Reduce():
            return (map_stmt_exprs(s, lambda e: _kept(e, tidy_value(e, ranges))),)
        case _:
            return (s,)


def _kept(before: Expr, after: Expr) -> Expr:
    """The one before where both are equal."""
    return before if after is before or after == before else after


def reads_memory(e: Expr) -> bool:
    """Whether an expression loads anything, or searches for it."""
    return bool(loads(e)) or reads(e)


def tidy_value(e: Expr, ranges: Ranges) -> Expr:
    """The subscripts in an expression simplified; arithmetic on data is left as it is."""
    if e.dtype is DType.INDEX:
        return simplify(e, ranges)

    def in_load(x: Expr) -> Expr:
        if not isinstance(x, Load):
            return x
        indices = tuple([_kept(i, simplify(i, ranges)) for i in x.indices])
        return x if all(map(is_, indices, x.indices)) else replace(x, indices=indices)

    return map_expr(e, in_load)


def guard(terms: Iterable[Expr], body: Block, ranges: Ranges) -> Block:
    """`body` under those of `terms` that ranges do not decide."""
    cond = conjunction(tuple(simplify(t, ranges) for t in terms))
    return body if cond == TRUE else Block((If(cond, body),))


def less(a: Expr, b: Expr) -> Expr:
    """a < b over INDEX."""
    return Binary(BinaryOp.LT, a, b, DType.BOOL)
