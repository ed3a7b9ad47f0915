"""What other compilers were reported to get wrong, made of good kernels here: see `test_corpus`."""

from __future__ import annotations

from dataclasses import replace

from evolve.ir.expr import index
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Barrier, Block, For, Reduce, Stmt
from evolve.ir.types import LoopKind
from tests.illegal.forging import change, forged, good, with_loop, without_barrier


@forged("histogram", "E-RACE", "race", n=48)
def bins_read_while_they_are_updated() -> Kernel:
    """TileLang #2595: an atomic update is a write, for a barrier too."""
    return without_barrier(good("histogram", 2), 1)


@forged("histogram", "E-RACE", "race", n=48)
def bins_updated_before_they_start() -> Kernel:
    return without_barrier(good("histogram", 2), 0)


@forged("histogram", "E-RACE", "race", n=48)
def bins_updated_by_halves() -> Kernel:
    """An update of memory that blocks share, made in two steps."""
    return change(good("histogram"), lambda s: replace(s, atomic=False) if isinstance(s, Reduce) else None)


@forged("transpose", "E-RACE", "race", rows=16, cols=16)
def vectors_read_before_they_are_written() -> Kernel:
    """TileLang #2699: a wide store is a write of all its elements."""
    return without_barrier(good("transpose", 1), 0)


@forged("row_sum", "E-COMBINE", "unrendered", cols=64)
def half_of_the_lanes_combined() -> Kernel:
    """HIP #3213: what a shuffle's width means."""

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, For) and s.kind is LoopKind.COMBINE_WARP:
            return replace(s, extent=index(16))
        return None

    return change(good("row_sum", 1), one)


@forged("sweep", "E-RACE", "race", cols=9, grids=3)
def threads_bound_before_an_interchange() -> Kernel:
    """Tiramisu #422: bound while that was right, then put around the loop that carries."""
    k = change(good("sweep"), lambda s: () if isinstance(s, Barrier) else None)

    def one(s: For) -> For:
        (inner,) = (x for x in s.body.stmts if isinstance(x, For))
        return replace(inner, body=Block((replace(s, body=inner.body),)))

    return with_loop(k, "i", one)
