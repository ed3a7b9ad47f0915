"""Check `coverage`: every source instance is performed, effects exactly once, and memory ends the same."""

from __future__ import annotations

import islpy as isl

from evolve.ir.poly import IslObject, NonAffineError, limited
from evolve.ir.stmt import Store
from evolve.legality.instances import Statement
from evolve.legality.proof import Finding, Proof, refuted, unknown
from evolve.legality.value_flow import check_final, check_unread
from evolve.legality.witness import describe, sample_instance, sample_pair


def check_coverage(p: Proof) -> list[Finding]:
    """E-COVERAGE: an instance is missing or invented. E-DUPLICATE: an effect happens twice.

    Buffers of the kernel's own are seen by nobody else. Many-to-one is fine for those of the target: stores
    are replicated or recomputed, and how often a reduction counts is decided at what reads it (E-REDUCTION).
    Stores into those of the source may be missing: whether what they store is needed is decided there too
    (E-FLOW, E-EXPR). Then the final contents are compared.
    """
    out: list[Finding] = []
    performers: dict[str, list[Statement]] = {}
    for st in p.target.statements:
        origin = st.leaf.origin
        if origin is None:
            continue
        performers.setdefault(origin.stmt, []).append(st)
    for name, src in p.source.by_id.items():
        try:
            with limited(p.limits.operations):
                out += _one(p, src, performers.get(name, []))
        except NonAffineError as e:
            out.append(unknown("E-COVERAGE", f"the origin of {describe(src)} is not affine: {e}"))
    return out or check_final(p) or check_unread(p)


def _one(p: Proof, src: Statement, performers: list[Statement]) -> list[Finding]:
    done = src.instances.subtract(src.instances)
    for st in performers:
        image = p.origin_map(st).range()
        invented = image.subtract(src.instances)
        if not invented.is_empty():
            witness = sample_instance(p.source.model, invented)
            return [refuted("E-COVERAGE", f"{describe(st)} performs an instance the source lacks", witness)]
        if _has_effect(p, st):
            twice = done.intersect(image)
            if not twice.is_empty():
                witness = sample_instance(p.source.model, twice)
                return [refuted("E-DUPLICATE", f"two statements perform {describe(src)}", witness)]
            if not p.origin_map(st).is_injective():
                same = p.origin_map(st).apply_range(p.origin_map(st).reverse())
                same = same.subtract(same.domain().identity())
                witness = sample_pair(p.target, same)
                return [refuted("E-DUPLICATE", f"{describe(st)} happens more than once", witness)]
        done = done.union(image).coalesce()
    if isinstance(src.leaf, Store) and src.leaf.buffer in p.source.model.declared:
        return []
    missing = src.instances.subtract(done)
    if missing.is_empty() or _performed_elsewhere(p, missing):
        return []
    witness = sample_instance(p.source.model, missing)
    return [refuted("E-COVERAGE", f"{describe(src)} is not performed everywhere", witness)]


def _has_effect(p: Proof, st: Statement) -> bool:
    return st.leaf.buffer not in p.target.declared


def _performed_elsewhere(p: Proof, missing: IslObject) -> bool:
    """Whether others that compute the same are performed; what reads it is for `value_flow`."""
    like = p.congruence
    if like is None:
        return False
    wanted = isl.UnionSet.from_set(missing).apply(like.to_first)
    return bool(wanted.is_subset(p.provenance.range().apply(like.to_first)))
