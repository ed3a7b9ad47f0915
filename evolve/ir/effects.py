"""What a statement touches. The only source of access information in the code base."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import assert_never

from evolve.ir.expr import Const, Expr, Find, Var
from evolve.ir.memo import by_object
from evolve.ir.stmt import Alloc, Barrier, Block, Boundary, Commit, For, If, Reduce, Stmt, Store, Wait
from evolve.ir.types import Monoid
from evolve.ir.visit import MOST_REMEMBERED, loads, subexpressions


class Mode(Enum):
    READ = "read"
    WRITE = "write"
    REDUCE = "reduce"
    """A read and a write of the same element through a monoid."""


@dataclass(frozen=True)
class Access:
    """One access of one statement instance. `slot` numbers the reads of a statement in evaluation order."""

    buffer: str
    indices: tuple[Expr, ...]
    mode: Mode
    slot: int
    monoid: Monoid | None = None


@dataclass(frozen=True)
class Effects:
    """Accesses of a statement itself, not of what it contains.

    `everything`: unknown to this module, so it must be taken to read and write all memory.
    """

    accesses: tuple[Access, ...]
    everything: bool = False


_NONE = Effects(())


@by_object
def effects(s: Stmt) -> Effects:
    """The accesses of one statement; for a container, those of its condition or extent only."""
    match s:
        case Block() | Alloc() | Barrier() | Commit() | Wait() | Boundary():
            return _NONE
        case For():
            return _NONE if isinstance(s.extent, Const | Var) else Effects(_reads((s.extent,)))
        case If():
            return Effects(_reads((s.cond,)))
        case Store():
            reads = _reads((*s.indices, s.value))
            return Effects((*reads, Access(s.buffer, s.indices, Mode.WRITE, len(reads))))
        case Reduce():
            reads = _reads((*s.indices, s.value))
            return Effects((*reads, Access(s.buffer, s.indices, Mode.REDUCE, len(reads), s.monoid)))
        case _:
            assert_never(s)


@lru_cache(maxsize=MOST_REMEMBERED)
def _searches(e: Expr) -> tuple[Find, ...]:
    return tuple(x for x in subexpressions(e) if isinstance(x, Find))


def _reads(exprs: tuple[Expr, ...]) -> tuple[Access, ...]:
    found: list[tuple[str, tuple[Expr, ...]]] = [(x.buffer, x.indices) for e in exprs for x in loads(e)]
    # A search reads elements that nobody can name, and the one that it finds.
    found += [(x.buffer, (x,)) for e in exprs for x in _searches(e)]
    return tuple(Access(buffer, indices, Mode.READ, i) for i, (buffer, indices) in enumerate(found))
