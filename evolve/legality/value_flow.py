"""Checks `flow` and `final`: every read and every final cell has the value that the source gives it.

By induction over time in the target: if the statements before computed the source's values, and a
statement evaluates the source's expression (`equality`) on reads whose base and contributions are
the source's, it computes the source's value. Reductions are sets of contributions, in any order unless the
contract is `exact` (`order`).
"""

from __future__ import annotations

import islpy as isl

from evolve.dsl.diagnostic import Diagnostic
from evolve.ir.poly import IslObject, limited
from evolve.ir.stmt import Reduce
from evolve.ir.types import MAX, MIN
from evolve.legality.flow import FlowError, Value, extent_box, injective_per_reader
from evolve.legality.instances import Read, Statement
from evolve.legality.order import check_chains, nan_lost, order_broken
from evolve.legality.pairing import MismatchError, pair_loads
from evolve.legality.proof import Finding, Proof, refuted
from evolve.legality.witness import describe, sample_pair

IDEMPOTENT = frozenset((MAX, MIN))
"""Of these a contribution counts as much once as twice."""


def check_flow(p: Proof) -> list[Finding]:
    """E-FLOW, E-UNINIT, E-REDUCTION, E-ORDER."""
    out = check_chains(p)
    for st in p.target.statements if not out else ():
        if st.instances.is_empty():
            continue  # it never happens
        try:
            out += _statement(p, st)
        except FlowError as e:
            out.append(Finding(e.diagnostic, e.refuted))
        except MismatchError:
            pass  # `equality` reports it
    return out[:4]


def _statement(p: Proof, st: Statement) -> list[Finding]:
    if p.source_of(st) is None:
        found = [_initialised(p, st, r, p.flow.last(st, r)) for r in st.reads]
        return [f for f in found if f is not None]
    src = p.source_of(st)
    assert src is not None
    with limited(p.limits.operations):
        pairs = pair_loads(p, st, src)
    out: list[Finding] = []
    done: set[tuple[int, int]] = set()
    added = p.scaled.term(st.leaf)
    if added is not None:
        # Which maximum it is relative to is for `online`.
        pairs = [x for x in pairs if x.target != added.slot]
    for pair in pairs:
        by = pair.performed.st
        r, r_src = st.reads[pair.target], by.reads[pair.source]
        if (
            pair.performed.given is None
        ):  # its own claim: other instances of `src` may be performed for it too
            if (r_src.twin, r.twin) in done:
                continue
            done.add((r_src.twin, r.twin))
        got = p.flow.resolve(st, r)
        bad = _initialised(p, st, r, got)
        if bad is not None:
            out.append(bad)
            continue
        with limited(p.limits.operations):
            link = isl.UnionMap.from_map(pair.performed.reach.intersect_domain(r.instances))
            want = p.source.flow.last(by, r_src)
            finding = _compare(p, got, want, link, describe(st, r))
        if finding is not None:
            out.append(finding)
    return out


def _initialised(p: Proof, st: Statement, r: Read, got: Value) -> Finding | None:
    if got.initial.is_empty():
        return None
    local: list[IslObject] = []
    got.initial.foreach_map(lambda m: local.append(m) if _is_local(p, m) else None)
    for m in local:
        witness = sample_pair(p.target, m)
        return refuted("E-UNINIT", f"{describe(st, r)} can be read before it is written", witness)
    return None


def check_unread(p: Proof) -> list[Finding]:
    """E-UNINIT for reductions into buffers of the target's own that nothing reads; their readers tell."""
    read = {r.load.buffer for st in p.target.statements for r in st.reads}
    for st in p.target.statements:
        unread = st.leaf.buffer in p.target.declared and st.leaf.buffer not in read
        if not unread or not isinstance(st.leaf, Reduce):
            continue
        found = p.flow.found(st).initial
        if not found.is_empty():
            text = f"{describe(st)} goes on with what was never written"
            return [refuted("E-UNINIT", text, sample_pair(p.target, found))]
    return []


def _is_local(p: Proof, m: IslObject) -> bool:
    return m.get_tuple_name(isl.dim_type.out).lstrip("@") in p.target.declared


def check_final(p: Proof) -> list[Finding]:
    """The codes of `check_flow`, for what each global cell holds at the end."""
    out: list[Finding] = []
    arrays = {b.name for b in p.target.kernel.buffers}  # at others nobody looks afterwards
    for buffer in sorted(arrays & (p.source.model.written | p.target.written)):
        try:
            out += _final(p, buffer)
        except FlowError as e:
            out.append(Finding(e.diagnostic, e.refuted))
    return out


def _final(p: Proof, buffer: str) -> list[Finding]:
    got = p.flow.look_through(p.flow.final(buffer), f"the final content of {buffer}")
    with limited(p.limits.operations):
        _, box = extent_box(p.target, buffer, f"!{buffer}")
        want = p.source.flow.final(buffer)
        same = isl.UnionMap.from_map(box.identity())
        finding = _compare(p, got, want, same, f"the final content of {buffer}")
    return [] if finding is None else [finding]


def _compare(p: Proof, got: Value, want: Value, link: IslObject, what: str) -> Finding | None:
    """`link` maps the reader to the source's reader. Raises FlowError on double contributions."""
    strange = got.base.subtract_range(p.provenance.domain()).subtract(got.initial)
    if not strange.is_empty():
        witness = sample_pair(p.target, strange)
        return refuted("E-REDUCTION", f"{what} is a partial result that only a combine may read", witness)
    base = got.base.apply_range(p.provenance).union(got.initial)
    finding = _same(p, base, link.apply_range(want.base), what)
    if finding is not None:
        return finding
    if not got.monoids <= IDEMPOTENT and not injective_per_reader(got.adds, p.provenance):
        raise FlowError(Diagnostic("E-REDUCTION", f"{what} receives a contribution twice"))
    if got.monoids != want.monoids:
        return refuted("E-REDUCTION", f"{what} is reduced with another monoid than in the source")
    differs = _same(p, got.adds.apply_range(p.provenance), link.apply_range(want.adds), what, adds=True)
    return differs or order_broken(p, got, what) or nan_lost(p, got, want, what)


def _same(p: Proof, got: IslObject, want: IslObject, what: str, *, adds: bool = False) -> Finding | None:
    """Equal, or of statements of the source that compute the same."""
    finding = _equal(p, got, want, what, adds=adds)
    like = None if finding is None else p.congruence
    if like is None or not (like.distinct(got) and like.distinct(want)):
        return finding
    return None if like.first(got).is_equal(like.first(want)) else finding


def _equal(p: Proof, got: IslObject, want: IslObject, what: str, *, adds: bool = False) -> Finding | None:
    code = "E-REDUCTION" if adds else "E-FLOW"
    extra = got.subtract(want)
    if not extra.is_empty():
        text = (
            "receives a contribution that the source does not add"
            if adds
            else "is not the value that the source has there"
        )
        return refuted(code, f"{what} {text}", sample_pair(p.target, extra, p.source.model))
    missing = want.subtract(got)
    if not missing.is_empty():
        text = "lacks a contribution" if adds else "is not the value that the source has there"
        return refuted(code, f"{what} {text}", sample_pair(p.target, missing, p.source.model))
    return None
