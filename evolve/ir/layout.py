"""Where an element of a local buffer is: which thread holds it in which slot, or its place in shared memory.

Both are digits of its subscripts. In shared memory nobody owns a digit: each subscript is one, and the last
may be swizzled by the one before.

A register buffer declared above thread loops is distributed. Its layout is read off the first statement that
fills it: each subscript must be a mixed-radix number whose digits are loop variables; digits of thread loops
choose the owner, the others the slot. Every other access must come from the owner; then its slot follows from
the same radix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from evolve.ir.affine import NOTHING, Ranges, linear, simplify
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Const, Expr, Var, floordiv, mod
from evolve.ir.kernel import Kernel
from evolve.ir.owners import wrong_thread
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Buffer, For, Leaf
from evolve.ir.swizzle import Swizzle
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import Site, walk


@dataclass(frozen=True)
class Digit:
    """Subscript digit (index // stride) mod extent. `axis` is the owner's thread axis, None for a slot."""

    stride: int
    extent: int
    axis: LoopKind | None


@dataclass(frozen=True)
class Layout:
    """Digits of each dimension, most significant first. `swizzle`: of the last slot, by the one before."""

    buffer: str
    dims: tuple[tuple[Digit, ...], ...]
    swizzle: Swizzle | None = None

    @property
    def slots(self) -> tuple[int, ...]:
        """Extents of the array each thread holds; empty for a scalar."""
        return tuple(d.extent for dim in self.dims for d in dim if d.axis is None)

    @property
    def is_distributed(self) -> bool:
        return any(d.axis is not None for dim in self.dims for d in dim)


class LayoutError(Exception):
    """E-OWNER or E-LAYOUT with the buffer, the loop to blame, what would help and an example."""

    def __init__(
        self, code: str, buffer: str, message: str, loop: str | None = None, witness: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.buffer = buffer
        self.message = message
        self.loop = loop
        self.witness = witness


def register_layouts(kernel: Kernel) -> dict[str, Layout]:
    """The layout of every register buffer of the kernel.

    Raises LayoutError when a window has no constant extents, or when the statement that fills a
    distributed buffer does not give each element exactly one owner.
    """
    sites = list(walk(kernel.body))
    fills: dict[str, Site] = {}
    for site in sites:
        if isinstance(site.stmt, Leaf):
            fills.setdefault(site.stmt.buffer, site)
    return {
        site.stmt.buffer.name: register_layout(kernel, site, fills.get(site.stmt.buffer.name))
        for site in sites
        if isinstance(site.stmt, Alloc) and site.stmt.buffer.space is Space.REGISTER
    }


def register_layout(kernel: Kernel, declared: Site, fill: Site | None) -> Layout:
    """The layout of one register buffer: where it is declared, and the first statement that fills it.

    Raises LayoutError as `register_layouts` does.
    """
    assert isinstance(declared.stmt, Alloc)
    below = () if fill is None else fill.loops[len(declared.loops) :]
    if fill is not None and any(map(_axis, below)):
        return _from_fill(kernel, declared.stmt.buffer, fill, below)
    return _private(kernel, declared.stmt.buffer, declared)


def shared_layout(buffer: Buffer, ranges: Ranges = NOTHING) -> Layout:
    """The layout of a shared buffer. Raises LayoutError E-WINDOW when its extents are not constant."""
    extents = (_constant(buffer, simplify(n, ranges)) for n in buffer.extents)
    return Layout(buffer.name, tuple((Digit(1, n, None),) for n in extents), buffer.swizzle)


def _axis(loop: For) -> LoopKind | None:
    """The thread axis that a loop runs along; iteration t of a scan fills what thread t holds."""
    if loop.kind.is_scan:
        return LoopKind.THREAD_X
    return loop.kind if loop.kind.is_thread else None


def _private(kernel: Kernel, buffer: Buffer, site: Site) -> Layout:
    extents = buffer.extents
    if not all(isinstance(n, Const) for n in extents):
        ranges = ranges_at(kernel, site.path)
        extents = tuple(simplify(n, ranges) for n in extents)
    return Layout(buffer.name, tuple((Digit(1, _constant(buffer, n), None),) for n in extents))


def _constant(buffer: Buffer, extent: Expr) -> int:
    if not isinstance(extent, Const):
        raise LayoutError(
            "E-WINDOW",
            buffer.name,
            f"{buffer.space.value} buffer {buffer.name} has an extent that is not constant; "
            "specialize the size first",
        )
    return int(extent.value)


def _from_fill(kernel: Kernel, buffer: Buffer, fill: Site, below: tuple[For, ...]) -> Layout:
    ranges = ranges_at(kernel, fill.path)
    kinds = {loop.var: loop for loop in below}
    leaf = fill.stmt
    assert isinstance(leaf, Leaf)
    used: set[str] = set()
    dims = []
    for extent_expr, subscript in zip(buffer.extents, leaf.indices, strict=True):
        extent = _constant(buffer, simplify(extent_expr, ranges))
        form = linear(subscript, ranges)
        if form.constant != 0:
            raise LayoutError("E-OWNER", buffer.name, f"{buffer.name} is filled with an offset subscript")
        digits = []
        expected = 1
        for atom, c in sorted(form.terms, key=lambda t: t[1]):
            loop = kinds.get(atom.name) if isinstance(atom, Var) else None
            if loop is None:
                raise LayoutError(
                    "E-OWNER",
                    buffer.name,
                    f"a subscript of {buffer.name} is not made of the loops around it",
                )
            n = simplify(loop.extent, ranges)
            if c != expected or not isinstance(n, Const) or loop.var in used:
                raise LayoutError(
                    "E-OWNER",
                    buffer.name,
                    f"loop {loop.var} does not index {buffer.name} as a digit: "
                    f"stride {c} where {expected} is needed, or no constant extent",
                    loop.var,
                )
            used.add(loop.var)
            digits.append(Digit(c, int(n.value), _axis(loop)))
            expected = c * int(n.value)
        if expected < extent:
            raise LayoutError(
                "E-OWNER", buffer.name, f"filling {buffer.name} covers {expected} of {extent} elements"
            )
        dims.append(tuple(reversed(digits)))
    missing = [x.var for x in below if _axis(x) and x.var not in used]
    if missing:
        raise LayoutError(
            "E-OWNER",
            buffer.name,
            f"every iteration of thread loop {missing[0]} fills the same elements of {buffer.name}",
            missing[0],
        )
    return Layout(buffer.name, tuple(dims))


def slot_of(
    layout: Layout, indices: tuple[Expr, ...], path: tuple[For, ...], ranges: Ranges
) -> tuple[Expr, ...]:
    """The slot subscripts of an access below `path`.

    Raises LayoutError E-OWNER unless the accessing thread owns the element. Inside a combine loop
    the owner digit along thread.x is the combine loop's own variable.
    """
    axes = {loop.var: loop.kind for loop in path}
    out: list[Expr] = []
    for dim, subscript in zip(layout.dims, indices, strict=True):
        for position, digit in enumerate(dim):
            value: Expr = floordiv(subscript, digit.stride) if digit.stride != 1 else subscript
            if position > 0:
                value = mod(value, digit.extent)
            value = simplify(value, ranges)
            if digit.axis is None:
                out.append(value)
                continue
            kind = axes.get(value.name) if isinstance(value, Var) else None
            lane = kind is not None and kind.is_combine and digit.axis is LoopKind.THREAD_X
            if kind is not digit.axis and not lane:
                raise LayoutError(
                    "E-OWNER",
                    layout.buffer,
                    f"an access to {layout.buffer} is not made by the thread that holds the element: "
                    f"it needs a {digit.axis.value} loop of {digit.extent} with stride {digit.stride}",
                    witness=wrong_thread(layout.buffer, indices, value, digit.axis, path, ranges),
                )
    if layout.swizzle is not None:
        out[-1] = simplify(layout.swizzle.column(out[-2], out[-1]), ranges)
    return tuple(out)


@cache
def misplaced(swizzle: Swizzle, columns: int) -> str | None:
    """What is wrong with the swizzle of a tile of that many columns; None when it is a bijection of each
    row's columns that keeps groups of `width` together.

    Shown by evaluating the address of each column for each key that a row may have: what a row does depends
    on its key alone, and `rows * k` for k below `groups` are rows of all keys. All columns of a row are
    evaluated at once: a staged row has thousands, and whoever lists next moves asks this of each swizzle.
    """
    import numpy as np

    if min(swizzle.width, swizzle.groups, swizzle.rows) < 1:
        return f"{swizzle} has no columns, groups or rows"
    address = swizzle.column(Var("row"), Var("column"))
    every: Any = np.arange(columns, dtype=np.int64)
    for key in range(swizzle.groups):
        found = evaluate(address, {"row": key * swizzle.rows, "column": every})
        at: list[int] = np.broadcast_to(found, (columns,)).tolist()
        outside = next((c for c in range(columns) if not 0 <= at[c] < columns), None)
        if outside is not None:
            return f"column {outside} of row {key * swizzle.rows} would lie at {at[outside]} of {columns}"
        if len(set(at)) < columns:
            return f"two columns of row {key * swizzle.rows} would share a place"
        for first in range(0, columns, swizzle.width):
            together = at[first : first + swizzle.width]
            begin = together[0]
            if begin % swizzle.width or together != list(range(begin, begin + len(together))):
                return f"columns {first} to {first + swizzle.width - 1} would not stay together"
    return None
