"""Check `bounds`: every access lies in its buffer, or is one that the source makes at that instance."""

from __future__ import annotations

from evolve.ir.expr import Expr
from evolve.ir.poly import IslObject, NonAffineError, limited
from evolve.ir.printer import print_expr
from evolve.ir.types import Space
from evolve.legality.instances import Statement
from evolve.legality.model import Model
from evolve.legality.proof import Finding, Proof, refuted, unknown
from evolve.legality.witness import describe, sample_instance


def check_bounds(p: Proof) -> list[Finding]:
    """E-BOUNDS for copies, windows, tails; inherited accesses of the source are the source's business."""
    out: list[Finding] = []
    for st in p.target.statements:
        accesses = [(r.load.buffer, r.load.indices, r.instances, r.opaque) for r in st.reads]
        accesses.append((st.leaf.buffer, st.leaf.indices, st.instances, False))
        for buffer, indices, where, opaque in accesses:
            if opaque and p.source_of(st) is not None:
                continue  # `equality` demands the same subscripts of the same untouched buffer
            found = _access(p, st, buffer, indices, where)
            if found is not None:
                out.append(found)
    return out


def _access(
    p: Proof, st: Statement, buffer: str, indices: tuple[Expr, ...], where: IslObject
) -> Finding | None:
    b = p.target.buffers[buffer]
    text = f"{buffer}[{', '.join(print_expr(i) for i in indices)}]"
    try:
        with limited(p.limits.operations):
            inside = where
            for i, extent in zip(indices, b.extents, strict=True):
                v = st.frame.affine(i)
                inside = inside.intersect(v.ge_set(st.frame.constant(0)))
                inside = inside.intersect(v.lt_set(st.frame.affine(extent)))
            outside = where.subtract(inside)
            if outside.is_empty():
                return None
            if b.space is Space.GLOBAL and _inherited(p, st, buffer, indices, outside):
                return None
            return refuted(
                "E-BOUNDS",
                f"{text} in {describe(st)} leaves the buffer",
                sample_instance(p.target, outside),
                "guard the access, or split by a factor that divides the extent",
            )
    except NonAffineError:
        return unknown("E-BOUNDS", f"the subscripts of {text} are outside what the prover can express")


def _inherited(p: Proof, st: Statement, buffer: str, indices: tuple[Expr, ...], outside: IslObject) -> bool:
    """Whether the source touches the same cell at the instance that this one performs."""
    src = p.source_of(st)
    if src is None:
        return False
    new = p.target.cells(st, buffer, indices).intersect_domain(outside)
    old: IslObject | None = None
    for cells in _source_cells(p.source.model, src, buffer):
        here = p.origin_map(st).apply_range(cells)
        old = here if old is None else old.union(here)
    return old is not None and bool(new.is_subset(old))


def _source_cells(model: Model, src: Statement, buffer: str) -> list[IslObject]:
    out = [model.read(src, r) for r in src.reads if r.load.buffer == buffer and not r.opaque]
    if src.leaf.buffer == buffer:
        out.append(model.write(src))
    return out
