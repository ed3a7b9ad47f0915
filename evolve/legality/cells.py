"""Which memory cell an access is to, and who holds an element of a distributed register buffer.

`model` says what cells are; here they are written down as maps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evolve.ir.expr import Expr
from evolve.ir.kernel import Kernel
from evolve.ir.layout import Layout, LayoutError, slot_of
from evolve.ir.poly import IslObject, path_terms
from evolve.ir.scope import ranges_at
from evolve.ir.types import LoopKind, Space
from evolve.legality.geometry import THREAD_AXES, Geometry
from evolve.legality.instances import Declared, ModelError, Statement, value_at


@dataclass(frozen=True)
class Cells:
    """The cells of a kernel: of its local buffers, its launches, and its register layouts.

    `_held` remembers the accesses whose owner and slot have been shown.
    """

    kernel: Kernel
    declared: Mapping[str, Declared]
    geometries: Sequence[Geometry]
    layouts: Mapping[str, Layout]
    _held: set[tuple[str, str, tuple[Expr, ...]]] = field(default_factory=set)

    def of(
        self, st: Statement, buffer: str, indices: tuple[Expr, ...], where: IslObject, physical: bool
    ) -> IslObject:
        """The instances in `where` to the cells of an access. See `Model.cells`."""
        values = [st.frame.affine(i) for i in indices]
        tags = [value_at(st.frame, x) for x in self._tags(st, buffer, indices, physical, where)]
        return st.frame.map_to(buffer, [*tags, *values]).intersect_domain(where)

    def _tags(
        self, st: Statement, buffer: str, indices: tuple[Expr, ...], physical: bool, where: IslObject
    ) -> list[Expr | str | int]:
        declared = self.declared.get(buffer)
        if declared is None or declared.buffer.space is Space.GLOBAL:
            return []
        tags: list[Expr | str | int] = list(st.blocks)
        around = [x for x in declared.site.loops if not (x.kind.is_grid or x.kind.is_thread)]
        terms = tuple(path_terms(declared.site.path).values())
        if declared.buffer.space is Space.SHARED:
            if any(x.kind.is_thread for x in declared.site.loops):
                raise ModelError("E-SHARED-SCOPE", f"shared buffer {buffer} is declared inside a thread loop")
            return tags if physical else [*tags, *(x.var for x in around), *terms]
        tags += [*(x.var for x in around), *terms]
        layout = self.layouts.get(buffer)
        owners: set[LoopKind] = set()
        if layout is not None:
            owners = {d.axis for dim in layout.dims for d in dim if d.axis is not None}
            self._owned(st, layout, indices, where)
        for axis, t in zip(THREAD_AXES, st.threads, strict=True):
            if axis not in owners and self.geometries[st.launch].threads[axis] > 1:
                tags.append(t)
        return tags

    def _owned(self, st: Statement, layout: Layout, indices: tuple[Expr, ...], where: IslObject) -> None:
        """Raises ModelError E-OWNER unless the accessing thread holds the element in the slot that
        code generation will address: owner and slots must spell the logical index, digit by digit."""
        key = (st.name, layout.buffer, indices)
        if key in self._held or not layout.is_distributed:
            return
        try:
            slots = iter(slot_of(layout, indices, st.site.loops, ranges_at(self.kernel, st.site.path)))
        except LayoutError as e:
            raise ModelError(e.code, e.message, witness=e.witness) from e
        by_kind = {x.kind: x.var for x in st.site.loops}
        combining = next((x.var for x in st.site.loops if x.kind.is_combine), None)
        good = where
        for dim, subscript in zip(layout.dims, indices, strict=True):
            spelled = st.frame.constant(0)
            for position, digit in enumerate(dim):
                lane = combining if digit.axis is LoopKind.THREAD_X else None
                name = None if digit.axis is None else lane or by_kind.get(digit.axis)
                v = st.frame.affine(next(slots)) if digit.axis is None else value_at(st.frame, name or 0)
                good = good.intersect(v.ge_set(st.frame.constant(0))) if position else good
                good = good.intersect(v.lt_set(st.frame.constant(digit.extent))) if position else good
                spelled = spelled.add(v.mul(st.frame.constant(digit.stride)))
            good = good.intersect(spelled.eq_set(st.frame.affine(subscript)))
        if not where.is_subset(good):
            raise ModelError("E-OWNER", f"owner and slot of {layout.buffer} do not spell the subscript")
        self._held.add(key)
