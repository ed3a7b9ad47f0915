"""Source statements that compute the same: what one has computed another need not compute again.

    for j: s[] = 0; for d: s[] += q[d] * k[j, d]; top[] max= s[]
    for j: t[] = 0; for d: t[] += q[d] * k[j, d]; sum[] += exp(t[] - top[])

Instances of two statements are congruent if both evaluate one expression in their loop variables, over arrays
that nobody writes and over reads of equal values: the same bases and contributions, up to congruence. That is
found in the order of the text, each statement relying on those before; so it rests on nothing unproved. What
they do with the value, store it or add it, is compared by who asks.

A class is named by its first statement, at all loop variables: where that does not happen itself, it stands
for what it would evaluate.

Contributions are counted, so two congruent ones stand for each other but never for both at once (`distinct`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import islpy as isl

from evolve.ir.expr import Expr, Load, var
from evolve.ir.poly import IslObject, context
from evolve.ir.types import DType
from evolve.ir.visit import loads, map_expr, substitute
from evolve.legality.flow import Flow, Value, injective_per_reader
from evolve.legality.instances import Statement
from evolve.legality.model import Model


class Congruence:
    """The congruent statements of a source: `to_first` maps instances to those of the first in a class."""

    def __init__(self, model: Model, flow: Flow) -> None:
        self._model = model
        self._flow = flow
        self.to_first: IslObject = isl.UnionMap.read_from_str(context(), "{ }")
        self._firsts: dict[str, str] = {}
        for st in model.statements:
            known = (model.by_name[n] for n in dict.fromkeys(self._firsts.values()))
            like = next((s for s in known if self._alike(s, st)), st)
            self._firsts[st.name] = like.name
            self.to_first = self.to_first.union(isl.UnionMap.from_map(across(st, like)))

    @property
    def any(self) -> bool:
        """Whether any two statements are congruent."""
        return len(set(self._firsts.values())) < len(self._firsts)

    def buffers_like(self, buffer: str) -> frozenset[str]:
        """Buffers with a statement that is congruent to one that writes this one."""
        classes = {self._firsts[st.name] for st in self._model.statements if st.leaf.buffer == buffer}
        return frozenset(st.leaf.buffer for st in self._model.statements if self._firsts[st.name] in classes)

    def first(self, relation: IslObject) -> IslObject:
        """A relation to source instances and initial contents, with the first of each class instead."""
        known = relation.intersect_range(self.to_first.domain())
        return relation.subtract(known).union(known.apply_range(self.to_first))

    def distinct(self, relation: IslObject) -> bool:
        """Whether no instance reaches two that are congruent."""
        return injective_per_reader(relation, self.to_first)

    def same_value(self, a: Statement, e: Expr, first_a: int, b: Statement, f: Expr, first_b: int) -> bool:
        """Whether `e`, a part of what `a` evaluates, has the value of `f` in `b` for equal loop variables.

        `first_a` and `first_b` are the read slots of their first loads. Subscripts of what the source writes
        are affine, or it is refused (`races.source_race`).
        """
        if len(a.loop_dims) != len(b.loop_dims) or {*a.frame.terms, *b.frame.terms}:
            return False  # or data says how often one happens
        written = self._model.written
        by: dict[str, Expr] = {x: var(y) for x, y in zip(a.loop_dims, b.loop_dims, strict=True)}
        e = substitute(e, by)
        if _without(e, written) != _without(f, written):
            return False
        there = isl.UnionMap.from_map(across(b, a).intersect_domain(b.instances))
        for n, x in enumerate(loads(e)):
            r, q = a.reads[first_a + n], b.reads[first_b + n]
            if x.buffer in written and not self._equal(there, self._flow.last(a, r), self._flow.last(b, q)):
                return False
        return True

    def _alike(self, a: Statement, b: Statement) -> bool:
        return self.same_value(a, a.leaf.value, 0, b, b.leaf.value, 0)

    def _equal(self, there: IslObject, a: Value, b: Value) -> bool:
        """Whether two reads have one value: `there` maps instances of the second to those of the first.

        Contributions with several monoids have an order, which nothing here compares.
        """
        adds = there.apply_range(a.adds)
        return (
            len(a.monoids | b.monoids) <= 1
            and self.first(there.apply_range(a.base)).is_equal(self.first(b.base))
            and (adds.is_equal(b.adds) or (self.distinct(adds) and self.distinct(b.adds)))
            and self.first(adds).is_equal(self.first(b.adds))
        )


def across(a: Statement, b: Statement) -> IslObject:
    """Points of `a` to those of `b` with the same loop variables, whether they happen or not."""
    return a.frame.map_to(b.name, [a.frame.env[d] for d in a.frame.dims])


def _without(e: Expr, buffers: Iterable[str]) -> Expr:
    """The tree with a blank for each load from one of the buffers."""
    blank = Load("", (), DType.INDEX)
    return map_expr(e, lambda x: replace(blank, dtype=x.dtype) if _of(x, buffers) else x)


def _of(x: Expr, buffers: Iterable[str]) -> bool:
    return isinstance(x, Load) and x.buffer in buffers
