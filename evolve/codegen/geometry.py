"""The launch geometry that a schedule asks for, and whether its grid loops can be one."""

from __future__ import annotations

from evolve.codegen.errors import CodegenError
from evolve.codegen.place import Path
from evolve.ir.affine import simplify
from evolve.ir.data import reads
from evolve.ir.expr import Const, Expr
from evolve.ir.kernel import Kernel
from evolve.ir.printer import print_expr
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, For, If, Stmt
from evolve.ir.types import LoopKind
from evolve.ir.visit import variables, walk

THREAD_AXES = (LoopKind.THREAD_X, LoopKind.THREAD_Y, LoopKind.THREAD_Z)
GRID_AXES = (LoopKind.GRID_X, LoopKind.GRID_Y, LoopKind.GRID_Z)
THREAD_NAMES = {LoopKind.THREAD_X: "tx", LoopKind.THREAD_Y: "ty", LoopKind.THREAD_Z: "tz"}


def block_dims(kernel: Kernel) -> dict[LoopKind, int]:
    """Threads a block along each axis: the largest extent of the loops bound to it."""
    dims = dict.fromkeys(THREAD_AXES, 1)
    for site in walk(kernel.body):
        loop = site.stmt
        if isinstance(loop, For) and loop.kind.is_thread:
            extent = simplify(loop.extent, ranges_at(kernel, site.path))
            if not isinstance(extent, Const):
                raise CodegenError(
                    f"thread loop {loop.var} has extent {print_expr(extent)}, which is not a constant",
                    hint="split it by a constant first",
                )
            dims[loop.kind] = max(dims[loop.kind], int(extent.value))
    return dims


def grid_extents(kernel: Kernel) -> dict[LoopKind, Expr]:
    """The extent of each grid axis that a loop is bound to, over the scalars."""
    out: dict[LoopKind, Expr] = {}
    _descend(kernel, kernel.body, (), out)
    return out


def _descend(kernel: Kernel, block: Block, above: Path, out: dict[LoopKind, Expr]) -> None:
    """Grid loops form one chain, above every other loop, with nothing but declarations beside them."""
    holders = [s for s in block.stmts if any(_is_grid(x.stmt) for x in walk(Block((s,))))]
    if not holders:
        return
    others = [s for s in block.stmts if s is not holders[0] and not isinstance(s, Alloc)]
    if others:
        raise CodegenError("a statement stands beside a grid loop, so every block would run it")
    inner = holders[0]
    if isinstance(inner, If):
        if inner.orelse.stmts:
            raise CodegenError("a grid loop stands in one side of a condition that has two")
        _descend(kernel, inner.body, (*above, inner), out)
        return
    if not isinstance(inner, For):
        raise CodegenError("a grid loop is not part of the kernel's outermost loops")
    if not inner.kind.is_grid:
        raise CodegenError(f"loop {inner.var} is outside a grid loop", hint="reorder the grid loop outwards")
    if inner.kind in out:
        raise CodegenError(f"two loops are bound to {inner.kind.value}")
    extent = simplify(inner.extent, ranges_at(kernel, above))
    scalars = {s.name for s in kernel.scalars}
    if reads(extent):
        raise CodegenError(f"the extent of grid loop {inner.var} is read from memory")
    if not variables(extent) <= scalars:
        raise CodegenError(f"the extent of grid loop {inner.var} depends on another loop")
    out[inner.kind] = extent
    _descend(kernel, inner.body, (*above, inner), out)


def _is_grid(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind.is_grid
