"""What `exact` asks: each sum and product of floats is one chain of roundings, in the source's order.

Flow compares contributions as sets. A chain of them is the source's, bit for bit, if none is a partial
result (those are combined by statements without an origin), none an atomic update, and if any two that reach
the same reader come in the source's order. Text order is that of execution for all that touches one cell
(`model`), and for cells that a value is copied between: what is added before a copy comes before it.
Maxima and minima may be regrouped: `fmaxf` and `fminf` drop NaNs in any order, but see `nan_lost`.
"""

from __future__ import annotations

import islpy as isl

from evolve.ir.expr import Cast, Const, Unary
from evolve.ir.ordered import contracts, regroups, rounds
from evolve.ir.poly import IslObject, context
from evolve.ir.stmt import Leaf, Reduce
from evolve.ir.types import MAX, MIN
from evolve.legality.flow import Value
from evolve.legality.model import Model
from evolve.legality.proof import Finding, Proof, refuted
from evolve.legality.witness import describe, sample_pair

_EXTREMES = frozenset((MAX, MIN))


def check_chains(p: Proof) -> list[Finding]:
    """E-ORDER for statements that are no single step of a chain, where the contract is `exact`."""
    if p.limits.numerics != "exact":
        return []
    found = ((st, regroups(st.leaf) or contracts(st.leaf)) for st in p.target.statements)
    return [_refused(f"{describe(st)} {why}") for st, why in found if why is not None]


def order_broken(p: Proof, got: Value, what: str) -> Finding | None:
    """E-ORDER when contributions to `what` come in another order than the source's, and that rounds."""
    if p.limits.numerics != "exact" or got.adds.is_empty():
        return None
    adds = got.adds.intersect_range(_rounding(p.target))
    pairs = adds.reverse().apply_range(adds)
    ours, theirs = _times(p.target), _times(p.source.model)
    forward = pairs.intersect(ours.lex_lt_union_map(ours))
    there = forward.apply_domain(p.provenance).apply_range(p.provenance)
    turned = there.subtract(theirs.lex_lt_union_map(theirs))
    if turned.is_empty():
        return None
    witness = sample_pair(p.source.model, turned)
    return _refused(f"{what} gathers contributions in another order than the source", witness)


def nan_lost(p: Proof, got: Value, want: Value, what: str) -> Finding | None:
    """E-ORDER when a maximum or minimum begins in the source with what may be a NaN, and has partial results.

    `fmaxf` of NaNs alone is a NaN. A partial result begins with the identity, an infinity, which then wins.
    In any other order without that it stays the same.
    """
    if p.limits.numerics != "exact" or not got.monoids & _EXTREMES or not _has_partial_extremes(p):
        return None
    begins: list[str] = []
    want.base.foreach_map(lambda m: begins.append(m.get_tuple_name(isl.dim_type.out)))
    numbers = {st.name for st in p.source.model.statements if _stores_number(st.leaf)}
    if set(begins) <= numbers:
        return None
    return _refused(f"{what} begins with what may be a NaN, which partial results from infinity on hide")


def _has_partial_extremes(p: Proof) -> bool:
    leaves = (st.leaf for st in p.target.statements if p.source_of(st) is None)
    return any(isinstance(x, Reduce) and x.monoid in _EXTREMES and x.value.dtype.is_float for x in leaves)


def _stores_number(leaf: Leaf) -> bool:
    """Whether a literal other than NaN, or an integer, is what a statement stores."""
    value = leaf.value
    while isinstance(value, Cast | Unary):
        value = value.arg
    return not value.dtype.is_float or (isinstance(value, Const) and value.value == value.value)


def _refused(message: str, witness: str | None = None) -> Finding:
    return refuted("E-ORDER", f"{message}, and numerics are exact", witness)


def _rounding(model: Model) -> IslObject:
    """Instances of the steps of sums and products of floats."""
    out = isl.UnionSet.read_from_str(context(), "{ }")
    for st in model.statements:
        if rounds(st.leaf):
            out = out.union(isl.UnionSet.from_set(st.instances))
    return out


def _times(model: Model) -> IslObject:
    """When each of these instances comes (union map)."""
    out = isl.UnionMap.read_from_str(context(), "{ }")
    for st in model.statements:
        if rounds(st.leaf):
            out = out.union(isl.UnionMap.from_map(model.time_map(st)))
    return out
