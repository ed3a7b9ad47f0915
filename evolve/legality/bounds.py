"""Check `bounds`: every access lies in its buffer, or is one that the source makes at that instance."""

from __future__ import annotations

from evolve.ir.data import step_terms
from evolve.ir.expr import Cast, Expr, Load
from evolve.ir.poly import Frame, IslObject, NonAffineError, domain, limited, path_terms
from evolve.ir.printer import print_expr
from evolve.ir.stmt import For, If
from evolve.ir.visit import loads, walk
from evolve.legality.instances import Statement
from evolve.legality.model import Model
from evolve.legality.proof import Finding, Proof, refuted, unknown
from evolve.legality.witness import describe, sample_instance


def check_bounds(p: Proof) -> list[Finding]:
    """E-BOUNDS for copies, windows, tails; inherited accesses of the source are the source's business."""
    out: list[Finding] = []
    for st in p.target.statements:
        accesses = [(r.load.buffer, r.load.indices, r.instances, r.opaque) for r in st.reads]
        accesses += [(x.buffer, x.indices, st.instances, False) for i in st.leaf.indices for x in loads(i)]
        accesses.append((st.leaf.buffer, st.leaf.indices, st.instances, False))
        for buffer, indices, where, opaque in accesses:
            if opaque and p.source_of(st) is not None:
                continue  # `equality` demands the same subscripts of the same untouched buffer
            found = _access(p, st, buffer, indices, where)
            if found is not None:
                out.append(found)
    return out + _steps(p)


def _steps(p: Proof) -> list[Finding]:
    """E-BOUNDS for what extents and conditions read: wherever a loop is reached, not only where it runs."""
    out: list[Finding] = []
    model = p.target
    for site in walk(model.kernel.body):
        step = site.stmt
        if not isinstance(step, For | If) or not step_terms(step):
            continue
        terms = path_terms((*site.path, step))
        frame = Frame.of("", (*(x.var for x in site.loops), *terms.values()), model.sizes, terms)
        try:
            with limited(p.limits.operations):
                where = domain(frame, model.kernel, site.path, site.in_else, model.sizes)
                for t in step_terms(step):
                    assert isinstance(t, Cast) and isinstance(t.arg, Load)
                    outside = where.subtract(_inside(frame, model, t.arg, where))
                    if not outside.is_empty():
                        text = print_expr(t.arg)
                        hint = "guard the loop, or split by a factor that divides the extent"
                        message = f"{text}, read to know how often something runs, leaves the buffer"
                        out.append(refuted("E-BOUNDS", message, repair=hint))
        except NonAffineError as e:
            out.append(unknown("E-BOUNDS", f"where {e} is read is outside what the prover can express"))
    return out


def _inside(frame: Frame, model: Model, load: Load, where: IslObject) -> IslObject:
    for i, extent in zip(load.indices, model.buffers[load.buffer].extents, strict=True):
        v = frame.affine(i)
        where = where.intersect(v.ge_set(frame.constant(0))).intersect(v.lt_set(frame.affine(extent)))
    return where


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
            # A local buffer is the target's own, even if the source has one of that name.
            if buffer not in p.target.declared and _inherited(p, st, buffer, indices, outside):
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
