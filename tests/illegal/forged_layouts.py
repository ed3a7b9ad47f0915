"""Tiles whose elements do not lie where each has a place of its own."""

from __future__ import annotations

from dataclasses import replace

from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Stmt
from evolve.ir.swizzle import Swizzle
from tests.illegal.forging import change, forged, good


def swizzled(k: Kernel, swizzle: Swizzle) -> Kernel:
    def one(s: Stmt) -> Stmt | None:
        return Alloc(replace(s.buffer, swizzle=swizzle)) if isinstance(s, Alloc) else None

    return change(k, one)


@forged("transpose", "E-LAYOUT", "out-of-bounds")
def swizzle_beyond_the_columns() -> Kernel:
    return swizzled(good("transpose"), Swizzle(4, 4))


@forged("transpose", "E-LAYOUT", "out-of-bounds")
def swizzle_beyond_the_columns_of_some_rows() -> Kernel:
    """Rows 4 to 7 reach behind their ends, where those of the next row lie."""
    return swizzled(good("transpose"), Swizzle(2, 8))


@forged("transpose", "E-LAYOUT", "out-of-bounds", rows=16, cols=16)
def swizzle_of_vectors_beyond_the_columns() -> Kernel:
    return swizzled(good("transpose", 1), Swizzle(4, 4, 2))


@forged("transpose", "E-LAYOUT", not_shown="no vector is read, so nobody sees that groups fall apart")
def swizzle_of_three_columns() -> Kernel:
    return swizzled(good("transpose"), Swizzle(3, 2))
