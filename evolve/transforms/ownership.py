"""Who owns the elements of a register buffer: each thread its own, or threads of some axes parts of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from evolve.ir.effects import Access, Mode
from evolve.ir.expr import Const
from evolve.ir.kernel import Kernel
from evolve.ir.layout import LayoutError, register_layout, slot_of
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Buffer, For, If
from evolve.ir.types import LoopKind
from evolve.ir.visit import Site

Axes = frozenset[LoopKind]


@dataclass(frozen=True)
class Registers:
    """A register buffer: the axes of threads that hold parts of it, and the 32-bit words that one holds.

    Scalars are not counted."""

    axes: Axes
    words: int
    is_distributed: bool


@dataclass
class Use:
    """Where a register buffer is declared, and its accesses in textual order."""

    declared: Site | None = None
    accesses: list[tuple[Site, Access]] = field(default_factory=list)

    def held(self, kernel: Kernel) -> Registers | None:
        """Who holds it; None where it has no layout, or a thread touches what another one holds."""
        assert self.declared is not None and isinstance(self.declared.stmt, Alloc)
        buffer = self.declared.stmt.buffer
        try:
            layout = register_layout(kernel, self.declared, self.fill)
            if layout.is_distributed:
                for site, access in self.accesses:
                    slot_of(layout, access.indices, site.loops, ranges_at(kernel, site.path))
        except LayoutError:
            return None
        if not layout.is_distributed and not self._is_shared_out_alike():
            return None
        digits = (d.axis for dim in layout.dims for d in dim if d.axis is not None)
        axes = axes_around(self.declared.path).union(digits)
        words = prod(layout.slots) * -(-buffer.dtype.size // 4) if buffer.extents else 0
        return Registers(axes, words, layout.is_distributed)

    @property
    def fill(self) -> Site | None:
        """The first statement that writes it."""
        return next((s for s, a in self.accesses if a.mode is not Mode.READ), None)

    def _is_shared_out_alike(self) -> bool:
        """Whether the axes around some write of a thread's own buffer are around all that reads it."""
        reads = [axes_around(s.path) for s, a in self.accesses if a.mode is Mode.READ]
        return not reads or self.shared_out <= frozenset.intersection(*reads)

    @property
    def shared_out(self) -> Axes:
        """The axes around some statement that writes it."""
        writes = (axes_around(s.path) for s, a in self.accesses if a.mode is not Mode.READ)
        return frozenset[LoopKind]().union(*writes)


class Spot(NamedTuple):
    """Where a buffer is touched: the loops around, and the thread axes that some of them may run along."""

    loops: frozenset[str]
    axes: Axes
    reads: bool


def spot_of(site: Site, access: Access) -> Spot:
    """Of one access. Loops that combine and scan are of thread.x."""
    found = axes_around(site.path)
    if any(x.kind.is_combine or x.kind.is_scan for x in site.loops):
        found |= {LoopKind.THREAD_X}
    return Spot(names_of(site), found, access.mode is Mode.READ)


def names_of(site: Site) -> frozenset[str]:
    """The loops around a statement."""
    return frozenset(x.var for x in site.loops)


def axes_around(path: Iterable[For | If]) -> Axes:
    """The thread axes among the loops of a path."""
    return frozenset(x.kind for x in path if isinstance(x, For) and x.kind.is_thread)


def own_registers(b: Buffer, around: Axes) -> Registers:
    """Of a copy that each thread has of its own, declared inside loops of these axes."""
    words = prod(int(n.value) for n in b.extents if isinstance(n, Const)) * -(-b.dtype.size // 4)
    return Registers(around, words if b.extents else 0, is_distributed=False)
