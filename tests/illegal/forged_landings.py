"""Asynchronous copies of one statement that have happened at waits of different places. Part of `forged`."""

from __future__ import annotations

from dataclasses import replace

from evolve.ir.expr import Expr, Load, add, floordiv, index, mod, mul, sub, var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Reduce, Stmt, Store, Wait
from evolve.ir.visit import map_expr, rewrite, variables
from tests.illegal.forging import change, forged, scheduled, with_loop

TWO_AHEAD = """
specialize(K == 16)
tile([i, j], [8, 8])
bind(i.o, grid.y)
bind(j.o, grid.x)
distribute([i.i, j.i])
split(k, 4)
reorder([k.o, i.i.1, j.i.1, k.i])
a = stage(A, at=k.o, scope=shared)
bind([i.i.0, i.i.1, i.i.2, a.0], thread.y)
bind([j.i.0, j.i.1, j.i.2, a.1], thread.x)
make_async(a)
multi_buffer(a, n=3)
pipeline(k.o, ahead=2)
peel(k.o, last=1)
"""
"""Tiles 0 and 1 are copied before the loop, waited for before it and in it. The last tile is peeled off."""


def good() -> Kernel:
    return scheduled("matmul", TWO_AHEAD)


@forged("matmul", "E-FLOW", "wrong", M=16, N=16, K=16)
def tile_added_last_where_another_lies_by_then() -> Kernel:
    """The loop adds up tiles 0, 2 and 3, what follows it tile 1: in its place lies tile 3 since."""
    m = var("k.o.main")

    def waits(s: Stmt) -> Stmt | None:
        return Wait(0) if isinstance(s, Wait) else None

    def moved(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and s.asynchronous and "k.o.main" in variables(s.indices[0]):
            return replace(s, indices=(sub(index(2), m), *s.indices[1:]))
        if isinstance(s, Reduce) and s.buffer == "sum" and s.origin is not None:
            in_loop = "k.o.main" in variables(s.origin.instance[2])
            if in_loop:
                return _of(s, add(m, floordiv(add(m, 1), 2)), mod(mul(m, 2), 3), var("k.i"))
            return _of(s, index(1), index(1), var("k.i.last"))
        return None

    at_once = with_loop(good(), "k.o.main", lambda s: replace(s, body=rewrite(s.body, waits)))
    return change(at_once, moved)


def _of(s: Reduce, tile: Expr, place: Expr, column: Expr) -> Reduce:
    """The sum of another tile, from where that lies."""
    assert s.origin is not None
    at = add(mul(tile, 4), column)

    def one(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == "B":
            return replace(e, indices=(at, e.indices[1]))
        return replace(e, indices=(place, *e.indices[1:])) if isinstance(e, Load) and e.buffer == "a" else e

    i, j, _ = s.origin.instance
    return replace(s, value=map_expr(s.value, one), origin=replace(s.origin, instance=(i, j, at)))
