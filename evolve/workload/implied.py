"""Lengths of arrays that only index arrays reach into: values for sizes that no parameter has."""

from __future__ import annotations

from evolve.ir.data import index_arrays, reads
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Const, Expr, add, index
from evolve.ir.kernel import Contents, Kernel
from evolve.ir.stmt import For
from evolve.ir.visit import leaves, variables, walk
from evolve.workload.model import Sizes, Values

ROW = 32
"""Iterations of a loop whose length is read from memory, where nobody says how many: the mean of a row."""
_LOG2_ELEMENTS = 24
"""Of the largest array of a kernel that reads indices: their footprints are counted one by one."""
_LOG2_LARGE = 27
"""Where that is no matter, since what they reach into is small whatever the sizes are."""


def values_of(kernel: Kernel, name: str) -> Values | None:
    """What the kernel relies on about an array, as the values that a workload draws."""
    for c in kernel.contents:
        if c.buffer == name:
            low = c.low
            if isinstance(low, Const) and low.value < 0:
                # The kernel asks for the sign: any negative number is as good as another, and -1 usual.
                low = index(-1)
            # And the first that is beyond the end, where the kernel asks for that.
            return Values(low, c.high if c.end is None else add(c.end, 1), c.nondecreasing)
    return None


def largest_side(kernel: Kernel, dimensions: int) -> int:
    """The value of each of that many sizes that together make the largest array."""
    log2 = _LOG2_LARGE if all(isinstance(c.end or c.high, Const) for c in kernel.contents) else _LOG2_ELEMENTS
    if _counts(kernel):
        # The rows' elements count, a subscript and a number each.
        log2 -= (2 * ROW).bit_length() - 1
    return int(2 ** (log2 / max(1, dimensions)))


def with_implied(kernel: Kernel, sizes: Sizes) -> Sizes:
    """`sizes` with a value for each implied size: ROW elements a row, and tables as long as the result.

    What loops count to is at most 2 ROW where it is no row pointer, so that they too run ROW times or so.
    """
    out = dict(sizes)
    counts = _counts(kernel)
    for name in (s.name for s in kernel.scalars if s.implied):
        about = [c for c in kernel.contents if name in variables(c.high)]
        rows = [c for c in about if c.nondecreasing]
        if rows:
            out[name] = max(1, (_elements(kernel, rows[0], out) - 1) * ROW)
        elif any(c.buffer in counts for c in about):
            out[name] = 2 * ROW
        else:
            out[name] = max(1, _outermost(kernel, out))
    return out


def _counts(kernel: Kernel) -> frozenset[str]:
    """The arrays that tell where loops begin and end."""
    steps = (site.stmt for site in walk(kernel.body))
    return frozenset[str]().union(*(index_arrays(s.extent) for s in steps if isinstance(s, For)))


def _elements(kernel: Kernel, c: Contents, sizes: Sizes) -> int:
    total = 1
    for e in kernel.buffer(c.buffer).extents:
        total *= int(evaluate(e, sizes))
    return total


def _outermost(kernel: Kernel, sizes: Sizes) -> int:
    """The outermost extent of the first array that is written."""
    arrays = {b.name: b for b in kernel.buffers}
    written = next(leaf.buffer for leaf, _ in leaves(kernel.body) if leaf.buffer in arrays)
    return int(evaluate(arrays[written].extents[0], sizes))


def trips(extent: Expr, at: Sizes) -> int:
    """How often a loop runs at those values of sizes and loop variables; ROW times where data say."""
    return ROW if reads(extent) else int(evaluate(extent, at))
