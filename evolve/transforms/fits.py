"""Resource limits: whether a block as it stands could run. Threads, shared memory, grid, owners of registers.

Cheap questions of the IR alone, no proof. They are asked of the results of next moves, so that few of them
are refused later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod

from evolve.ir.kernel import Kernel
from evolve.ir.launches import launches
from evolve.ir.stmt import Buffer, For
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import variables
from evolve.target.limits import GRID_MOST, REGISTERS_MOST, WARP, shared_bytes
from evolve.transforms.call import Begun, Copied, Shared, loop_of
from evolve.transforms.edit import loop_at, loops_in
from evolve.transforms.launched import Launched
from evolve.transforms.ownership import Registers, axes_around, own_registers
from evolve.transforms.taken import bytes_of, taken
from evolve.transforms.view import MoveLimits, constant_of, iterations


class Fit:
    """What a kernel fits, which its next statements must not undo.

    A kernel that does not meet a condition yet, in the middle of a program, is not held to it.
    """

    def __init__(self, kernel: Kernel, limits: MoveLimits) -> None:
        self._limits = limits
        self._launches = [Launched(part) for part in launches(kernel)]
        self._kept = [n for n, holds in CONDITIONS.items() if all(holds(x, limits) for x in self._launches)]

    def keeps(self, begun: Begun) -> bool:
        """Whether what a statement makes of this kernel still meets the conditions that this one meets."""
        takes = begun.takes
        if isinstance(takes, Copied):
            held = self._holds(takes)
            return self._keeps(begun.result()[0]) if held is None else held
        if isinstance(takes, Shared) and self._tears(takes):
            return False
        return (takes is None and begun.has_said) or self._keeps(begun.result()[0])

    def _keeps(self, result: Kernel) -> bool:
        parts = launches(result)
        before = self._launches if len(parts) == len(self._launches) else [None] * len(parts)
        now = [Launched(part, made_of) for part, made_of in zip(parts, before, strict=True)]
        return all(CONDITIONS[n](x, self._limits) for x in now for n in self._kept if n in x.changed)

    def _holds(self, copied: Copied) -> bool | None:
        """Whether a block holds one buffer more, of which each thread has registers of its own.

        None where only the result shows it."""
        at = loop_of(copied.site)
        launch = next((x for x in self._launches if at.var in loops_in(x.kernel.body)), None)
        if launch is None:
            return None  # It is in a launch that does nothing.
        buffers, around = taken(launch.kernel.body), (*copied.site.loops, at)
        if copied.buffer.space is Space.SHARED:
            if copied.frees:
                return None
            return "shared" not in self._kept or _has_room((*buffers.shared, copied.buffer), self._limits)
        if "registers" not in self._kept or not (launch.arrays or copied.buffer.extents):
            return True
        if launch.registers is None:
            return False
        held = dict(launch.registers)
        axes = axes_around(around)
        for name in copied.reads & held.keys():
            if held[name].is_distributed:
                return None
            if not launch.uses[name].shared_out <= axes:
                return False
        held[copied.buffer.name] = own_registers(copied.buffer, axes)
        every = [x for name, x in held.items() if name not in copied.frees]
        return _has_registers(every, launch.extents, self._limits)

    def _tears(self, shared: Shared) -> bool:
        """Whether it is seen at a glance that threads of the axis would not hold what they need."""
        if "registers" not in self._kept or not shared.axis.is_thread:
            return False
        loops = frozenset(shared.loops)
        return any(x.arrays and x.is_torn(loops, shared.axis) for x in self._launches)


def _threads(launch: Launched, limits: MoveLimits) -> bool:
    """A block has as many threads as are bound, and as launch bounds allow."""
    most = min(limits.threads, launch.kernel.max_threads or limits.threads)
    return prod(launch.extents.values()) <= most


def _lanes(launch: Launched, _: MoveLimits) -> bool:
    """Where thread.x and thread.y are lanes they make one warp."""
    lanes = launch.extents.get(LoopKind.THREAD_X, 1) * launch.extents.get(LoopKind.THREAD_Y, 1)
    return not launch.kernel.lanes or lanes == WARP


def _shared(launch: Launched, limits: MoveLimits) -> bool:
    """A block has the shared memory that is declared."""
    return _has_room(taken(launch.kernel.body).shared, limits)


def _has_room(buffers: Iterable[Buffer], limits: MoveLimits) -> bool:
    return shared_bytes(map(bytes_of, buffers)) <= limits.shared_bytes


def _grid(launch: Launched, limits: MoveLimits) -> bool:
    """The axes of the grid have as many blocks as are bound, at the sizes that are run."""
    for name, axis, _ in taken(launch.kernel.body).grid:
        _, site = loop_at(launch.kernel, name)
        blocks = constant_of(launch.kernel, site) or iterations(launch.kernel, site, limits)
        if blocks is not None and blocks > GRID_MOST[axis]:
            return False
    return True


def _combines(launch: Launched, limits: MoveLimits) -> bool:
    """The threads that combine partials are those of thread.x, in no loop of it and behind no condition that
    depends on a thread."""
    most = launch.extents.get(LoopKind.THREAD_X, 1)
    for kind, width in launch.widths.values():
        if width > most or (kind is LoopKind.COMBINE_WARP and width != most):
            return False
    for name, _, _ in launch.new.combines:
        site = loop_at(launch.kernel, name)[1]
        threads = frozenset(x.var for x in site.loops if x.kind.is_thread)
        if any(x.kind is LoopKind.THREAD_X for x in site.loops):
            return False
        if any(variables(s.cond) & threads for s in site.path if not isinstance(s, For)):
            return False
    return True


def _registers(launch: Launched, limits: MoveLimits) -> bool:
    """Each element of a register buffer is in one thread, which alone touches it, and all would fit if the
    threads that do not share them yet did. Scalars are asked about only beside arrays."""
    if not launch.arrays:
        return True
    held = launch.registers
    return held is not None and _has_registers(held.values(), launch.extents, limits)


def _has_registers(held: Iterable[Registers], extents: Mapping[LoopKind, int], limits: MoveLimits) -> bool:
    room = limits.threads
    total = sum(x.words / max(1, room // prod(extents.get(a, 1) for a in x.axes)) for x in held)
    return total <= REGISTERS_MOST


CONDITIONS: Mapping[str, Callable[[Launched, MoveLimits], bool]] = {
    "threads": _threads,
    "lanes": _lanes,
    "shared": _shared,
    "grid": _grid,
    "combines": _combines,
    "registers": _registers,
}
