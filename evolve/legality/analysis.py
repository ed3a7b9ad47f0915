"""What does not depend on barriers is found once for a kernel, then used to place and to prove them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from evolve.ir.expr import Expr
from evolve.ir.kernel import Kernel
from evolve.ir.poly import IslObject, limited, sizes_of
from evolve.ir.scope import conjuncts
from evolve.ir.stmt import Barrier, Block, For, Stmt
from evolve.ir.types import LoopKind
from evolve.ir.visit import rewrite
from evolve.legality.conflicts import Ordering, Place, Race, survivors, unordered
from evolve.legality.memory import remembered
from evolve.legality.model import Model

_KEEP = 64
SET_UP = 10
"""A model is many small isl queries: together they may use this many times one query's operations."""


@dataclass(frozen=True, eq=False)
class Analysis:
    """A kernel without its barriers, and the conflicts that barriers must order."""

    bare: Model
    operations: int
    _known: dict[object, IslObject] = field(default_factory=dict, repr=False)
    """What single barriers order (`conflicts.Ordering`)."""

    @cached_property
    def unordered(self) -> tuple[Race, ...]:
        """Conflicts of different threads or blocks. Raises IslLimitError, NonAffineError, ModelError."""
        return tuple(unordered(self.bare, self.operations))

    def model(self, kernel: Kernel) -> Model:
        """The model of the kernel with these barriers."""
        if kernel.body == self.bare.rendered.body:
            return self.bare
        with limited(SET_UP * self.operations):
            return Model(kernel, self.bare.sizes, like=self.bare)

    @cached_property
    def _settled(self) -> list[set[frozenset[Place]]]:
        """For each conflict: barriers found to order all of it. Others beside them change nothing."""
        return [set() for _ in self.unordered]

    def ordering(self, model: Model) -> Ordering:
        """By the barriers of `model`, which is this kernel's."""
        return Ordering(model, self._known)

    def first_left(self, model: Model, skip: frozenset[tuple[str, str]]) -> Race | None:
        """The first conflict inside blocks that the barriers of `model` leave; some pairs of statements are
        skipped."""
        ordering = self.ordering(model)
        for number, race in enumerate(self.unordered):
            if not race.within or (race.first.name, race.second.name) in skip:
                continue
            rest = self.left(number, ordering)
            if rest is not None:
                return rest
        return None

    def left(self, number: int, ordering: Ordering) -> Race | None:
        """What is left of one conflict."""
        if any(enough <= ordering.places for enough in self._settled[number]):
            return None
        race, model = self.unordered[number], ordering.model
        here = replace(race, first=model.by_name[race.first.name], second=model.by_name[race.second.name])
        with limited(self.operations):
            rest, used = survivors(here, ordering)
        if rest is None:
            self._settled[number].add(used)
        return rest


def analysis_of(kernel: Kernel, facts: tuple[Expr, ...], operations: int) -> Analysis:
    """The analysis of the kernel under `facts`, from this thread's cache.

    Raises ModelError, NonAffineError or IslLimitError when the kernel cannot be modelled.
    """
    bare = replace(kernel, body=strip(kernel.body))

    def analyse() -> Analysis:
        with limited(SET_UP * operations):
            return Analysis(Model(bare, sizes_of(bare, facts)), operations)

    return remembered("analyses", (bare, facts, operations), _KEEP, analyse)


def facts_of(*kernels: Kernel) -> tuple[Expr, ...]:
    """All assumptions, conjunctions taken apart, each once."""
    return tuple(dict.fromkeys(conjuncts(a for k in kernels for a in k.assumptions)))


def strip(body: Block) -> Block:
    """Without barriers."""
    return rewrite(body, lambda s: () if isinstance(s, Barrier) else None)


def plain(kernel: Kernel) -> Kernel:
    """Without what is asked of the compiler: a loop that is unrolled does the same in the same order."""

    def serial(s: Stmt) -> Stmt | None:
        return replace(s, kind=LoopKind.SERIAL) if isinstance(s, For) and s.kind is LoopKind.UNROLL else None

    return replace(kernel, body=rewrite(kernel.body, serial))
