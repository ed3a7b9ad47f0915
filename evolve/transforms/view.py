"""A kernel's features that the enumeration of moves asks: loops, extents, places of buffers, resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import prod

from evolve.ir.affine import simplify
from evolve.ir.effects import Mode, effects
from evolve.ir.errors import EvolveError
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Const
from evolve.ir.kernel import Kernel
from evolve.ir.launches import launches, phases
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Block, Buffer, For, If, Reduce
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import Site, leaves, loads, local_buffers, walk
from evolve.target.limits import STATIC_SHARED_BYTES, THREADS_MOST
from evolve.transforms.edit import all_sites, loop_at, sites
from evolve.transforms.mapping import FREE
from evolve.transforms.taken import Loop, taken
from evolve.workload.model import Contract


@dataclass(frozen=True)
class MoveLimits:
    """What the device allows, threads and bytes of shared memory a block, and what the kernel is run on.

    `sizes` are the scalars of the timed launches by name: a size found there is specialized to those
    values and to divisors of them only, so that the variant is one that runs. `numbers` replaces the values
    that `dsl_spec/` has for a parameter, by `primitive.parameter` or `primitive.parameter.rule`. A variant is
    executed under checks at its smallest sizes: arrays of more than `checked_bytes` are too large for that.
    `numerics` is the contract: what it does not allow is not offered. `data` are the scalars of the timed
    launches that are no sizes.
    """

    threads: int = THREADS_MOST
    shared_bytes: int = STATIC_SHARED_BYTES
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    checked_bytes: int = 16 << 20
    numerics: Contract = "reassociate"
    data: Mapping[str, tuple[int | float, ...]] = field(default_factory=dict)

    @property
    def launches(self) -> tuple[Mapping[str, int], ...]:
        """The sizes of each timed launch."""
        count = max((len(values) for values in self.sizes.values()), default=0)
        return tuple(
            {name: values[i] for name, values in self.sizes.items() if i < len(values)} for i in range(count)
        )


@dataclass(frozen=True)
class View:
    """A kernel as the rules look at it; what several of them need is found once."""

    kernel: Kernel
    limits: MoveLimits
    _used: dict[str, dict[Mode, dict[str, None]]] = field(default_factory=dict)

    @cached_property
    def loops(self) -> Mapping[str, Site]:
        """All loops by name, in textual order."""
        return sites(self.kernel)

    @cached_property
    def free(self) -> Mapping[str, For]:
        """Loops that nothing executes in a special way yet."""
        found = ((name, self.loop(name)) for name in self.loops)
        return {name: loop for name, loop in found if loop.kind in FREE}

    @cached_property
    def extents(self) -> Mapping[str, int | None]:
        """Constant extents; None where it is not constant."""
        return {name: constant_of(self.kernel, site) for name, site in self.loops.items()}

    @cached_property
    def local(self) -> Mapping[str, Buffer]:
        """Buffers declared in the kernel."""
        return local_buffers(self.kernel.body)

    @cached_property
    def next_to(self) -> Mapping[str, str]:
        """The next loop of the same block that is free as well, by loop."""
        out: dict[str, str] = {}
        blocks = [*phases(self.kernel.body), *(b for s in all_sites(self.kernel) for b in _bodies(s.stmt))]
        for block in blocks:
            beside = [s.var for s in block.stmts if isinstance(s, For) and s.kind in FREE]
            out.update(pairwise(beside))
        return out

    def loop(self, name: str) -> For:
        """The loop of that name."""
        found = self.loops[name].stmt
        assert isinstance(found, For)
        return found

    def used(self, loop: str, mode: Mode) -> Sequence[str]:
        """Buffers with such an access inside the loop, each once."""
        found = self._used.get(loop)
        if found is None:
            found = self._used[loop] = {m: {} for m in Mode}
            for s in walk(self.loop(loop).body):
                for a in effects(s.stmt).accesses:
                    found[a.mode][a.buffer] = None
        return tuple(found[mode])

    @cached_property
    def written(self) -> frozenset[str]:
        """Buffers that a statement writes."""
        return frozenset(leaf.buffer for leaf, _ in leaves(self.kernel.body))

    @cached_property
    def stores(self) -> Mapping[str, int]:
        """How many stores fill a buffer; none that is reduced into, or filled from what is written later."""
        later: set[str] = set()
        found: dict[str, int] = {}
        other: set[str] = set()
        for leaf, _ in reversed(list(leaves(self.kernel.body))):
            if isinstance(leaf, Reduce) or any(x.buffer in later for x in loads(leaf.value)):
                other.add(leaf.buffer)
            later.add(leaf.buffer)
            found[leaf.buffer] = found.get(leaf.buffer, 0) + 1
        return {name: n for name, n in found.items() if name not in other}

    def space(self, buffer: str) -> Space:
        """Where a buffer lies."""
        found = self.local.get(buffer)
        return Space.GLOBAL if found is None else found.space

    def most(self, name: str) -> int | None:
        """The most iterations of a loop at the sizes that are run; None where that is not known."""
        constant = self.extents[name]
        return iterations(self.kernel, self.loops[name], self.limits) if constant is None else constant


def constant_of(kernel: Kernel, site: Site) -> int | None:
    """The constant extent of the loop at a site; None if it has none."""
    assert isinstance(site.stmt, For)
    extent = site.stmt.extent
    if not isinstance(extent, Const):
        extent = simplify(extent, ranges_at(kernel, site.path))
    return int(extent.value) if isinstance(extent, Const) else None


def iterations(kernel: Kernel, site: Site, limits: MoveLimits) -> int | None:
    """The most iterations of a loop whose extent is over sizes, at those that are run; else None."""
    assert isinstance(site.stmt, For)
    try:
        return max((int(evaluate(site.stmt.extent, sizes)) for sizes in limits.launches), default=None)
    except EvolveError:
        return None


def thread_extents(kernel: Kernel) -> Mapping[LoopKind, int]:
    """For each axis of a block the most iterations of a constant extent bound to it."""
    return axis_extents(kernel, taken(kernel.body).threads)


def axis_extents(kernel: Kernel, loops: Sequence[Loop]) -> Mapping[LoopKind, int]:
    """For each of their axes the most iterations of these thread loops, where that is constant."""
    most: dict[LoopKind, int] = {}
    for name, axis, extent in loops:
        if isinstance(extent, Const):
            trips = int(extent.value)
        else:
            trips = constant_of(kernel, loop_at(kernel, name)[1]) or 1
        most[axis] = max(most.get(axis, 1), trips)
    return most


def block_threads(kernel: Kernel) -> int:
    """The threads of a block; of several launches, of the one with most."""
    return max((prod(thread_extents(part).values()) for part in launches(kernel)), default=1)


def _bodies(s: object) -> tuple[Block, ...]:
    return (s.body,) if isinstance(s, For | If) else ()
