"""The exponentials of running sums (`online`): where each is evaluated, of what, and relative to what."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from evolve.ir.expr import Binary, Expr
from evolve.ir.poly import IslObject, context
from evolve.ir.scaled import Term, difference, power_in
from evolve.ir.types import MAX, Monoid
from evolve.ir.visit import loads
from evolve.legality.congruence import across
from evolve.legality.flow import Value
from evolve.legality.instances import Statement
from evolve.legality.pairing import pair_loads
from evolve.legality.producers import Performed
from evolve.legality.proof import Proof
from evolve.legality.witness import describe


class WrongError(Exception):
    """Why a running sum is not the source's."""


@dataclass(frozen=True)
class Exponential:
    """Where a contribution's exponential is evaluated: `link` maps its instances to those of `st`."""

    link: IslObject
    st: Statement
    term: Term


@dataclass(frozen=True)
class Exponentials:
    """Those of a proof's target. Methods raise WrongError and what their queries raise."""

    p: Proof

    def of(self, st: Statement) -> list[Exponential]:
        """Those that a contribution has, each for some of its instances; none for other statements."""
        scaled, everywhere = self.p.scaled, isl.UnionSet.from_set(st.instances)
        own = scaled.term(st.leaf)
        if own is not None:
            return [Exponential(everywhere.identity(), st, own)]
        slot = scaled.power_slot(st.leaf)
        if slot is None:
            return []
        kept = self.p.flow.resolve(st, st.reads[slot])
        out, found = [], kept.base.subtract(kept.base)
        for maker in self.p.target.statements:
            link = reached(kept.base, maker)
            made = None if link.is_empty() else scaled.term(maker.leaf)
            if made is not None:
                out.append(Exponential(link, maker, made))
                found = found.union(link)
        # That each instance has one rests on flows being total (`flow`).
        if not (kept.adds.is_empty() and found.is_equal(kept.base)):
            raise WrongError(f"{describe(st)} adds something else than exponentials")
        return out

    def scale(self, exponentials: list[Exponential]) -> Value:
        """The maximum that a contribution is relative to."""
        base = initial = adds = isl.UnionMap.read_from_str(context(), "{ }")
        monoids = frozenset[Monoid]()
        for x in exponentials:
            scale = self.p.flow.resolve(x.st, x.st.reads[x.term.slot])
            base = base.union(x.link.apply_range(scale.base))
            initial = initial.union(x.link.apply_range(scale.initial))
            adds = adds.union(x.link.apply_range(scale.adds))
            monoids |= scale.monoids
        return Value(base, initial, adds, monoids)

    def source_term(self, x: Exponential) -> tuple[Performed, Value]:
        """The source's exponential: where it is evaluated, and the maximum that it is relative to."""
        src = self.p.source_of(x.st)
        assert src is not None
        pairs = [y for y in pair_loads(self.p, x.st, src) if y.target == x.term.slot]
        if len(pairs) != 1:
            raise WrongError(f"{describe(x.st)} stands for several exponentials of the source")
        of = pairs[0].performed
        want = self.p.source.flow.last(of.st, of.st.reads[pairs[0].source])
        if want.monoids != {MAX}:
            raise WrongError(f"{describe(of.st)} is not relative to a maximum")
        return of, want

    def own(self, x: Exponential) -> IslObject:
        """Instances that evaluate it to the source instances that contribute its exponent to the maximum."""
        of, want = self.source_term(x)
        return of.reach.apply_range(self._partners(of.st, want))

    def _partners(self, src: Statement, want: Value) -> IslObject:
        """Points of a source statement that evaluates `exp(e - M)` to those that contribute this e to M, if
        they happen."""
        found = [s for s in self.p.source.by_id.values() if not reached(want.adds, s).is_empty()]
        if len(found) != 1:
            raise WrongError(f"the maximum in {describe(src)} is not that of one sweep like its own")
        (top,) = found
        exponent = _exponent(src.leaf.value)
        if exponent is None or not self._same_value(top, src, *exponent):
            raise WrongError(f"the maximum in {describe(src)} is not that of its own exponents")
        return across(src, top)

    def _same_value(self, top: Statement, src: Statement, exponent: Expr, slot: int) -> bool:
        return self.p.source.congruence.same_value(top, top.leaf.value, 0, src, exponent, slot)


def reached(relation: IslObject, st: Statement) -> IslObject:
    return relation.intersect_range(isl.UnionSet.from_set(st.instances))


def _exponent(e: Expr) -> tuple[Expr, int] | None:
    """The e in `exp(e - m)`, or in that times a weight, and the read slot of its first load."""
    power = power_in(e)
    found = None if power is None else difference(power)
    if found is None:
        return None
    before = e.lhs if isinstance(e, Binary) and e.rhs is power else None
    return found.lhs, 0 if before is None else len(loads(before))
