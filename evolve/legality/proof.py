"""What all checks share: the two models, the claimed correspondence, and what they report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import islpy as isl

from evolve.dsl.diagnostic import Diagnostic
from evolve.ir.expr import Cast, Expr, Find, Load
from evolve.ir.poly import IslObject, NonAffineError, canonical_term, context, limited
from evolve.ir.printer import print_expr
from evolve.ir.scaled import Scaled
from evolve.ir.visit import substitute
from evolve.legality.analysis import SET_UP, Analysis
from evolve.legality.congruence import Congruence
from evolve.legality.flow import Flow
from evolve.legality.instances import ModelError, Statement
from evolve.legality.model import Model
from evolve.legality.verdict import Limits
from evolve.legality.witness import describe


@dataclass(frozen=True)
class Finding:
    """One reason against a proof. `refuted`: known to be wrong; otherwise it could not be shown right."""

    diagnostic: Diagnostic
    refuted: bool = True


def refuted(code: str, message: str, witness: str | None = None, repair: str | None = None) -> Finding:
    return Finding(Diagnostic(code, message, witness=witness or None, repair=repair))


def unknown(code: str, message: str) -> Finding:
    return Finding(Diagnostic(code, message), refuted=False)


@dataclass(frozen=True)
class Original:
    """The source side, computed once per kernel and set of fixed sizes."""

    model: Model
    flow: Flow
    by_id: dict[str, Statement]

    @cached_property
    def congruence(self) -> Congruence:
        """Its statements that compute the same."""
        with limited(SET_UP * self.flow.operations):
            return Congruence(self.model, self.flow)

    @staticmethod
    def of(model: Model, operations: int) -> Original:
        """Raises ModelError when statements of the source are not identified by their origin."""
        by_id: dict[str, Statement] = {}
        for st in model.statements:
            o = st.leaf.origin
            if o is None or o.stmt in by_id:
                raise ModelError(
                    "E-SOURCE", "the lifted kernel does not number its statements", refuted=False
                )
            terms = [st.frame.env[name] for name in st.frame.terms.values()]
            own = st.frame.map_to(st.name, [*(st.frame.affine(e) for e in o.instance), *terms])
            if not own.is_equal(st.frame.map_to(st.name, [st.frame.env[d] for d in st.frame.dims])):
                raise ModelError(
                    "E-SOURCE",
                    f"statement {o.stmt} of the lifted kernel is not its own origin",
                    refuted=False,
                )
            by_id[o.stmt] = st
        return Original(model, Flow(model, operations), by_id)


@dataclass(frozen=True)
class Proof:
    """A source, a target and the limits: the argument of every check.

    `parts` are the launches of the target, each with a model and analysis alone; none when there is only one.
    """

    source: Original
    target: Model
    analysis: Analysis
    flow: Flow
    limits: Limits
    parts: tuple[tuple[Model, Analysis], ...] = ()

    @cached_property
    def launches(self) -> tuple[Proof, ...]:
        """One for each launch: for what concerns the threads and blocks of one."""
        if not self.parts:
            return (self,)
        return tuple(replace(self, target=m, analysis=a, parts=()) for m, a in self.parts)

    def source_of(self, st: Statement) -> Statement | None:
        """The source statement that a target statement claims to perform."""
        origin = st.leaf.origin
        return None if origin is None else self.source.by_id.get(origin.stmt)

    def claims(self) -> list[Finding]:
        """E-COVERAGE for origins that name no statement of the source, or not all of its loops."""
        out: list[Finding] = []
        for st in self.target.statements:
            origin = st.leaf.origin
            if origin is None:
                continue
            src = self.source.by_id.get(origin.stmt)
            if src is None or len(src.loop_dims) != len(origin.instance):
                out.append(refuted("E-COVERAGE", f"{describe(st)} claims an unknown origin {origin.stmt}"))
        return out

    def origin_map(self, st: Statement) -> IslObject:
        """Target instances to source instances, as claimed: of loops, and with the same values in memory.

        Raises NonAffineError, and ModelError E-DATA-LOOP for a condition on data that the source lacks.
        """
        key = st.name
        cached = self._origins.get(key)
        if cached is None:
            src = self.source_of(st)
            assert src is not None and st.leaf.origin is not None
            read = [self._read_by(st, src, t) for t in src.frame.terms]
            # A search follows from the two elements that it falls between, which are terms too (`finding`).
            mine = {name for term, name in st.frame.terms.items() if not isinstance(term, Find)}
            more = sorted(mine - set(read))
            if more:
                # Whether it happens would depend on something that the source does not look at.
                raise ModelError(
                    "E-DATA-LOOP",
                    f"how often {describe(st)} happens depends on {more[0]}, unlike in the source",
                    refuted=False,
                )
            values = [st.frame.affine(e) for e in st.leaf.origin.instance]
            values += [st.frame.env[name] for name in read]
            cached = st.frame.map_to(src.name, values).intersect_domain(st.instances)
            self._origins[key] = cached
        return cached

    def _read_by(self, st: Statement, src: Statement, term: Expr) -> str:
        """The dimension for what the target reads where the source reads `term`: an element of the same array
        that nobody writes, with the same subscripts. Raises NonAffineError when its path reads no such thing.
        """
        assert st.leaf.origin is not None
        wanted = substitute(term, dict(zip(src.loop_dims, st.leaf.origin.instance, strict=True)))
        known = st.frame.terms.get(canonical_term(wanted))
        if known is not None:
            return known
        for mine, name in st.frame.terms.items():
            if self._same_element(st, mine, wanted):
                return name
        raise NonAffineError(print_expr(wanted))

    def _same_element(self, st: Statement, mine: Expr, wanted: Expr) -> bool:
        """Whether both are elements of one array, subscripts being equal for the sizes of the target."""
        match mine, wanted:
            case Cast(arg=Load() as a), Cast(arg=Load() as b) if a.buffer == b.buffer:
                pairs = zip(a.indices, b.indices, strict=True)
            case _:
                return False
        try:
            return all(
                st.instances.is_subset(st.frame.affine(x).eq_set(st.frame.affine(y))) for x, y in pairs
            )
        except NonAffineError:
            return False

    @cached_property
    def _origins(self) -> dict[str, IslObject]:
        return {}

    @cached_property
    def held(self) -> dict[str, frozenset[str]]:
        """For `producers.holders` to remember."""
        return {}

    @cached_property
    def congruence(self) -> Congruence | None:
        """What of the source computes the same. None where nothing does, and under `exact`: sets of
        contributions are compared, and there their order counts."""
        exact = self.limits.numerics == "exact"
        return self.source.congruence if not exact and self.source.congruence.any else None

    @cached_property
    def scaled(self) -> Scaled:
        """What the target keeps relative to a maximum that still grows."""
        return Scaled.of(self.target.kernel)

    @cached_property
    def real(self) -> list[Statement]:
        """Target statements that perform a source statement."""
        return [s for s in self.target.statements if self.source_of(s) is not None]

    @cached_property
    def provenance(self) -> IslObject:
        """All target instances with an origin, to their source instances (union map)."""
        out = isl.UnionMap.read_from_str(context(), "{ }")
        for st in self.real:
            out = out.union(isl.UnionMap.from_map(self.origin_map(st)))
        return out
