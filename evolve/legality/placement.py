"""Check `layout`: each cell of a shared tile has a place of its own inside the tile.

Races, bounds and value flow are proved of cells by their subscripts. That holds of the memory behind them
because a swizzle is a bijection of each row's columns; and a vector may be read in one go, aligned, because
it keeps groups of columns together (`ir.lanes.lies_wide`).
"""

from __future__ import annotations

from evolve.ir.layout import misplaced
from evolve.ir.scope import ranges_at
from evolve.legality.instances import constant_at
from evolve.legality.proof import Finding, Proof, refuted, unknown


def check_layout(p: Proof) -> list[Finding]:
    """E-LAYOUT."""
    out: list[Finding] = []
    for d in p.target.declared.values():
        b = d.buffer
        if b.swizzle is None:
            continue
        columns = constant_at(b.extents[-1], ranges_at(p.target.kernel, d.site.path))
        if columns is None:
            out.append(unknown("E-LAYOUT", f"swizzled buffer {b.name} has no constant number of columns"))
            continue
        wrong = misplaced(b.swizzle, columns)
        if wrong is not None:
            out.append(refuted("E-LAYOUT", f"the swizzle of {b.name} is no layout: {wrong}"))
    return out
