"""Whether a block as it stands could run: threads, shared memory, a grid, registers with an owner each.

Cheap questions of the IR alone, no proof. They are asked of the results of next moves, so that few of them
are refused later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from evolve.ir.effects import Access, Mode, effects
from evolve.ir.expr import Const, Expr
from evolve.ir.kernel import Kernel
from evolve.ir.launches import launches
from evolve.ir.layout import Layout, LayoutError, register_layouts, slot_of
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Buffer, For
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import Site, variables
from evolve.target.limits import GRID_MOST, REGISTERS_MOST, WARP, shared_bytes
from evolve.transforms.edit import all_sites
from evolve.transforms.view import MoveLimits, block_threads, constant_of, iterations, thread_extents


@dataclass
class Fit:
    """What a kernel fits, which its next statements must not undo.

    A kernel that does not meet a condition yet, in the middle of a program, is not held to it.
    """

    kernel: Kernel
    limits: MoveLimits
    _owned: dict[object, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._taken = taken_by(self.kernel)
        self._kept = {n: holds for n, holds in self._conditions.items() if _in_each(self.kernel, holds)}

    @property
    def _conditions(self) -> Mapping[str, Callable[[Kernel], bool]]:
        return {
            "threads": self._threads,
            "lanes": self._lanes,
            "shared": self._shared,
            "grid": self._grid,
            "combines": self._combines,
            "registers": self._registers,
        }

    def keeps(self, result: Kernel) -> bool:
        """Whether a kernel made of this one still meets the conditions that this one meets."""
        taken = taken_by(result)
        return all(taken[n] == self._taken[n] or _in_each(result, holds) for n, holds in self._kept.items())

    def _threads(self, kernel: Kernel) -> bool:
        """A block has as many threads as are bound, and as launch bounds allow."""
        return block_threads(kernel) <= min(self.limits.threads, kernel.max_threads or self.limits.threads)

    def _lanes(self, kernel: Kernel) -> bool:
        """Where thread.x and thread.y are lanes they make one warp."""
        extents = thread_extents(kernel)
        lanes = extents.get(LoopKind.THREAD_X, 1) * extents.get(LoopKind.THREAD_Y, 1)
        return not kernel.lanes or lanes == WARP

    def _shared(self, kernel: Kernel) -> bool:
        """A block has the shared memory that is declared."""
        declared = (s.stmt.buffer for s in all_sites(kernel) if isinstance(s.stmt, Alloc))
        arrays = (_bytes(b) for b in declared if b.space is Space.SHARED)
        return shared_bytes(arrays) <= self.limits.shared_bytes

    def _grid(self, kernel: Kernel) -> bool:
        """The axes of the grid have as many blocks as are bound, at the sizes that are run."""
        for site in all_sites(kernel):
            loop = site.stmt
            if isinstance(loop, For) and loop.kind.is_grid:
                blocks = constant_of(kernel, site) or iterations(kernel, site, self.limits)
                if blocks is not None and blocks > GRID_MOST[loop.kind]:
                    return False
        return True

    def _combines(self, kernel: Kernel) -> bool:
        """The threads that combine partials are those of thread.x, in no loop of it and behind no condition
        that depends on a thread."""
        combines = [s for s in all_sites(kernel) if isinstance(s.stmt, For) and s.stmt.kind.is_combine]
        most = thread_extents(kernel).get(LoopKind.THREAD_X, 1) if combines else 1
        for site in combines:
            assert isinstance(site.stmt, For)
            width = constant_of(kernel, site) or 0
            if width > most or (site.stmt.kind is LoopKind.COMBINE_WARP and width != most):
                return False
            threads = frozenset(x.var for x in site.loops if x.kind.is_thread)
            if any(x.kind is LoopKind.THREAD_X for x in site.loops):
                return False
            if any(variables(s.cond) & threads for s in site.path if not isinstance(s, For)):
                return False
        return True

    def _registers(self, kernel: Kernel) -> bool:
        """Each element of a register buffer is in one thread, which alone touches it, and all would fit if
        the threads that do not share them yet did.

        A buffer above the thread loops is distributed over them (`evolve.ir.layout`).
        """
        declared = [s for s in all_sites(kernel) if _is_register(s)]
        if not declared:
            return True
        try:
            layouts = register_layouts(kernel)
        except LayoutError:
            return False
        return self._taken_registers(kernel, declared, layouts) <= REGISTERS_MOST and self._owners(
            kernel, layouts
        )

    def _taken_registers(self, kernel: Kernel, declared: list[Site], layouts: dict[str, Layout]) -> float:
        """Of a thread, if each buffer were shared out over all threads that do not hold parts of it yet."""
        extents = thread_extents(kernel)
        total = 0.0
        for site in declared:
            assert isinstance(site.stmt, Alloc)
            b = site.stmt.buffer
            axes = {x.kind for x in site.loops if x.kind.is_thread}
            axes |= {d.axis for dim in layouts[b.name].dims for d in dim if d.axis is not None}
            room = max(1, self.limits.threads // prod(extents.get(a, 1) for a in axes))
            total += prod(layouts[b.name].slots) * -(-b.dtype.size // 4) / room
        return total

    def _owners(self, kernel: Kernel, layouts: dict[str, Layout]) -> bool:
        """Whether every access to a distributed buffer is its owner's, and what an axis shares out when a
        thread's own buffer is written it shares out when it is read."""
        shared_out: dict[str, set[LoopKind]] = {}
        together: dict[str, set[LoopKind]] = {}
        along: dict[int, set[LoopKind]] = {}
        for site, access in _accesses(kernel):
            layout = layouts.get(access.buffer)
            if layout is None:
                continue
            if layout.is_distributed:
                if not self._is_owners(kernel, layout, access.indices, site):
                    return False
                continue
            axes = along.get(id(site.path))
            if axes is None:
                axes = along[id(site.path)] = {x.kind for x in site.loops if x.kind.is_thread}
            if access.mode is Mode.READ:
                together[access.buffer] = together.get(access.buffer, axes) & axes
            else:
                shared_out.setdefault(access.buffer, set()).update(axes)
        return all(axes <= together.get(name, axes) for name, axes in shared_out.items())

    def _is_owners(self, kernel: Kernel, layout: Layout, indices: tuple[Expr, ...], site: Site) -> bool:
        loops = tuple((x.var, x.kind) for x in site.loops)
        key = (layout, indices, loops, kernel.assumptions)
        if key not in self._owned:
            try:
                slot_of(layout, indices, site.loops, ranges_at(kernel, site.path))
                self._owned[key] = True
            except LayoutError:
                self._owned[key] = False
        return self._owned[key]


def _in_each(kernel: Kernel, holds: Callable[[Kernel], bool]) -> bool:
    """Whether a condition is met by each launch of a kernel."""
    return all(map(holds, launches(kernel)))


def taken_by(kernel: Kernel) -> Mapping[str, list[object]]:
    """What each condition looks at, but subscripts: where it is equal the condition is not asked again."""
    threads: list[object] = []
    grid: list[object] = []
    combines: list[object] = []
    buffers: dict[Space, list[object]] = {space: [] for space in Space}
    for site in all_sites(kernel):
        s = site.stmt
        if isinstance(s, Alloc):
            buffers[s.buffer.space].append(s.buffer)
        elif isinstance(s, For):
            of_kind = threads if s.kind.is_thread else grid if s.kind.is_grid else combines
            if of_kind is not combines or s.kind.is_combine:
                of_kind.append((s.var, s.kind, s.extent))
    return {
        "threads": [kernel.max_threads, *threads],
        "lanes": [kernel.lanes, *threads],
        "shared": buffers[Space.SHARED],
        "grid": grid,
        "combines": [*combines, *threads],
        "registers": [*buffers[Space.REGISTER], *threads],
    }


def _bytes(b: Buffer) -> int:
    size = b.dtype.size
    for n, pad in zip(b.extents, b.padding or (0,) * len(b.extents), strict=True):
        size *= (int(n.value) if isinstance(n, Const) else 0) + pad
    return size


def _is_register(site: Site) -> bool:
    s = site.stmt
    return isinstance(s, Alloc) and s.buffer.space is Space.REGISTER and bool(s.buffer.extents)


def _accesses(kernel: Kernel) -> Iterator[tuple[Site, Access]]:
    for site in all_sites(kernel):
        for access in effects(site.stmt).accesses:
            yield site, access
