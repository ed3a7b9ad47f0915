"""What the expert needs to know of a lifted kernel: its loops, what they do, how arrays are walked."""

from __future__ import annotations

from dataclasses import dataclass

from evolve.ir.affine import simplify
from evolve.ir.effects import Mode, effects
from evolve.ir.expr import Const, Expr, Var, index
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import For, Reduce, Store
from evolve.ir.types import LoopKind
from evolve.ir.visit import Site, leaves, substitute, variables, walk


@dataclass(frozen=True)
class Walk:
    """One access to a global array: its subscripts, and the loops around it, outermost first."""

    buffer: str
    indices: tuple[Expr, ...]
    mode: Mode
    loops: tuple[str, ...]

    @property
    def contiguous_in(self) -> frozenset[str]:
        """Variables in the last subscript."""
        return variables(self.indices[-1]) if self.indices else frozenset()


@dataclass(frozen=True)
class Inner:
    """A sequential loop. `does`: reduce (only reductions into registers), map (only stores), or mixed."""

    name: str
    extent: Expr
    does: str
    depth: int


@dataclass(frozen=True)
class Shape:
    """A kernel as nests under its parallel loops. `trips` are the loops' trip counts at the timed sizes."""

    parallel: tuple[str, ...]
    inner: tuple[Inner, ...]
    walks: tuple[Walk, ...]
    extents: dict[str, Expr]
    trips: dict[str, int]
    written: frozenset[str]

    def reads_of(self, buffer: str) -> tuple[Walk, ...]:
        return tuple(w for w in self.walks if w.buffer == buffer and w.mode is Mode.READ)


def describe(kernel: Kernel, sizes: dict[str, int]) -> Shape:
    """The shape of a lifted kernel at the given sizes."""
    globals_ = {b.name for b in kernel.buffers}
    parallel: list[str] = []
    inner: list[Inner] = []
    walks: list[Walk] = []
    extents: dict[str, Expr] = {}
    written: set[str] = set()
    for site in walk(kernel.body):
        if isinstance(site.stmt, For):
            loop = site.stmt
            extents[loop.var] = loop.extent
            if loop.kind is LoopKind.PARALLEL:
                parallel.append(loop.var)
            else:
                depth = sum(1 for p in site.loops if p.kind is not LoopKind.PARALLEL)
                inner.append(Inner(loop.var, loop.extent, _does(site), depth))
        for access in effects(site.stmt).accesses:
            if access.buffer in globals_:
                walks.append(
                    Walk(access.buffer, access.indices, access.mode, tuple(x.var for x in site.loops))
                )
                if access.mode is not Mode.READ:
                    written.add(access.buffer)
    trips = {name: evaluate(extent, sizes) for name, extent in extents.items()}
    return Shape(tuple(parallel), tuple(inner), tuple(walks), extents, trips, frozenset(written))


def size_of(extent: Expr) -> str | None:
    """The scalar that an extent is, if it is one."""
    return extent.name if isinstance(extent, Var) else None


def _does(site: Site) -> str:
    assert isinstance(site.stmt, For)
    kinds = {type(leaf) for leaf, _ in leaves(site.stmt.body)}
    if kinds == {Reduce}:
        return "reduce"
    return "map" if kinds == {Store} else "mixed"


def evaluate(e: Expr, sizes: dict[str, int]) -> int:
    """The value of a size expression. Raises ValueError when it depends on more than the sizes."""
    value = simplify(substitute(e, {n: index(v) for n, v in sizes.items()}))
    if not isinstance(value, Const):
        raise ValueError(f"not a function of the sizes: {e}")
    return int(value.value)


def divisors_among(n: int, choices: tuple[int, ...]) -> list[int]:
    """The choices that divide n, in the given order."""
    return [c for c in choices if n % c == 0 and c <= n]
