"""Prefetches that ask for what is not there, or for what is no array's."""

from __future__ import annotations

from dataclasses import replace

from evolve.ir.expr import Binary, BinaryOp, Load, index
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_stmt
from evolve.ir.stmt import Alloc, If, Stmt, Store
from evolve.ir.types import Space
from tests.illegal.forging import change, forged, scheduled

ASKING = (
    "bind(r, grid.x)\nasked = prefetch(in, at=r)\nsplit(c, 32)\nwarp_reduce(c.i)\nbind(asked.1, thread.x)"
)


def asking() -> Kernel:
    return scheduled("row_sum", "specialize(cols == 1024)\n" + ASKING)


@forged("row_sum", "E-BOUNDS", "out-of-bounds", rows=3, cols=1024)
def row_asked_for_behind_the_last() -> Kernel:
    """The guard dropped: no value would be wrong, but the address is nobody's."""

    def one(s: Stmt) -> Stmt | tuple[Stmt, ...] | None:
        if isinstance(s, If) and "prefetch" in print_stmt(s):
            return s.body.stmts
        return None

    return change(asking(), one)


@forged("row_sum", "E-PREFETCH", not_shown="nothing is stored", rows=3, cols=1024)
def prefetch_into_shared_memory() -> Kernel:
    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, Alloc) and s.buffer.name == "asked":
            return Alloc(replace(s.buffer, space=Space.SHARED))
        return None

    return change(asking(), one)


@forged("row_sum", "E-PREFETCH", "unrendered", rows=3, cols=1024)
def prefetch_of_a_sum() -> Kernel:
    """Only an element has an address."""

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and s.prefetch:
            return replace(s, value=Binary(BinaryOp.ADD, s.value, s.value, s.value.dtype))
        return None

    return change(asking(), one)


@forged("row_sum", "E-PREFETCH", "unrendered", rows=3, cols=64)
def prefetch_of_a_copy() -> Kernel:
    """Registers have no address either: a copy made beside a request leaves it alone."""
    text = "specialize(cols == 64)\nbind(r, grid.x)\nprefetch(in, at=r)\nstage(in, at=r, scope=register)"

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and s.prefetch:
            return replace(s, value=Load("in_s", (index(0), index(0)), s.value.dtype))
        return None

    return change(scheduled("row_sum", text), one)
