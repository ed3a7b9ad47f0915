"""Sums of rows that keep their order: each thread adds up one row, which comes through shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evolve.agents.expert.sketch import Sketch
from evolve.ir.expr import Expr, Var, var
from evolve.ir.kernel import Kernel
from evolve.ir.ordered import rounds
from evolve.ir.stmt import Alloc, For, Store
from evolve.ir.types import LoopKind
from evolve.ir.visit import leaves, loads

ROWS, COLUMNS = 16, 128
"""Of a tile; four rows of it are copied at a time, four elements by a thread."""
AHEAD = 2


def sketches(kernel: Kernel, sizes: Mapping[str, int]) -> Iterator[Sketch]:
    """For a kernel that adds up each row of a matrix in a register, and stores it."""
    found = _row_sum(kernel)
    if found is None:
        return
    row, column, array = found
    extents = (row.extent, column.extent)
    names = [e.name for e in extents if isinstance(e, Var)]
    if len(names) != 2 or any(sizes.get(n, 1) % by for n, by in zip(names, (ROWS, COLUMNS), strict=True)):
        return
    r, c = row.var, column.var
    text = f"""specialize({names[0]} % {ROWS} == 0 and {names[1]} % {COLUMNS} == 0)
split({r}, {ROWS})
bind({r}.o, grid.x)
distribute({r}.i)
split({c}, {COLUMNS})
reorder([{c}.o, {r}.i.1, {c}.i])
part = stage({array}, at={c}.o, scope=shared)
set_layout(part, pad=[0, 4])
split([part.0, part.1], 4)
bind(part.0.i, thread.y)
bind([part.1.o, {r}.i.0, {r}.i.1, {r}.i.2], thread.x)
vectorize(part.1.i, 4)
unroll(part.0.o)
split({c}.i, 4)
vectorize({c}.i.i, 4)
unroll({c}.i.o)
make_async(part)
multi_buffer(part, n={AHEAD + 1})
pipeline({c}.o, ahead={AHEAD})
"""
    yield Sketch(text, "a thread adds up a row in its order, tiles of rows are copied ahead")


def _row_sum(kernel: Kernel) -> tuple[For, For, str] | None:
    """The loop over rows, that over columns, and the matrix."""
    if len(kernel.body.stmts) != 1 or not isinstance(kernel.body.stmts[0], For):
        return None
    row = kernel.body.stmts[0]
    parts = [s for s in row.body.stmts if not isinstance(s, Alloc)]
    if row.kind is not LoopKind.PARALLEL or [type(s) for s in parts] != [Store, For, Store]:
        return None
    column = parts[1]
    assert isinstance(column, For)
    steps = [leaf for leaf, _ in leaves(column.body)]
    if len(steps) != 1 or len(column.body.stmts) != 1 or not rounds(steps[0]) or steps[0].indices:
        return None
    here: tuple[Expr, ...] = (var(row.var), var(column.var))
    arrays = {x.buffer for x in loads(steps[0].value) if x.indices == here}
    return (row, column, arrays.pop()) if len(arrays) == 1 else None
