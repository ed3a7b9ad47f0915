"""Resources that one launch takes of a block, updated incrementally after a move.

What a launch shares with the one that it was made from is taken over from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from evolve.ir.effects import effects
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Block, For, If
from evolve.ir.types import LoopKind
from evolve.ir.visit import Site
from evolve.transforms.changes import Changes, changes
from evolve.transforms.edit import loop_at
from evolve.transforms.ownership import Registers, Spot, Use, names_of, spot_of
from evolve.transforms.taken import Taken, named, taken, taken_by
from evolve.transforms.view import axis_extents, constant_of


@dataclass(frozen=True)
class Launched:
    """One launch, and the one that it was made from; without that everything in it is new."""

    kernel: Kernel
    before: Launched | None = None

    @cached_property
    def changes(self) -> Changes:
        """The difference between both."""
        if self.before is None:
            return Changes(new=list(self.kernel.body.stmts))
        return changes(self.before.kernel.body, self.kernel.body)

    @cached_property
    def gone(self) -> Taken:
        """What it takes no more."""
        return taken_by(self.changes.gone)

    @cached_property
    def new(self) -> Taken:
        """What only it takes."""
        return taken_by(self.changes.new)

    @cached_property
    def changed(self) -> frozenset[str]:
        """The conditions of `transforms.fits` that look at something that changed, subscripts left out."""
        old, now = self.before.kernel if self.before else None, self.kernel
        gone, new = self.gone, self.new
        threads = gone.threads != new.threads
        found = {
            "threads": threads or old is None or old.max_threads != now.max_threads,
            "lanes": threads or old is None or old.lanes != now.lanes,
            "shared": gone.shared != new.shared,
            "grid": gone.grid != new.grid,
            "combines": threads or gone.combines != new.combines,
            "registers": threads or gone.registers != new.registers,
        }
        return frozenset(name for name, is_other in found.items() if is_other)

    @cached_property
    def extents(self) -> Mapping[LoopKind, int]:
        """Of the axes of its blocks."""
        if self.before is None or not set(self.gone.threads) <= set(self.new.threads):
            return axis_extents(self.kernel, taken(self.kernel.body).threads)
        out = dict(self.before.extents)
        for axis, extent in axis_extents(self.kernel, self.new.threads).items():
            out[axis] = max(out.get(axis, 1), extent)
        return out

    @cached_property
    def widths(self) -> Mapping[str, tuple[LoopKind, int]]:
        """The loops that combine partials, with their iterations; 0 where that is no constant."""
        out = {} if self.before is None else dict(self.before.widths)
        for name, _, _ in self.gone.combines:
            del out[name]
        for name, kind, _ in self.new.combines:
            out[name] = kind, constant_of(self.kernel, loop_at(self.kernel, name)[1]) or 0
        return out

    @cached_property
    def arrays(self) -> int:
        """How many register arrays it declares."""
        before = 0 if self.before is None else self.before.arrays
        gone, new = ([b for b in x.registers if b.extents] for x in (self.gone, self.new))
        return before - len(gone) + len(new)

    @cached_property
    def registers(self) -> Mapping[str, Registers] | None:
        """Its register buffers; None where one of them is not held by those who touch it.

        A buffer above the thread loops is distributed over them (`evolve.ir.layout`).
        """
        known = {} if self.before is None else self.before.registers
        if known is None:
            return None
        out = dict(known)
        for b in self.gone.registers:
            del out[b.name]
        touched = frozenset[str]().union(*map(named, (*self.changes.gone, *self.changes.new)))
        affected = (touched & out.keys()).union(b.name for b in self.new.registers)
        for name, use in self._uses(affected).items():
            held = use.held(self.kernel)
            if held is None:
                return None
            out[name] = held
        return out

    @cached_property
    def uses(self) -> Mapping[str, Use]:
        """What is done with each of its register buffers."""
        return self._uses(frozenset(b.name for b in taken(self.kernel.body).registers))

    @cached_property
    def _spots(self) -> Sequence[tuple[Registers, frozenset[str], Sequence[Spot]]]:
        """For each register buffer who holds it, the loops around its declaration, where it is touched."""
        held = self.registers or {}
        return [
            (held[name], names_of(use.declared), [spot_of(s, a) for s, a in use.accesses])
            for name, use in self.uses.items()
            if use.declared is not None and name in held
        ]

    def is_torn(self, loops: frozenset[str], axis: LoopKind) -> bool:
        """Whether it is seen at a glance that, with these loops along a thread axis, some register buffer is
        not where it is needed: threads of that axis write parts of it, and others are to touch them."""
        for held, around, spots in self._spots:
            inside = [not loops.isdisjoint(x.loops) for x in spots]
            if not any(inside) or not loops.isdisjoint(around):
                continue
            apart = [x for x, there in zip(spots, inside, strict=True) if not there and axis not in x.axes]
            first = next((there for x, there in zip(spots, inside, strict=True) if not x.reads), False)
            if first and apart:
                return True
            writes = any(there and not x.reads for x, there in zip(spots, inside, strict=True))
            if writes and not held.is_distributed and any(x.reads for x in apart):
                return True
        return False

    def _uses(self, names: frozenset[str]) -> Mapping[str, Use]:
        out: dict[str, Use] = {name: Use() for name in names}
        self._find(self.kernel.body, names, (), out)
        return out

    def _find(
        self, block: Block, names: frozenset[str], path: tuple[For | If, ...], out: Mapping[str, Use]
    ) -> None:
        for s in block.stmts:
            if id(s) not in self.changes.around and names.isdisjoint(named(s)):
                continue
            if isinstance(s, Alloc):
                out[s.buffer.name].declared = Site(s, path, ())
                continue
            for access in effects(s).accesses:
                if access.buffer in names:
                    out[access.buffer].accesses.append((Site(s, path, ()), access))
            if isinstance(s, For | If):
                self._find(s.body, names, (*path, s), out)
            if isinstance(s, If):
                self._find(s.orelse, names, (*path, s), out)
            elif isinstance(s, Block):
                self._find(s, names, path, out)
