"""Rewrites before emission that change no meaning: sizes put in, whole tiles split off, guards hoisted."""

from __future__ import annotations

from dataclasses import replace

from evolve.codegen.hoist import hoist_guards
from evolve.codegen.runs import gather_runs
from evolve.codegen.tiles import split_whole_tiles
from evolve.ir.affine import simplify
from evolve.ir.expr import Expr, index
from evolve.ir.kernel import Kernel
from evolve.ir.scope import ranges_at
from evolve.ir.visit import substitute, substitute_block


def prepare(kernel: Kernel) -> Kernel:
    """The kernel that is emitted. Loop names may repeat in the two sides of a split."""
    fixed: dict[str, Expr] = {}
    ranges = ranges_at(kernel)
    for s in kernel.scalars:
        low, high = ranges.of(s.name)
        if s.is_size and low is not None and low == high:
            fixed[s.name] = index(low)
    buffers = tuple(
        replace(b, extents=tuple(simplify(substitute(e, fixed)) for e in b.extents)) for b in kernel.buffers
    )
    kernel = replace(kernel, body=substitute_block(kernel.body, fixed), buffers=buffers)
    kernel = replace(kernel, body=gather_runs(kernel))
    kernel = replace(kernel, body=split_whole_tiles(kernel))
    return replace(kernel, body=hoist_guards(kernel.body))
