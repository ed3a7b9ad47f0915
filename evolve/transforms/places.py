"""Where a copy of a buffer may be declared: in shared memory once a block, and never beside grid loops."""

from __future__ import annotations

from evolve.dsl.diagnostic import RefusedError
from evolve.ir.stmt import For
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import Site
from evolve.transforms.taken import taken


def check_runs_in_order(at: For) -> None:
    """Raises RefusedError E-LOOP-KIND for a loop whose iterations no thread runs one by one."""
    if at.kind.is_combine or at.kind is LoopKind.VECTOR:
        raise RefusedError("E-LOOP-KIND", f"{at.var} is a {at.kind.value} loop")


def check_scope(at: For, site: Site, space: Space, *, what: str, outside: str, verb: str) -> None:
    """Raises RefusedError where `what`, in memory of that space, cannot stand in the body of `at`.

    E-SHARED-SCOPE: shared memory inside a thread loop; `outside` is the repair. E-GRID-NEST: a grid loop
    inside; the repair is to `verb` there.
    """
    thread = next((x for x in (*site.loops, at) if x.kind.is_thread), None)
    if space is Space.SHARED and thread is not None:
        raise RefusedError(
            "E-SHARED-SCOPE",
            f"{at.var} is inside thread loop {thread.var}: shared memory belongs to the whole block",
            repair=outside,
        )
    grids = taken(at.body).grid
    if grids:
        grid = grids[0][0]
        raise RefusedError(
            "E-GRID-NEST",
            f"{what} at {at.var} would stand beside the grid loop {grid}",
            repair=f"{verb} at {grid} or inside it",
        )
