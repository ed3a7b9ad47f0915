"""Check `online`: a sum of exponentials kept relative to a maximum that still grows ends as the source's.

The source adds `w_k exp(e_k - M)` for every k, with M the maximum of all e_k; the weights may all be 1.
The target adds `w_k exp(e_k - m)` with the m of its time and multiplies by `exp(old - m)` when m has grown,
because

    exp(e - m1) * exp(m1 - m2) = exp(e - m2)

The e_k may be computed, once for M and once for the sum: that these are the same is shown by who wrote what
they read (`congruence`). So a scaled sum (see `scaled`) is, after each statement that touches it, the sum of
`w_k exp(e_k - m)` of the k so far, where m is the scale of that statement: if it starts at zero, and each
statement finds it with the scale that the one before left. Rescalings then are no writes as far as `flow` is
concerned: they change no contribution. What `flow` leaves to this check is which value m has. It compares
scales like any values: same start, same contributions. And m only grows (`_grows`): equal by algebra is not
enough where `exp(old - m)` overflows.

An exponential may be kept in a variable before it is added, a *power*. What that holds is not what the source
has there, so nothing may read it but contributions to scaled sums, for which it counts as if evaluated there.

Infinities: exp(-inf - -inf) is NaN. The source adds it when M = -inf; the target must not, as its m = -inf
may be temporary. There `safe` makes it 0: e_k <= m is shown, so e_k = -inf too, and the next factor is
exp(-inf - m) = 0 whatever was added. The last factor is without `safe`: M = -inf gives NaN as in the source,
something having been added. m = inf gives NaN in both: the e_k = inf is added to the same sum. An infinite
weight makes its term infinite or NaN in both, but for exponentials that underflow. Finite weights near the
largest float may overflow on the way, as in any other order of summing, and then give NaN for a finite sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import islpy as isl

from evolve.ir.expr import Binary, Const, Expr, Load
from evolve.ir.poly import IslObject, NonAffineError, context, limited
from evolve.ir.scaled import (
    NEW,
    OLD,
    Rescale,
    Term,
    difference,
    power_in,
    rescaling,
)
from evolve.ir.stmt import Store
from evolve.ir.types import MAX, Monoid, Space
from evolve.ir.visit import loads
from evolve.legality.flow import FlowError, Value, identity_of, previous
from evolve.legality.instances import Read, Statement
from evolve.legality.pairing import MismatchError, pair_loads
from evolve.legality.producers import Performed
from evolve.legality.proof import Finding, Proof, refuted, unknown
from evolve.legality.witness import describe


def check_online(p: Proof) -> list[Finding]:
    """E-ONLINE."""
    out: list[Finding] = []
    for buffer in sorted(p.scaled.sums | p.scaled.powers):
        try:
            with limited(20 * p.limits.operations):
                if buffer in p.scaled.sums:
                    _Sum(p, buffer).check()
                else:
                    _check_power(p, buffer)
        except _WrongError as e:
            out.append(refuted("E-ONLINE", str(e)))
        except FlowError as e:
            out.append(Finding(e.diagnostic, e.refuted))
        except (NonAffineError, MismatchError) as e:
            out.append(unknown("E-ONLINE", f"the running sum {buffer} cannot be followed: {e}"))
    return out


class _WrongError(Exception):
    """Why a running sum is not the source's."""


@dataclass(frozen=True)
class _Exponential:
    """Where a contribution's exponential is evaluated: `link` maps its instances to those of `st`."""

    link: IslObject
    st: Statement
    term: Term


def _check_power(p: Proof, buffer: str) -> None:
    """A power is read only by what adds it to a scaled sum. Raises _WrongError."""
    if p.target.buffers[buffer].space is Space.GLOBAL:
        raise _WrongError(f"{buffer} is relative to a maximum of its time and outlives it")
    for st in p.target.statements:
        used = [r for r in st.reads if r.load.buffer == buffer]
        if used and not st.is_copy and p.scaled.power_slot(st.leaf) is None:
            raise _WrongError(f"{describe(st, used[0])} is relative to a maximum of its time")


@dataclass
class _Sum:
    """One scaled buffer and the statements that write it."""

    p: Proof
    buffer: str
    terms: dict[str, tuple[Statement, list[_Exponential]]] = field(default_factory=dict)
    rescales: dict[str, tuple[Statement, Rescale]] = field(default_factory=dict)
    starts: set[str] = field(default_factory=set)

    def check(self) -> None:
        """Raises _WrongError and what its queries raise."""
        self._sort()
        for st, exponentials in self.terms.values():
            self._is_bounded(st, exponentials)
            self._goes_on(st, self.p.target.write(st), self._scale_of(exponentials))
        for st, r in self.rescales.values():
            old = self.p.flow.resolve(st, st.reads[OLD])
            self._goes_on(st, self.p.target.read(st, st.reads[0]), old)
            self._grows(st)
            if r.ends:
                self._ends(st)
        for st in self.p.target.statements:
            if st.name not in self.rescales:
                for read in st.reads:
                    if read.load.buffer == self.buffer:
                        self._is_final(st, read)

    def _sort(self) -> None:
        if self.p.target.buffers[self.buffer].space is not Space.REGISTER:
            raise _WrongError(f"the running sum {self.buffer} is not in registers")
        for st in self._writers():
            found = rescaling(st.leaf)
            if st.frame.terms:
                raise _WrongError(f"data says how often {describe(st)} happens")
            if found is not None:
                self.rescales[st.name] = (st, found)
            elif exponentials := self._exponentials(st):
                self.terms[st.name] = (st, exponentials)
            elif isinstance(st.leaf, Store) and _is_zero(st.leaf.value):
                self.starts.add(st.name)
            else:
                raise _WrongError(f"{describe(st)} is neither a start at zero nor a step of the running sum")

    def _exponentials(self, st: Statement) -> list[_Exponential]:
        """Those that a contribution has, each for some of its instances; none for other statements."""
        scaled, everywhere = self.p.scaled, isl.UnionSet.from_set(st.instances)
        own = scaled.term(st.leaf)
        if own is not None:
            return [_Exponential(everywhere.identity(), st, own)]
        slot = scaled.power_slot(st.leaf)
        if slot is None:
            return []
        kept = self.p.flow.resolve(st, st.reads[slot])
        out = []
        for maker in self.p.target.statements:
            link = _reached(kept.base, maker)
            made = None if link.is_empty() else scaled.term(maker.leaf)
            if made is not None:
                out.append(_Exponential(link, maker, made))
        found = kept.base.subtract(kept.base)
        for x in out:
            found = found.union(x.link)
        of_each = found.is_single_valued() and everywhere.is_subset(found.domain())
        if not (kept.adds.is_empty() and found.is_equal(kept.base) and of_each):
            raise _WrongError(f"{describe(st)} adds something else than exponentials")
        return out

    def _scale_of(self, exponentials: list[_Exponential]) -> Value:
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

    def _writers(self) -> list[Statement]:
        return [st for st in self.p.target.statements if st.leaf.buffer == self.buffer]

    def _before(self, st: Statement, cells: IslObject) -> list[tuple[Statement, IslObject]]:
        """The statement instances that touched it last. Raises _WrongError unless it is one each time."""
        found = previous(self.p.target, self._writers(), cells, st)
        if any(not m.is_single_valued() for _, m in found):
            raise _WrongError(f"{describe(st)} finds {self.buffer} as several instances at once left it")
        return found

    def _goes_on(self, st: Statement, cells: IslObject, taken: Value) -> None:
        """The scale that a statement takes the sum to have is the one that the statement before left."""
        for before, link in self._before(st, cells):
            if before.name in self.starts:
                continue
            if before.name in self.rescales:
                if self.rescales[before.name][1].ends:
                    raise _WrongError(f"{describe(st)} goes on with a sum that {describe(before)} has ended")
                left = self.p.flow.resolve(before, before.reads[NEW])
            else:
                left = self._scale_of(self.terms[before.name][1])
            if not _same(link, taken, left):
                raise _WrongError(
                    f"{describe(st)} takes {self.buffer} to be relative to another maximum than it is"
                )

    def _grows(self, st: Statement) -> None:
        """The scale that a rescaling finds is not above the one that it leaves: no factor is above 1.

        Steps up and down would cancel, were it not that `exp` overflows, and that 0 * inf is no number.
        """
        p = self.p
        old, new = (p.flow.resolve(st, st.reads[slot]) for slot in (OLD, NEW))
        start = old.base.subtract(new.base)
        for s in p.target.statements:
            if identity_of(s, MAX):
                start = start.subtract_range(isl.UnionSet.from_set(s.instances))
        same = start.subtract_range(p.provenance.domain()).is_empty()
        if not (old.monoids | new.monoids) <= {MAX} or not (
            same
            and start.apply_range(p.provenance).is_subset(new.base.apply_range(p.provenance))
            and old.adds.apply_range(p.provenance).is_subset(new.adds.apply_range(p.provenance))
        ):
            raise _WrongError(f"{describe(st)} may bring {self.buffer} to a maximum below the one it had")

    def _source_term(self, x: _Exponential) -> tuple[Performed, Value]:
        """The source's exponential: where it is evaluated, and the maximum that it is relative to."""
        src = self.p.source_of(x.st)
        assert src is not None
        pairs = [y for y in pair_loads(self.p, x.st, src) if y.target == x.term.slot]
        if len(pairs) != 1:
            raise _WrongError(f"{describe(x.st)} stands for several exponentials of the source")
        of = pairs[0].performed
        want = self.p.source.flow.last(of.st, of.st.reads[pairs[0].source])
        if want.monoids != {MAX}:
            raise _WrongError(f"{describe(of.st)} is not relative to a maximum")
        return of, want

    def _partners(self, src: Statement, want: Value) -> IslObject:
        """Source instances that evaluate `exp(e - M)` to those that contribute this e to M."""
        found = [s for s in self.p.source.by_id.values() if not _reached(want.adds, s).is_empty()]
        if len(found) != 1 or len(found[0].loop_dims) != len(src.loop_dims):
            raise _WrongError(f"the maximum in {describe(src)} is not that of one sweep like its own")
        (top,) = found
        exponent = _exponent(src.leaf.value)
        if exponent is None or not self._same_value(top, src, *exponent):
            raise _WrongError(f"the maximum in {describe(src)} is not that of its own exponents")
        if top.frame.terms or src.frame.terms:
            raise _WrongError(f"data says how often {describe(src)} happens")
        same = src.frame.map_to(top.name, [src.frame.env[d] for d in src.loop_dims])
        return same.intersect_domain(src.instances).intersect_range(top.instances)

    def _same_value(self, top: Statement, src: Statement, exponent: Expr, slot: int) -> bool:
        return self.p.source.congruence.same_value(top, top.leaf.value, 0, src, exponent, slot)

    def _is_bounded(self, st: Statement, exponentials: list[_Exponential]) -> None:
        """No exponent is above the maximum of its time."""
        for x in exponentials:
            own = x.link.apply_range(isl.UnionMap.from_map(self._own(x)))
            top = self.p.flow.resolve(x.st, x.st.reads[x.term.slot]).adds.apply_range(self.p.provenance)
            if not x.link.domain().is_subset(own.domain()) or not own.is_subset(x.link.apply_range(top)):
                raise _WrongError(
                    f"{describe(st)} may add the exponential of something above the maximum so far"
                )

    def _own(self, x: _Exponential) -> IslObject:
        """Instances that evaluate it to the source instances that contribute its exponent to the maximum."""
        of, want = self._source_term(x)
        return of.reach.apply_range(self._partners(of.st, want))

    def _ends(self, st: Statement) -> None:
        """The last scale is the source's, of as many elements as were added."""
        p = self.p
        adds = p.flow.last(st, st.reads[0]).adds
        if not isl.UnionSet.from_set(st.instances).is_subset(adds.domain()):
            raise _WrongError(f"{describe(st)} may end a sum to which nothing was added")
        last = p.flow.resolve(st, st.reads[NEW])
        if not last.base.subtract_range(p.provenance.domain()).is_empty():
            raise _WrongError(f"{describe(st)} ends with a maximum that does not start like the source's")
        base, top = last.base.apply_range(p.provenance), last.adds.apply_range(p.provenance)
        covered = adds.subtract(adds)
        for k, x in self._all_exponentials():
            path = _reached(adds, k).apply_range(x.link)
            if path.is_empty():
                continue
            of, want = self._source_term(x)
            origin = isl.UnionMap.from_map(of.reach)
            pairs = path.wrap()
            for got, wanted in ((base, want.base), (top, want.adds)):
                here = path.domain_map().apply_range(got).intersect_domain(pairs)
                there = path.range_map().apply_range(origin.apply_range(wanted)).intersect_domain(pairs)
                if not here.is_equal(there):
                    raise _WrongError(
                        f"{describe(st)} ends with another maximum than the source has in {describe(k)}"
                    )
            covered = covered.union(path.apply_range(isl.UnionMap.from_map(self._own(x))))
        old = p.flow.resolve(st, st.reads[OLD])
        if not old.adds.apply_range(p.provenance).is_equal(covered):
            raise _WrongError(f"{describe(st)} ends a sum of other elements than its maximum is of")

    def _all_exponentials(self) -> Iterator[tuple[Statement, _Exponential]]:
        for k, exponentials in self.terms.values():
            for x in exponentials:
                yield k, x

    def _is_final(self, st: Statement, read: Read) -> None:
        """What reads the sum finds it ended. Copies are not followed."""
        if st.is_copy:
            raise _WrongError(f"{describe(st)} copies a running sum")
        for before, _ in self._before(st, self.p.target.read(st, read)):
            if before.name in self.starts:
                continue
            if before.name not in self.rescales or not self.rescales[before.name][1].ends:
                raise _WrongError(
                    f"{describe(st, read)} is relative to a maximum that is not the source's yet"
                )


def _reached(relation: IslObject, st: Statement) -> IslObject:
    return relation.intersect_range(isl.UnionSet.from_set(st.instances))


def _same(link: IslObject, here: Value, before: Value) -> bool:
    """Whether two values are the same: `link` maps instances that read one to those that read the other."""
    if (here.monoids | before.monoids) - {MAX}:
        return False
    link = isl.UnionMap.from_map(link)
    return all(
        a.intersect_domain(link.domain()).is_equal(link.apply_range(b))
        for a, b in ((here.base, before.base), (here.adds, before.adds))
    )


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0


def _exponent(e: Expr) -> tuple[Expr, int] | None:
    """The e in `exp(e - m)`, or in that times a weight, and the read slot of its first load."""
    power = power_in(e)
    found = None if power is None else difference(power)
    if found is None or not isinstance(found.rhs, Load):
        return None
    before = e.lhs if isinstance(e, Binary) and e.rhs is power else None
    return found.lhs, 0 if before is None else len(loads(before))
