"""What does not depend on barriers is found once for a kernel, then used to place and to prove them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cached_property

from evolve.ir.expr import Expr
from evolve.ir.kernel import Kernel
from evolve.ir.poly import limited, sizes_of
from evolve.ir.scope import conjuncts
from evolve.ir.stmt import Barrier, Block
from evolve.ir.visit import rewrite
from evolve.legality.conflicts import Ordering, Race, survivors, unordered
from evolve.legality.model import Model

_KEEP = 64
SET_UP = 10
"""A model is many small isl queries: together they may use this many times one query's operations."""
_state = threading.local()


@dataclass(frozen=True, eq=False)
class Analysis:
    """A kernel without its barriers, and the conflicts that barriers must order."""

    bare: Model
    operations: int

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

    def first_left(self, model: Model, skip: frozenset[tuple[str, str]]) -> Race | None:
        """The first conflict inside blocks that the barriers of `model` leave; some pairs of statements are
        skipped."""
        ordering = Ordering(model)
        for race in self.unordered:
            if not race.within or (race.first.name, race.second.name) in skip:
                continue
            rest = self.left(race, model, ordering)
            if rest is not None:
                return rest
        return None

    def left(self, race: Race, model: Model, ordering: Ordering) -> Race | None:
        """What is left of one conflict."""
        here = replace(race, first=model.by_name[race.first.name], second=model.by_name[race.second.name])
        with limited(self.operations):
            return survivors(here, ordering)


def analysis_of(kernel: Kernel, facts: tuple[Expr, ...], operations: int) -> Analysis:
    """The analysis of the kernel under `facts`, from this thread's cache.

    Raises ModelError, NonAffineError or IslLimitError when the kernel cannot be modelled.
    """
    cache: OrderedDict[object, Analysis] | None = getattr(_state, "cache", None)
    if cache is None:
        cache = _state.cache = OrderedDict()
    bare = replace(kernel, body=strip(kernel.body))
    key = (bare, facts, operations)
    if key not in cache:
        with limited(SET_UP * operations):
            cache[key] = Analysis(Model(bare, sizes_of(bare, facts)), operations)
        if len(cache) > _KEEP:
            cache.popitem(last=False)
    cache.move_to_end(key)
    return cache[key]


def facts_of(*kernels: Kernel) -> tuple[Expr, ...]:
    """All assumptions, conjunctions taken apart, each once."""
    return tuple(dict.fromkeys(conjuncts(a for k in kernels for a in k.assumptions)))


def strip(body: Block) -> Block:
    """Without barriers."""
    return rewrite(body, lambda s: () if isinstance(s, Barrier) else None)
