"""What a statement and all inside it take: of a block, of the grid, and which threads touch which buffer.

Remembered by object, which is kept so that its number stays its own: a kernel shares most statements with
what it was made from, and what a few hundred next moves leave is asked about one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import NamedTuple, TypeVar

from evolve.ir.effects import Mode, effects
from evolve.ir.expr import Expr
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Stmt
from evolve.ir.types import LoopKind, Space

T = TypeVar("T")
Loop = tuple[str, LoopKind, Expr]
"""Its name, kind and extent."""
Axes = frozenset[LoopKind]
_MOST_KNOWN = 16384


class Taken(NamedTuple):
    """Loops of threads, of the grid and that combine; buffers: each in textual order."""

    threads: tuple[Loop, ...] = ()
    grid: tuple[Loop, ...] = ()
    combines: tuple[Loop, ...] = ()
    shared: tuple[Buffer, ...] = ()
    registers: tuple[Buffer, ...] = ()


class Touched(NamedTuple):
    """Axes of threads around the accesses of one buffer, inside of where it is asked.

    together    around all that read it; None: nothing does
    shared_out  around some that writes it; None: nothing does
    """

    together: Axes | None
    shared_out: Axes | None


def taken(s: Stmt) -> Taken:
    """What a statement takes."""
    if isinstance(s, Alloc):
        return _declared(s.buffer)
    return _remembered(_TAKEN, s, _taken_inside) if isinstance(s, Block | For | If) else _NOTHING


def touched(s: Stmt) -> Mapping[str, Touched]:
    """The buffers that a statement touches, and how."""
    return _remembered(_TOUCHED, s, _touched)


_NOTHING = Taken()
_TAKEN: dict[int, tuple[Stmt, Taken]] = {}
_TOUCHED: dict[int, tuple[Stmt, Mapping[str, Touched]]] = {}


def _remembered(memo: dict[int, tuple[Stmt, T]], s: Stmt, ask: Callable[[Stmt], T]) -> T:
    known = memo.get(id(s))
    if known is None:
        if len(memo) >= _MOST_KNOWN:
            memo.clear()
        known = memo[id(s)] = (s, ask(s))
    return known[1]


def _inside(s: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside."""
    match s:
        case Block():
            return s.stmts
        case For():
            return s.body.stmts
        case If():
            return (*s.body.stmts, *s.orelse.stmts)
        case _:
            return ()


def _taken_inside(s: Stmt) -> Taken:
    own = (_own(s),) if isinstance(s, For) else ()
    parts = [x for x in (*own, *map(taken, _inside(s))) if x is not _NOTHING]
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


def _touched(s: Stmt) -> Mapping[str, Touched]:
    out: dict[str, Touched] = {}
    for part in map(touched, _inside(s)):
        for name, found in part.items():
            _put(out, name, found)
    if isinstance(s, For) and s.kind.is_thread:
        out = {name: _along(found, frozenset((s.kind,))) for name, found in out.items()}
    for access in effects(s).accesses:
        reads = access.mode is Mode.READ
        _put(out, access.buffer, Touched(frozenset(), None) if reads else Touched(None, frozenset()))
    return out


def _put(out: dict[str, Touched], name: str, found: Touched) -> None:
    before = out.get(name)
    if before is None:
        out[name] = found
    elif before != found:
        out[name] = Touched(
            _both(before.together, found.together, frozenset.intersection),
            _both(before.shared_out, found.shared_out, frozenset.union),
        )


def _along(found: Touched, axis: Axes) -> Touched:
    return Touched(*(None if axes is None else axes | axis for axes in found))


def _both(a: Axes | None, b: Axes | None, join: Callable[[Axes, Axes], Axes]) -> Axes | None:
    if a is None or b is None:
        return b if a is None else a
    return join(a, b)
