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
scales like any values: same start, same contributions, of each reader as flows are total, which `flow` asks.
And m only grows (`_grows`): equal by algebra is not enough where `exp(old - m)` overflows.

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
from functools import cached_property

import islpy as isl

from evolve.ir.expr import Const, Expr
from evolve.ir.poly import IslObject, NonAffineError, context, limited
from evolve.ir.scaled import (
    NEW,
    OLD,
    Rescale,
    rescaling,
)
from evolve.ir.stmt import Store
from evolve.ir.types import MAX, Space
from evolve.legality.exponentials import Exponential, Exponentials, WrongError, reached
from evolve.legality.flow import FlowError, Value, identity_of, previous
from evolve.legality.instances import Read, Statement
from evolve.legality.pairing import MismatchError
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
        except WrongError as e:
            out.append(refuted("E-ONLINE", str(e)))
        except FlowError as e:
            out.append(Finding(e.diagnostic, e.refuted))
        except (NonAffineError, MismatchError) as e:
            out.append(unknown("E-ONLINE", f"the running sum {buffer} cannot be followed: {e}"))
    return out


def _check_power(p: Proof, buffer: str) -> None:
    """A power is read only by what adds it to a scaled sum. Raises WrongError."""
    if p.target.buffers[buffer].space is Space.GLOBAL:
        raise WrongError(f"{buffer} is relative to a maximum of its time and outlives it")
    for st in p.target.statements:
        used = [r for r in st.reads if r.load.buffer == buffer]
        if used and not st.is_copy and p.scaled.power_slot(st.leaf) is None:
            raise WrongError(f"{describe(st, used[0])} is relative to a maximum of its time")


@dataclass
class _Sum:
    """One scaled buffer and the statements that write it."""

    p: Proof
    buffer: str
    terms: dict[str, tuple[Statement, list[Exponential]]] = field(default_factory=dict)
    rescales: dict[str, tuple[Statement, Rescale]] = field(default_factory=dict)
    starts: set[str] = field(default_factory=set)

    @cached_property
    def _exponentials(self) -> Exponentials:
        return Exponentials(self.p)

    def check(self) -> None:
        """Raises WrongError and what its queries raise."""
        self._sort()
        for st, exponentials in self.terms.values():
            self._is_bounded(st, exponentials)
            self._goes_on(st, self.p.target.write(st), self._exponentials.scale(exponentials))
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
            raise WrongError(f"the running sum {self.buffer} is not in registers")
        for st in self._writers():
            found = rescaling(st.leaf)
            if st.frame.terms:
                raise WrongError(f"data says how often {describe(st)} happens")
            if found is not None:
                self.rescales[st.name] = (st, found)
            elif exponentials := self._exponentials.of(st):
                self.terms[st.name] = (st, exponentials)
            elif isinstance(st.leaf, Store) and _is_zero(st.leaf.value):
                self.starts.add(st.name)
            else:
                raise WrongError(f"{describe(st)} is neither a start at zero nor a step of the running sum")

    def _writers(self) -> list[Statement]:
        return [st for st in self.p.target.statements if st.leaf.buffer == self.buffer]

    def _before(self, st: Statement, cells: IslObject) -> list[tuple[Statement, IslObject]]:
        """The statement instances that touched it last. Raises WrongError unless it is one each time."""
        found = previous(self.p.target, self._writers(), cells, st)
        if any(not m.is_single_valued() for _, m in found):
            raise WrongError(f"{describe(st)} finds {self.buffer} as several instances at once left it")
        return found

    def _goes_on(self, st: Statement, cells: IslObject, taken: Value) -> None:
        """The scale that a statement takes the sum to have is the one that the statement before left."""
        for before, link in self._before(st, cells):
            if before.name in self.starts:
                continue
            if before.name in self.rescales:
                if self.rescales[before.name][1].ends:
                    raise WrongError(f"{describe(st)} goes on with a sum that {describe(before)} has ended")
                left = self.p.flow.resolve(before, before.reads[NEW])
            else:
                left = self._exponentials.scale(self.terms[before.name][1])
            if not self._same(link, taken, left):
                raise WrongError(
                    f"{describe(st)} takes {self.buffer} to be relative to another maximum than it is"
                )

    def _same(self, link: IslObject, here: Value, before: Value) -> bool:
        """Whether two values are the same: `link` maps instances that read one to those that read the other.

        Threads may each have started and gathered it for themselves: the source did so once. That they are
        maxima follows from the claims of what they gather: to perform a step of a maximum with another monoid
        is refused (`equality`), and so is a value with several (`flow`).
        """
        link = isl.UnionMap.from_map(link)
        return all(
            self._sourced(a.intersect_domain(link.domain())).is_equal(self._sourced(link.apply_range(b)))
            for a, b in ((here.base, before.base), (here.adds, before.adds))
        )

    def _sourced(self, relation: IslObject) -> IslObject:
        """With source instances in place of those that perform them."""
        performed = relation.intersect_range(self.p.provenance.domain())
        return relation.subtract(performed).union(performed.apply_range(self.p.provenance))

    def _grows(self, st: Statement) -> None:
        """The scale that a rescaling finds is not above the one that it leaves: no factor is above 1.

        Steps up and down would cancel, were it not that `exp` overflows, and that 0 * inf is no number.
        """
        old, new = (self.p.flow.resolve(st, st.reads[slot]) for slot in (OLD, NEW))
        start = old.base
        for s in self.p.target.statements:
            if identity_of(s, MAX):
                start = start.subtract_range(isl.UnionSet.from_set(s.instances))
        if not all(
            self._sourced(a).is_subset(self._sourced(b)) for a, b in ((start, new.base), (old.adds, new.adds))
        ):
            raise WrongError(f"{describe(st)} may bring {self.buffer} to a maximum below the one it had")

    def _is_bounded(self, st: Statement, exponentials: list[Exponential]) -> None:
        """No exponent is above the maximum of its time."""
        for x in exponentials:
            own = x.link.apply_range(isl.UnionMap.from_map(self._exponentials.own(x)))
            top = self.p.flow.resolve(x.st, x.st.reads[x.term.slot]).adds.apply_range(self.p.provenance)
            if not own.is_subset(x.link.apply_range(top)):
                raise WrongError(
                    f"{describe(st)} may add the exponential of something above the maximum so far"
                )

    def _ends(self, st: Statement) -> None:
        """The last scale is the source's, of as many elements as were added."""
        p = self.p
        adds = p.flow.last(st, st.reads[0]).adds
        if not isl.UnionSet.from_set(st.instances).is_subset(adds.domain()):
            raise WrongError(f"{describe(st)} may end a sum to which nothing was added")
        last = p.flow.resolve(st, st.reads[NEW])
        if not last.base.subtract_range(p.provenance.domain()).is_empty():
            raise WrongError(f"{describe(st)} ends with a maximum that does not start like the source's")
        base, top = last.base.apply_range(p.provenance), last.adds.apply_range(p.provenance)
        covered = adds.subtract(adds)
        for k, x in self._all_exponentials():
            path = reached(adds, k).apply_range(x.link)
            of, want = self._exponentials.source_term(x)
            origin = isl.UnionMap.from_map(of.reach)
            for got, wanted in ((base, want.base), (top, want.adds)):
                here, there = path.domain_map(), path.range_map()  # of [st -> where it is evaluated]
                if not here.apply_range(got).is_equal(there.apply_range(origin).apply_range(wanted)):
                    raise WrongError(
                        f"{describe(st)} ends with another maximum than the source has in {describe(k)}"
                    )
            covered = covered.union(path.apply_range(isl.UnionMap.from_map(self._exponentials.own(x))))
        old = p.flow.resolve(st, st.reads[OLD]).adds.apply_range(p.provenance)
        if not old.is_equal(covered) and not self._is_part(adds.reverse().apply_range(old)):
            raise WrongError(f"{describe(st)} ends a sum of other elements than its maximum is of")

    def _is_part(self, elements: IslObject) -> bool:
        """Whether the sum is only combined into totals of all that its maximum is of.

        `elements` maps contributions to what the maximum is of. If that is inf for an element of another
        part, this part may be NaN where the source's terms are 0; the total is NaN in both.
        """
        p = self.p
        own = isl.UnionMap.read_from_str(context(), "{ }")
        for _, x in self._all_exponentials():
            own = own.union(x.link.apply_range(isl.UnionMap.from_map(self._exponentials.own(x))))
        readers = [st for st in p.target.statements if st.name not in self.rescales]
        parts = [st for st in readers if any(r.load.buffer == self.buffer for r in st.reads)]
        totals = {st.leaf.buffer for st in parts}
        if not all(st.is_combine and st.leaf.buffer in p.target.declared for st in parts):
            return False
        for st in readers:
            for r in st.reads:
                if r.load.buffer in totals:
                    total = p.flow.resolve(st, r).adds
                    if not total.apply_range(elements).is_subset(total.apply_range(own)):
                        return False
        return True

    def _all_exponentials(self) -> Iterator[tuple[Statement, Exponential]]:
        for k, exponentials in self.terms.values():
            for x in exponentials:
                yield k, x

    def _is_final(self, st: Statement, read: Read) -> None:
        """What reads the sum finds it ended. Copies are not followed."""
        if st.is_copy:
            raise WrongError(f"{describe(st)} copies a running sum")
        for before, _ in self._before(st, self.p.target.read(st, read)):
            if before.name in self.starts:
                continue
            if before.name not in self.rescales or not self.rescales[before.name][1].ends:
                raise WrongError(
                    f"{describe(st, read)} is relative to a maximum that is not the source's yet"
                )


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0
