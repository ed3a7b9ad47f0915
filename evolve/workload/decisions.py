"""Whether comparisons of floats decide what a kernel computes, so that NaNs, infinities and zeros matter."""

from __future__ import annotations

from collections.abc import Iterator

from evolve.ir.expr import Binary, BinaryOp, Cast, Expr
from evolve.ir.kernel import Kernel
from evolve.ir.settled import evaluated
from evolve.ir.stmt import Reduce
from evolve.ir.types import MAX, MIN, DType
from evolve.ir.visit import walk


def decides_by_values(kernel: Kernel) -> bool:
    """Whether it compares floats, or takes the larger or the smaller, and makes no integers of them: what
    becomes of a NaN then no standard says.
    """
    seen = tuple(evaluated(kernel))
    if any(isinstance(e, Cast) and e.arg.dtype.is_float and _is_integer(e.dtype) for e in seen):
        return False
    return any(map(_compares, seen)) or any(x.monoid in (MAX, MIN) for x in _reductions(kernel))


def _compares(e: Expr) -> bool:
    extreme = isinstance(e, Binary) and e.op in (BinaryOp.MIN, BinaryOp.MAX)
    return isinstance(e, Binary) and e.lhs.dtype.is_float and (extreme or e.op.is_comparison)


def _reductions(kernel: Kernel) -> Iterator[Reduce]:
    for site in walk(kernel.body):
        if isinstance(site.stmt, Reduce) and site.stmt.value.dtype.is_float:
            yield site.stmt


def _is_integer(dtype: DType) -> bool:
    return not dtype.is_float and dtype is not DType.BOOL
