"""Check `online`: a sum of exponentials kept relative to a maximum that still grows ends as the source's.

The source adds `w_k exp(e_k - M)` for every k, with M the maximum of all e_k; the weights may all be 1.
The target adds `w_k exp(e_k - m)` with the m of its time and multiplies by `exp(old - m)` when m has grown,
because

    exp(e - m1) * exp(m1 - m2) = exp(e - m2)

So a scaled sum (see `scaled`) is, after each statement that touches it, the sum of `w_k exp(e_k - m)` of the
k so far, where m is the scale of that statement: if it starts at zero, and each statement finds it with the
scale that the one before left. Rescalings then are no writes as far as `flow` is concerned: they change no
contribution. What `flow` leaves to this check is which value m has. It compares scales like any values:
same start, same contributions. And m only grows (`_grows`): equal by algebra is not enough where
`exp(old - m)` overflows.

Infinities: exp(-inf - -inf) is NaN. The source adds it when M = -inf; the target must not, as its m = -inf
may be temporary. There `safe` makes it 0: e_k <= m is shown, so e_k = -inf too, and the next factor is
exp(-inf - m) = 0 whatever was added. The last factor is without `safe`: M = -inf gives NaN as in the source,
something having been added. m = inf gives NaN in both: the e_k = inf is added to the same sum. An infinite
weight makes its term infinite or NaN in both, but for exponentials that underflow. Finite weights near the
largest float may overflow on the way, as in any other order of summing, and then give NaN for a finite sum.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import islpy as isl

from evolve.ir.expr import Const, Expr, Load, var
from evolve.ir.poly import IslObject, NonAffineError, limited
from evolve.ir.scaled import (
    NEW,
    OLD,
    Rescale,
    Term,
    contribution,
    difference,
    power_in,
    rescaling,
    scaled_buffers,
)
from evolve.ir.stmt import Store
from evolve.ir.types import MAX, Space
from evolve.ir.visit import loads, substitute
from evolve.legality.equality import MismatchError, pair_slots
from evolve.legality.flow import FlowError, Value, identity_of, previous
from evolve.legality.instances import Read, Statement
from evolve.legality.proof import Finding, Proof, refuted, unknown
from evolve.legality.witness import describe


def check_online(p: Proof) -> list[Finding]:
    """E-ONLINE."""
    out: list[Finding] = []
    for buffer in sorted(scaled_buffers(p.target.kernel)):
        try:
            with limited(20 * p.limits.operations):
                _Sum(p, buffer).check()
        except _WrongError as e:
            out.append(refuted("E-ONLINE", str(e)))
        except FlowError as e:
            out.append(Finding(e.diagnostic, e.refuted))
        except (NonAffineError, MismatchError) as e:
            out.append(unknown("E-ONLINE", f"the running sum {buffer} cannot be followed: {e}"))
    return out


class _WrongError(Exception):
    """Why a running sum is not the source's."""


@dataclass
class _Sum:
    """One scaled buffer and the statements that write it."""

    p: Proof
    buffer: str
    terms: dict[str, tuple[Statement, Term]] = field(default_factory=dict)
    rescales: dict[str, tuple[Statement, Rescale]] = field(default_factory=dict)
    starts: set[str] = field(default_factory=set)

    def check(self) -> None:
        """Raises _WrongError and what its queries raise."""
        self._sort()
        for st, t in self.terms.values():
            self._is_bounded(st, t)
            self._goes_on(st, self.p.target.write(st), st.reads[t.slot])
        for st, r in self.rescales.values():
            self._goes_on(st, self.p.target.read(st, st.reads[0]), st.reads[OLD])
            self._grows(st)
            if r.ends:
                self._ends(st)
        for st in self.p.target.statements:
            if st.name not in self.rescales:
                for read in st.reads:
                    if read.load.buffer == self.buffer:
                        self._is_final(st, read)

    def _sort(self) -> None:
        scaled = frozenset((self.buffer,))
        if self.p.target.buffers[self.buffer].space is not Space.REGISTER:
            raise _WrongError(f"the running sum {self.buffer} is not in registers")
        for st in self._writers():
            found, t = rescaling(st.leaf), contribution(st.leaf, scaled)
            if st.frame.terms:
                raise _WrongError(f"data says how often {describe(st)} happens")
            if found is not None:
                self.rescales[st.name] = (st, found)
            elif t is not None:
                self.terms[st.name] = (st, t)
            elif isinstance(st.leaf, Store) and _is_zero(st.leaf.value):
                self.starts.add(st.name)
            else:
                raise _WrongError(f"{describe(st)} is neither a start at zero nor a step of the running sum")

    def _writers(self) -> list[Statement]:
        return [st for st in self.p.target.statements if st.leaf.buffer == self.buffer]

    def _before(self, st: Statement, cells: IslObject) -> list[tuple[Statement, IslObject]]:
        """The statement instances that touched it last. Raises _WrongError unless it is one each time."""
        found = previous(self.p.target, self._writers(), cells, st)
        if any(not m.is_single_valued() for _, m in found):
            raise _WrongError(f"{describe(st)} finds {self.buffer} as several instances at once left it")
        return found

    def _goes_on(self, st: Statement, cells: IslObject, read: Read) -> None:
        """The scale that a statement finds is the one that the statement before left."""
        for before, link in self._before(st, cells):
            if before.name in self.starts:
                continue
            if before.name in self.rescales:
                if self.rescales[before.name][1].ends:
                    raise _WrongError(f"{describe(st)} goes on with a sum that {describe(before)} has ended")
                left = before.reads[NEW]
            else:
                left = before.reads[self.terms[before.name][1].slot]
            flow = self.p.flow
            same = _same(link, flow.resolve(st, read), flow.resolve(before, left))
            if not same:
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

    def _source_term(self, st: Statement, t: Term) -> tuple[Statement, Read, Value]:
        src = self.p.source_of(st)
        assert src is not None
        slot = next(a for a, b in pair_slots(self.p, st, src) if b == t.slot)
        want = self.p.source.flow.last(src, src.reads[slot])
        if want.monoids != {MAX}:
            raise _WrongError(f"{describe(src)} is not relative to a maximum")
        return src, src.reads[slot], want

    def _partners(self, src: Statement, read: Read, want: Value) -> IslObject:
        """Source instances that add `exp(e - M)` to those that contribute this e to M. Raises _WrongError."""
        found = [s for s in self.p.source.by_id.values() if not _reached(want.adds, s).is_empty()]
        if len(found) != 1 or len(found[0].loop_dims) != len(src.loop_dims):
            raise _WrongError(f"the maximum in {describe(src)} is not that of one sweep like its own")
        (top,) = found
        by: dict[str, Expr] = {a: var(b) for a, b in zip(top.loop_dims, src.loop_dims, strict=True)}
        value = substitute(top.leaf.value, by)
        exponent = _exponent(src.leaf.value)
        written = self.p.source.model.written
        if value != exponent or any(x.buffer in written for x in loads(value)):
            raise _WrongError(f"the maximum in {describe(src)} is not that of its own exponents")
        if top.frame.terms or src.frame.terms:
            raise _WrongError(f"data says how often {describe(src)} happens")
        same = src.frame.map_to(top.name, [src.frame.env[d] for d in src.loop_dims])
        return same.intersect_domain(src.instances).intersect_range(top.instances)

    def _is_bounded(self, st: Statement, t: Term) -> None:
        """No exponent is above the maximum of its time."""
        own = self._own(st, t)
        top = self.p.flow.resolve(st, st.reads[t.slot]).adds.apply_range(self.p.provenance)
        if not st.instances.is_subset(own.domain()) or not isl.UnionMap.from_map(own).is_subset(top):
            raise _WrongError(f"{describe(st)} may add the exponential of something above the maximum so far")

    def _own(self, st: Statement, t: Term) -> IslObject:
        """Instances that add a term to the source instances that contribute its exponent to the maximum."""
        return self.p.origin_map(st).apply_range(self._partners(*self._source_term(st, t)))

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
        for k, t in self.terms.values():
            path = _reached(adds, k)
            if path.is_empty():
                continue
            _, _, want = self._source_term(k, t)
            origin = isl.UnionMap.from_map(p.origin_map(k))
            pairs = path.wrap()
            for got, wanted in ((base, want.base), (top, want.adds)):
                here = path.domain_map().apply_range(got).intersect_domain(pairs)
                there = path.range_map().apply_range(origin.apply_range(wanted)).intersect_domain(pairs)
                if not here.is_equal(there):
                    raise _WrongError(
                        f"{describe(st)} ends with another maximum than the source has in {describe(k)}"
                    )
            covered = covered.union(path.apply_range(isl.UnionMap.from_map(self._own(k, t))))
        old = p.flow.resolve(st, st.reads[OLD])
        if not old.adds.apply_range(p.provenance).is_equal(covered):
            raise _WrongError(f"{describe(st)} ends a sum of other elements than its maximum is of")

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


def _exponent(e: Expr) -> Expr | None:
    power = power_in(e)
    found = None if power is None else difference(power)
    return None if found is None or not isinstance(found.rhs, Load) else found.lhs
