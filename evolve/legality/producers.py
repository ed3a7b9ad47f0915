"""What a target computes again instead of reading: the values that the source keeps in buffers of its own.

    t[k] = f(x[k])                     y[i] = f(x[i]) + f(x[i + 1])
    y[i] = t[i] + t[i + 1]

A buffer that the source declares is seen by nobody else, so its stores need not be performed. Who computes
such a value performs the store that the source's load would find; the source's own flow says which instance
that is. What the expression in turn loads has to be what the *store* found (`value_flow`), not what is there
now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import islpy as isl

from evolve.ir.expr import Expr
from evolve.ir.poly import IslObject
from evolve.ir.visit import substitute
from evolve.legality.instances import Statement
from evolve.legality.proof import Proof

_DEEPEST = 32
"""Stores performed for the sake of another: a chain that goes on for longer is not followed."""


@dataclass(frozen=True)
class Performed:
    """A source statement that a target statement performs, by its claim or because a value needs it.

    `by` are its loop variables in those of the target, None where only `given` says so: a map from instances
    of the target, not always all, to the one each performs.
    """

    p: Proof
    target: Statement
    st: Statement
    by: Mapping[str, Expr] | None = None
    given: IslObject | None = None
    depth: int = 0

    @staticmethod
    def by_origin(p: Proof, st: Statement, src: Statement) -> Performed:
        """What a statement claims."""
        assert st.leaf.origin is not None
        return Performed(p, st, src, dict(zip(src.loop_dims, st.leaf.origin.instance, strict=True)))

    @cached_property
    def reach(self) -> IslObject:
        """Instances of the target to those of the source. Raises NonAffineError, ModelError."""
        return self.p.origin_map(self.target) if self.given is None else self.given

    def expression(self, s: Expr) -> Expr | None:
        """An expression of the source in the target's loops; None where it is known as a function only."""
        return None if self.by is None else substitute(s, self.by)

    def affine(self, s: Expr) -> IslObject:
        """An INDEX expression of the source as a function of target instances. Raises NonAffineError."""
        here = self.expression(s)
        if here is not None:
            return self.target.frame.affine(here)
        return self.st.frame.affine(s).pullback_pw_multi_aff(isl.PwMultiAff.from_map(self.reach))

    def condition(self, s: Expr) -> IslObject:
        """The target's instances where a condition of the source holds. Raises NonAffineError."""
        here = self.expression(s)
        if here is not None:
            return self.target.frame.condition(here)
        return self.reach.intersect_range(self.st.frame.condition(s)).domain()


def producers(performed: Performed, slot: int) -> list[Performed] | None:
    """The stores that a load of the source finds, at the instances of the target that perform it.

    None unless each instance finds exactly one, and nothing reduced into it since.
    """
    if performed.depth == _DEEPEST:
        return None
    p, st = performed.p, performed.st
    read = st.reads[slot]
    value = p.source.flow.last(st, read)
    reach = isl.UnionMap.from_map(performed.reach.intersect_range(read.instances))
    if not reach.range().intersect(value.adds.domain()).is_empty():
        return None
    found = reach.apply_range(value.base)
    if not reach.apply_range(value.initial).is_empty():
        return None
    if not reach.domain().is_subset(found.domain()):
        return None
    out: list[Performed] = []
    for s in p.source.model.statements:
        of = found.intersect_range(isl.UnionSet.from_set(s.instances))
        if not of.is_empty():
            link = isl.Map.from_union_map(of)
            out.append(Performed(p, performed.target, s, given=link, depth=performed.depth + 1))
    return out


def holds(p: Proof, held: str, buffer: str) -> bool:
    """Whether a buffer of the target may hold values which the source keeps in `buffer`, or equal ones."""
    if held in holders(p, buffer):
        return True
    like = p.congruence
    return like is not None and any(held in holders(p, b) for b in like.buffers_like(buffer))


def holders(p: Proof, buffer: str) -> frozenset[str]:
    """Buffers of the target that may hold values which the source keeps in `buffer`: written by what performs
    its stores, or by copies and combinations of these."""
    known = p.held
    if buffer not in known:
        performed = ((st, p.source_of(st)) for st in p.target.statements)
        found = {st.leaf.buffer for st, src in performed if src is not None and src.leaf.buffer == buffer}
        others = [st for st in p.target.statements if st.leaf.origin is None]
        while more := {s.leaf.buffer for s in others if any(r.load.buffer in found for r in s.reads)} - found:
            found |= more
        known[buffer] = frozenset(found)
    return known[buffer]
