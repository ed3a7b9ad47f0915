"""A workload for a kernel that came with none: large enough to be far out of any L2."""

from __future__ import annotations

from math import prod

from evolve.ir.affine import simplify
from evolve.ir.expr import Const, index
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import For
from evolve.ir.types import LoopKind
from evolve.ir.visit import loop_sites, substitute, walk
from evolve.workload.model import Numerics, Workload, arrays_of, extents_at

TARGET_BYTES = 512 << 20
"""Of all arrays together: at least four times the largest L2 (126 MB) in the hardware profiles."""
CONTRACTION_SIZE = 4096
"""Of each loop when work grows faster than data (a loop inside two parallel ones)."""
CHECKS = ((3, 5, 7), (33, 65, 17), (128, 96, 64), (1, 1, 1))
"""Small sizes, dealt out to the scalars in order: odd, off-tile, even, one."""
DATA_VALUE = 0.75


def infer(kernel: Kernel, numerics: Numerics = "reassociate") -> Workload:
    """Sizes by the kernel's data: powers of two, equal for all scalars, about `TARGET_BYTES` in all."""
    names = [s.name for s in kernel.scalars if s.is_size]
    values: dict[str, int | float] = {}
    for s in kernel.scalars:
        if not s.is_size:
            values[s.name] = DATA_VALUE if s.dtype.is_float else 2
    arrays = arrays_of(kernel)
    size = CONTRACTION_SIZE if _is_contraction(kernel) else _largest_power(kernel, names)
    timed = dict.fromkeys(names, size)
    check = []
    least = _least_size(kernel)
    for row in CHECKS:
        shape = {n: max(least, row[k % len(row)]) for k, n in enumerate(names)}
        if shape not in check:
            check.append(shape)
    return Workload(numerics, (timed,), tuple(check), values, arrays)


def _largest_power(kernel: Kernel, names: list[str]) -> int:
    arrays = arrays_of(kernel)
    size = 2
    while True:
        shape = dict.fromkeys(names, 2 * size)
        total = sum(prod(extents_at(a, shape)) * a.dtype.size for a in arrays)
        if total > TARGET_BYTES or 2 * size >= 2**30 or not names:
            return size
        size *= 2


def _is_contraction(kernel: Kernel) -> bool:
    """A sequential loop inside two parallel ones: work grows faster than data."""
    for site in walk(kernel.body):
        if isinstance(site.stmt, For) and site.stmt.kind is LoopKind.SERIAL:
            outer = [p for p in site.loops if p.kind is LoopKind.PARALLEL]
            if len(outer) >= 2:
                return True
    return False


def _least_size(kernel: Kernel) -> int:
    """The smallest common size at which every loop has an iteration (a stencil needs 3); 1 if none has."""
    names = [s.name for s in kernel.scalars if s.is_size]
    extents = tuple(s.stmt.extent for s in loop_sites(kernel.body).values() if isinstance(s.stmt, For))
    for size in range(1, 64):
        shape = {n: index(size) for n in names}
        values = [simplify(substitute(e, shape)) for e in extents]
        if all(isinstance(v, Const) and v.value >= 1 for v in values):
            return size
    return 1
