"""Atomic updates for which lanes of a warp that go to one cell first put their values together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evolve.codegen.place import Place
from evolve.ir.expr import Const
from evolve.ir.stmt import Reduce
from evolve.ir.types import Space

if TYPE_CHECKING:
    from evolve.codegen.emit import KernelEmitter


def aggregated(emitter: KernelEmitter, s: Reduce, value: str, place: Place) -> str:
    """The statement of an aggregated update; `value` is the text of what a lane adds."""
    b = emitter.buffers[s.buffer]
    function = emitter.collectives.aggregate(
        s.monoid,
        b.dtype,
        emitter.threads.cut_row,
        alike=isinstance(emitter.simplified(s.value, place), Const),
    )
    cells = emitter.names.of(b.name)
    if b.space is Space.SHARED:
        cells = f"&{cells}{'[0]' * max(1, len(b.extents))}"
    return f"{function}({cells}, {emitter.position(b, s.indices, place)}, {value});"
