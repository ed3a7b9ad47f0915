"""Statements. Loop and buffer names are unique within a kernel; loops run from 0 with step 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from evolve.ir.expr import Expr
from evolve.ir.swizzle import Swizzle
from evolve.ir.types import Cache, DType, LoopKind, Monoid, Priority, Space


@dataclass(frozen=True)
class Span:
    """A place in a source file (1-based line and column)."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Origin:
    """The statement of the lifted kernel that a statement performs, and which instance of it.

    `instance` gives the lifted statement's loop variables, outermost first, as functions of the
    loops now around it. Rewrites substitute in it like in any other expression. It is a claim
    that the prover checks, never a proof.
    """

    stmt: str
    instance: tuple[Expr, ...]


@dataclass(frozen=True)
class Buffer:
    """An array. Row-major over `extents`, each enlarged by `padding` (elements that are never read).

    `swizzle` says how the columns of a SHARED buffer, its last dimension, lie in each row, of the one before.
    A REGISTER buffer declared above a thread loop is distributed over the threads: see `layout`.
    `align` is the proved or assumed byte alignment of its first element. `cache` and `l2` are for global
    arrays.
    """

    name: str
    dtype: DType
    extents: tuple[Expr, ...]
    space: Space
    padding: tuple[int, ...] = ()
    swizzle: Swizzle | None = None
    align: int = 0
    cache: Cache = Cache.DEFAULT
    l2: Priority = Priority.NORMAL
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Block:
    stmts: tuple[Stmt, ...]


@dataclass(frozen=True)
class For:
    """`for var in 0 .. extent-1`. `note` says, for the reader of the code, which transform made it."""

    var: str
    extent: Expr
    kind: LoopKind
    body: Block
    note: str = field(default="", compare=False)
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class If:
    cond: Expr
    body: Block
    orelse: Block = Block(())
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Alloc:
    """Declares a buffer for the rest of the enclosing block, contents undefined.

    A shared or register buffer ends with the launch; a global one, declared by the kernel's body itself, is
    scratch memory that all launches share.
    """

    buffer: Buffer


@dataclass(frozen=True)
class Store:
    """`buffer[indices] = value`.

    `asynchronous`: a copy from global into shared memory that is only started here. It has happened for the
    thread that started it when a `Wait` says so, and for others after a barrier that follows.
    `prefetch`: a copy from global memory into a register that nobody reads, of which nothing remains but that
    L2 is asked for the line. So it is proved like any copy, its place in bounds above all.
    """

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr
    origin: Origin | None = None
    asynchronous: bool = False
    prefetch: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Reduce:
    """`buffer[indices] = monoid(buffer[indices], value)`; their order is not part of the meaning.

    `atomic`: one indivisible update, so that any threads may make such updates of one cell at the same time.
    `aggregated`: an atomic one before which lanes of a warp that go to one cell combine what they have.
    """

    buffer: str
    indices: tuple[Expr, ...]
    monoid: Monoid
    value: Expr
    origin: Origin | None = None
    atomic: bool = False
    aggregated: bool = False
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Barrier:
    """All threads of the block meet here. Derived by `legality.barriers` just before proof and rendering."""


@dataclass(frozen=True)
class Commit:
    """The asynchronous copies that a thread started since its last commit become a group, maybe empty."""


@dataclass(frozen=True)
class Wait:
    """Each thread waits until at most the `pending` latest of its groups are under way."""

    pending: int


@dataclass(frozen=True)
class Boundary:
    """One launch ends here and the next begins: all that stands before has happened. See `ir.launches`."""


Stmt: TypeAlias = Block | For | If | Alloc | Store | Reduce | Barrier | Commit | Wait | Boundary
Leaf: TypeAlias = Store | Reduce
