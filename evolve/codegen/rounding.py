"""Which arrays the order of threads has a say in: atomic updates of floats round as they come."""

from __future__ import annotations

from collections.abc import Iterable

from evolve.ir.kernel import Kernel
from evolve.ir.stmt import For, If, Reduce
from evolve.ir.visit import leaves, loads


def rounded_by_order(kernels: Iterable[Kernel]) -> frozenset[str]:
    """Buffers of kernels that run one after the other which atomic updates of floats reach, directly or
    through what is computed from their results."""
    found = [(leaf, site) for k in kernels for leaf, site in leaves(k.body)]
    reached = {
        leaf.buffer
        for leaf, _ in found
        if isinstance(leaf, Reduce) and leaf.atomic and leaf.value.dtype.is_float
    }
    before = -1
    while len(reached) != before:
        before = len(reached)
        for leaf, site in found:
            steps = (x.extent if isinstance(x, For) else x.cond for x in site.path if isinstance(x, For | If))
            used = (leaf.value, *leaf.indices, *steps)
            if any(x.buffer in reached for e in used for x in loads(e)):
                reached.add(leaf.buffer)
    return frozenset(reached)
