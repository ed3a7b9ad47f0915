"""Resources that a statement and all inside it take, of a block and of the grid; the buffers that it names.

Remembered by object: a kernel shares most statements with what it was made from, and what a few hundred next
moves leave is asked about one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from evolve.ir.effects import effects
from evolve.ir.expr import Const, Expr
from evolve.ir.memo import by_object
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Leaf, Stmt
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import inside, loads

Loop = tuple[str, LoopKind, Expr]
"""Its name, kind and extent."""


class Taken(NamedTuple):
    """Loops of threads, of the grid and that combine; buffers: each in textual order."""

    threads: tuple[Loop, ...] = ()
    grid: tuple[Loop, ...] = ()
    combines: tuple[Loop, ...] = ()
    shared: tuple[Buffer, ...] = ()
    registers: tuple[Buffer, ...] = ()


_NOTHING = Taken()


def taken(s: Stmt) -> Taken:
    """What a statement takes."""
    if isinstance(s, Alloc):
        return _declared(s.buffer)
    return _taken_inside(s) if isinstance(s, Block | For | If) else _NOTHING


def taken_by(stmts: Iterable[Stmt]) -> Taken:
    """What statements take, one after the other."""
    return _joined([x for x in map(taken, stmts) if x is not _NOTHING])


@by_object
def named(s: Stmt) -> frozenset[str]:
    """The buffers that a statement touches or declares, or that its origin has in it."""
    own = {s.buffer.name} if isinstance(s, Alloc) else {a.buffer for a in effects(s).accesses}
    if isinstance(s, Leaf) and s.origin is not None:
        own.update(x.buffer for e in s.origin.instance for x in loads(e))
    return frozenset(own.union(*map(named, inside(s))))


@by_object
def _taken_inside(s: Stmt) -> Taken:
    own = [_own(s)] if isinstance(s, For) else []
    return _joined([x for x in (*own, *map(taken, inside(s))) if x is not _NOTHING])


def _joined(parts: Sequence[Taken]) -> Taken:
    if len(parts) < 2:
        return parts[0] if parts else _NOTHING
    return Taken(*(tuple(chain.from_iterable(of_kind)) for of_kind in zip(*parts, strict=True)))


def _own(loop: For) -> Taken:
    entry = ((loop.var, loop.kind, loop.extent),)
    if loop.kind.is_thread:
        return Taken(threads=entry)
    if loop.kind.is_grid:
        return Taken(grid=entry)
    return Taken(combines=entry) if loop.kind.is_combine else _NOTHING


def _declared(b: Buffer) -> Taken:
    if b.space is Space.SHARED:
        return Taken(shared=(b,))
    return Taken(registers=(b,)) if b.space is Space.REGISTER else _NOTHING


def bytes_of(b: Buffer) -> int:
    """The size of a buffer with its padding; 0 where an extent is no constant."""
    size = b.dtype.size
    for n, pad in zip(b.extents, b.padding or (0,) * len(b.extents), strict=True):
        size *= (int(n.value) if isinstance(n, Const) else 0) + pad
    return size
