"""What the prover knows of `Find`: where among the elements of a nondecreasing array a value falls.

An instance with a `Find` carries what was found and the two elements around it, like all that it reads.
These three name the value's segment: if the elements are what memory holds there, no other segment has the
value, because the array is nondecreasing. So an instance of the source that has read the same two elements
belongs to exactly one such instance, and to one that happens whenever the source's does (`Proof.origin_map`).
"""

from __future__ import annotations

from evolve.ir.data import segment
from evolve.ir.expr import Find, sub
from evolve.ir.kernel import Kernel
from evolve.ir.poly import Frame, IslObject
from evolve.ir.printer import print_expr
from evolve.legality.instances import ModelError


def where_found(kernel: Kernel, frame: Frame, instances: IslObject) -> IslObject:
    """The instances with what their searches can find.

    Raises ModelError E-BOUNDS (unknown) unless each value searched for is one that the array covers: from its
    first element on, below its last; E-DATA-LOOP for an array without that premise. NonAffineError for values
    outside isl's language.
    """
    for f in frame.terms:
        if not isinstance(f, Find):
            continue
        value = frame.affine(f.value)
        premise = next((c for c in kernel.contents if c.buffer == f.buffer and c.nondecreasing), None)
        if premise is None:
            raise ModelError("E-DATA-LOOP", f"nothing says that {f.buffer} is nondecreasing", refuted=False)
        last = frame.affine(sub(premise.high, 1))
        covered = value.ge_set(frame.affine(premise.low)).intersect(value.lt_set(last))
        if not instances.is_subset(covered):
            raise ModelError(
                "E-BOUNDS",
                f"{print_expr(f)}: {print_expr(f.value)} may lie outside of what {f.buffer} covers",
                refuted=False,
            )
        found = frame.affine(f)
        segments = frame.affine(sub(kernel.buffer(f.buffer).extents[0], 1))
        low, high = (frame.affine(t) for t in segment(kernel, f))
        instances = (
            instances.intersect(found.ge_set(frame.constant(0)))
            .intersect(found.lt_set(segments))
            .intersect(value.ge_set(low))
            .intersect(value.lt_set(high))
        )
    return instances
