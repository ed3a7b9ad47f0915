"""What the expert needs to know of a lifted kernel: its loops, what they do, how arrays are walked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from evolve.ir.affine import linear, simplify
from evolve.ir.effects import Mode, effects
from evolve.ir.expr import Const, Expr, Var, index
from evolve.ir.kernel import Kernel
from evolve.ir.scaled import power_in
from evolve.ir.stmt import Alloc, Block, For, If, Reduce, Stmt, Store
from evolve.ir.types import MAX, SUM, LoopKind
from evolve.ir.visit import leaves, map_block_exprs, substitute, variables, walk
from evolve.workload.implied import trips as runs

SMALL = 16
"""A sequential loop of at most this constant number of iterations is part of a thread's work, not a sweep."""


@dataclass(frozen=True)
class Walk:
    """One access to a global array: its subscripts, and the loops around it, outermost first."""

    buffer: str
    indices: tuple[Expr, ...]
    mode: Mode
    loops: tuple[str, ...]

    @property
    def uses(self) -> frozenset[str]:
        """Variables in any subscript."""
        return frozenset().union(*(variables(i) for i in self.indices), frozenset())

    def stride(self, loop: str) -> int:
        """Elements between neighbouring iterations of `loop` along the last dimension; 0 where that is no
        constant or the loop moves another dimension too."""
        if not self.indices or any(loop in variables(i) for i in self.indices[:-1]):
            return 0
        terms = linear(self.indices[-1]).terms
        if any(loop in variables(atom) and atom != Var(loop) for atom, _ in terms):
            return 0
        return dict(terms).get(Var(loop), 0)

    def dimension(self, loop: str) -> int | None:
        """The one dimension whose subscript is exactly `loop`; None if there is no such one."""
        at = [d for d, i in enumerate(self.indices) if i == Var(loop)]
        return at[0] if len(at) == 1 and sum(loop in variables(i) for i in self.indices) == 1 else None


@dataclass(frozen=True)
class Inner:
    """A sequential loop. `does`: reduce (only reductions), map (only stores into arrays), or mixed.

    parts    the same of each statement inside: what `distribute` would make loops of
    guarded  whether a condition stands inside
    runs     whether it reads a total while it adds to it
    holds    maximum or exponentials, where it has nothing but one maximum, or sums of exp(e - m)
    """

    name: str
    extent: Expr
    does: str
    depth: int
    parts: tuple[str, ...] = ()
    guarded: bool = False
    runs: bool = False
    holds: str = ""


@dataclass(frozen=True)
class Piece:
    """A statement directly inside the parallel loops: the loop that it is, if any; if it writes arrays."""

    loop: str | None
    stores: bool


@dataclass(frozen=True)
class Shape:
    """A kernel as nests under its parallel loops.

    trips    the loops' trip counts at the timed sizes
    ranks    dimensions of each array
    lengths  each array's last extent
    targets  what reductions update, by name
    declares whether variables are declared inside the loops
    sms      multiprocessors of the GPU
    """

    parallel: tuple[str, ...]
    inner: tuple[Inner, ...]
    pieces: tuple[Piece, ...]
    walks: tuple[Walk, ...]
    extents: dict[str, Expr]
    trips: dict[str, int]
    written: frozenset[str]
    ranks: dict[str, int]
    lengths: dict[str, Expr]
    targets: tuple[str, ...]
    declares: bool
    sms: int = 132

    def reads_of(self, buffer: str) -> tuple[Walk, ...]:
        return tuple(w for w in self.walks if w.buffer == buffer and w.mode is Mode.READ)

    @property
    def writes(self) -> tuple[Walk, ...]:
        return tuple(w for w in self.walks if w.mode is not Mode.READ)

    def varies(self, loop: str) -> bool:
        """Whether a loop's trips differ between iterations of the loops around it."""
        return bool(variables(self.extents[loop]) & self.extents.keys())

    @property
    def sweeps(self) -> tuple[Inner, ...]:
        """The outermost sequential loops."""
        return tuple(x for x in self.inner if x.depth == 0)

    @property
    def is_small(self) -> bool:
        """Whether a thread's sequential loops are few iterations of constant number."""
        trips = [self.trips[x.name] for x in self.inner]
        constant = all(isinstance(x.extent, Const) for x in self.inner)
        return constant and all(t <= SMALL for t in trips) and prod(trips) <= SMALL * SMALL

    def fastest(self, loops: tuple[str, ...]) -> str | None:
        """The loop along which most accesses are contiguous, writes counted double; the last of equals."""

        def votes(loop: str) -> int:
            return sum(
                (1 if w.mode is Mode.READ else 2)
                for w in dict.fromkeys(self.walks)
                if abs(w.stride(loop)) == 1
            )

        best = max(reversed(loops), key=votes, default=None)
        return best if best is not None and votes(best) else None


def describe(kernel: Kernel, sizes: dict[str, int], known: frozenset[str] = frozenset()) -> Shape:
    """The shape of a lifted kernel, the sizes in `known` as numbers.

    Raises ValueError on extents that are no function of sizes and loops."""
    by = {n: index(sizes[n]) for n in known}
    if by:
        kernel = replace(kernel, body=map_block_exprs(kernel.body, lambda e: simplify(substitute(e, by))))
    globals_ = {b.name: b for b in kernel.buffers}
    parallel: list[str] = []
    inner: list[Inner] = []
    walks: list[Walk] = []
    extents: dict[str, Expr] = {}
    body = kernel.body
    for site in walk(kernel.body):
        if isinstance(site.stmt, For):
            loop = site.stmt
            extents[loop.var] = loop.extent
            if loop.kind is LoopKind.PARALLEL:
                parallel.append(loop.var)
                body = loop.body
            else:
                depth = sum(1 for p in site.loops if p.kind is not LoopKind.PARALLEL)
                inner.append(_inner(loop, depth, frozenset(globals_)))
        loops = tuple(x.var for x in site.loops)
        for access in effects(site.stmt).accesses:
            if access.buffer in globals_:
                walks.append(Walk(access.buffer, access.indices, access.mode, loops))
    return Shape(
        parallel=tuple(parallel),
        inner=tuple(inner),
        pieces=_pieces(body, frozenset(globals_)),
        walks=tuple(walks),
        extents=extents,
        trips=_trips(extents, sizes),
        written=frozenset(w.buffer for w in walks if w.mode is not Mode.READ),
        ranks={b.name: len(b.extents) for b in kernel.buffers},
        lengths={b.name: b.extents[-1] for b in kernel.buffers if b.extents},
        declares=any(isinstance(site.stmt, Alloc) for site in walk(kernel.body)),
        targets=tuple(sorted({leaf.buffer for leaf, _ in leaves(kernel.body) if isinstance(leaf, Reduce)})),
    )


def few(shape: Shape, sizes: dict[str, int]) -> frozenset[str]:
    """Sizes that count the iterations of loops so short that they are part of a thread's work once these
    sizes are numbers; none where some sequential loop is long."""
    counting = [x for x in shape.inner if not isinstance(x.extent, Const)]
    found = frozenset[str]().union(*(variables(x.extent) for x in counting))
    short = prod(shape.trips[x.name] for x in shape.inner) <= SMALL
    return found if short and found <= sizes.keys() - shape.extents.keys() else frozenset()


def _trips(extents: dict[str, Expr], sizes: dict[str, int]) -> dict[str, int]:
    """Trip counts, outer loops first. A loop whose extent depends on loops around it gets that of their last
    iteration, which is its largest where the extent grows with them; one whose extent is data a usual one."""
    trips: dict[str, int] = {}
    for name, extent in extents.items():
        last = {loop: max(0, n - 1) for loop, n in trips.items()}
        trips[name] = runs(extent, {**last, **sizes})
    return trips


def size_of(extent: Expr) -> str | None:
    """The scalar that an extent is, if it is one."""
    return extent.name if isinstance(extent, Var) else None


def _pieces(body: Block, arrays: frozenset[str]) -> tuple[Piece, ...]:
    while len(body.stmts) == 1 and isinstance(body.stmts[0], If) and not body.stmts[0].orelse.stmts:
        body = body.stmts[0].body
    return tuple(
        Piece(s.var if isinstance(s, For) else None, _stores(s, arrays))
        for s in body.stmts
        if not isinstance(s, Alloc)
    )


def _stores(s: Stmt, arrays: frozenset[str]) -> bool:
    return any(leaf.buffer in arrays for leaf, _ in leaves(Block((s,))))


def _inner(loop: For, depth: int, arrays: frozenset[str]) -> Inner:
    parts = tuple(_does(Block((s,)), arrays) for s in loop.body.stmts if not isinstance(s, Alloc))
    guarded = any(isinstance(site.stmt, If) for site in walk(loop.body))
    accesses = [a for site in walk(loop.body) for a in effects(site.stmt).accesses]
    totals = {a.buffer for a in accesses if a.mode is Mode.REDUCE}
    runs = any(a.mode is Mode.READ and a.buffer in totals for a in accesses)
    does, holds = _does(loop.body, arrays), _holds(loop.body)
    return Inner(loop.var, loop.extent, does, depth, parts, guarded, runs, holds)


def _holds(body: Block) -> str:
    found = [leaf for leaf, _ in leaves(body) if isinstance(leaf, Reduce)]
    if len(found) < len(list(leaves(body))):
        return ""
    if [x.monoid for x in found] == [MAX]:
        return "maximum"
    sums = all(x.monoid == SUM and power_in(x.value) is not None for x in found)
    return "exponentials" if sums else ""


def _does(body: Block, arrays: frozenset[str]) -> str:
    written = [(type(leaf), leaf.buffer in arrays) for leaf, _ in leaves(body)]
    if all(kind is Reduce for kind, _ in written):
        return "reduce"
    return "map" if all(kind is Store and array for kind, array in written) else "mixed"
