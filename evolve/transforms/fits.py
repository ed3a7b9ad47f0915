"""Whether a block as it stands could run: threads, shared memory, a grid, registers with an owner each.

Cheap questions of the IR alone, no proof. They are asked of the results of next moves, so that few of them
are refused later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from math import prod

from evolve.ir.effects import Access, effects
from evolve.ir.expr import Const, Expr
from evolve.ir.kernel import Kernel
from evolve.ir.launches import launches
from evolve.ir.layout import Layout, LayoutError, register_layouts, slot_of
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, Buffer, For, If
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import Site, variables
from evolve.target.limits import GRID_MOST, REGISTERS_MOST, WARP, shared_bytes
from evolve.transforms.edit import all_sites, loop_at
from evolve.transforms.taken import taken, touched
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
        parts = launches(self.kernel)
        self._kept = {n: holds for n, holds in self._conditions.items() if all(map(holds, parts))}

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
        now = taken_by(result)
        asked = [holds for n, holds in self._kept.items() if now[n] != self._taken[n]]
        return not asked or all(holds(part) for part in launches(result) for holds in asked)

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
        return shared_bytes(map(_bytes, taken(kernel.body).shared)) <= self.limits.shared_bytes

    def _grid(self, kernel: Kernel) -> bool:
        """The axes of the grid have as many blocks as are bound, at the sizes that are run."""
        for name, axis, _ in taken(kernel.body).grid:
            _, site = loop_at(kernel, name)
            blocks = constant_of(kernel, site) or iterations(kernel, site, self.limits)
            if blocks is not None and blocks > GRID_MOST[axis]:
                return False
        return True

    def _combines(self, kernel: Kernel) -> bool:
        """The threads that combine partials are those of thread.x, in no loop of it and behind no condition
        that depends on a thread."""
        combines = [loop_at(kernel, name)[1] for name, _, _ in taken(kernel.body).combines]
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
        distributed = {name for name, layout in layouts.items() if layout.is_distributed}
        for name, (together, shared_out) in touched(kernel.body).items():
            if name not in layouts or name in distributed or together is None or shared_out is None:
                continue
            if not shared_out <= together:
                return False
        return not distributed or all(
            self._is_owners(kernel, layouts[access.buffer], access.indices, site)
            for site, access in _accesses(kernel.body, distributed)
        )

    def _is_owners(self, kernel: Kernel, layout: Layout, indices: tuple[Expr, ...], site: Site) -> bool:
        names = frozenset[str]().union(*map(variables, indices))
        loops = tuple((x.var, x.kind) for x in site.loops if x.var in names)
        key = (layout, indices, loops, kernel.assumptions)
        if key not in self._owned:
            try:
                slot_of(layout, indices, site.loops, ranges_at(kernel, site.path))
                self._owned[key] = True
            except LayoutError:
                self._owned[key] = False
        return self._owned[key]


def taken_by(kernel: Kernel) -> Mapping[str, tuple[object, ...]]:
    """What each condition looks at, but subscripts: where it is equal the condition is not asked again."""
    found = taken(kernel.body)
    return {
        "threads": (kernel.max_threads, found.threads),
        "lanes": (kernel.lanes, found.threads),
        "shared": found.shared,
        "grid": found.grid,
        "combines": (found.combines, found.threads),
        "registers": (found.registers, found.threads),
    }


def _bytes(b: Buffer) -> int:
    size = b.dtype.size
    for n, pad in zip(b.extents, b.padding or (0,) * len(b.extents), strict=True):
        size *= (int(n.value) if isinstance(n, Const) else 0) + pad
    return size


def _is_register(site: Site) -> bool:
    s = site.stmt
    return isinstance(s, Alloc) and s.buffer.space is Space.REGISTER and bool(s.buffer.extents)


def _accesses(
    block: Block, names: Set[str], path: tuple[For | If, ...] = ()
) -> Iterator[tuple[Site, Access]]:
    """Accesses of these buffers: what touches none of them is not looked at."""
    for s in block.stmts:
        if names.isdisjoint(touched(s)):
            continue
        for access in effects(s).accesses:
            if access.buffer in names:
                yield Site(s, path, ()), access
        match s:
            case Block():
                yield from _accesses(s, names, path)
            case For():
                yield from _accesses(s.body, names, (*path, s))
            case If():
                yield from _accesses(s.body, names, (*path, s))
                yield from _accesses(s.orelse, names, (*path, s))
            case _:
                pass
