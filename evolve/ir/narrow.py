"""Copies of arrays in bfloat16: which there can be, and a kernel that keeps one.

What is rounded is only what the kernel reads and nobody writes, once an element: an error of at most 2^-8 of
its magnitude (half a unit in the last of 8 bits). An intermediate result is never rounded, so that no
rounding is amplified by what is computed after it in a way that the original does not amplify its inputs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from evolve.ir.expr import Cast, Expr, Load
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import Alloc, Leaf, Stmt, Store
from evolve.ir.types import DType, Space
from evolve.ir.visit import leaves, local_buffers, map_block_exprs, map_expr, rewrite

NARROW = DType.BF16


def copied(leaf: Leaf) -> Load | None:
    """What a statement without an origin copies, as it is or rounded; None for any other statement."""
    if not isinstance(leaf, Store) or leaf.origin is not None:
        return None
    value = leaf.value
    if isinstance(value, Cast) and {value.dtype, value.arg.dtype} == {DType.F32, NARROW}:
        value = value.arg
    return value if isinstance(value, Load) else None


def can_narrow(kernel: Kernel, buffer: str) -> bool:
    """Whether all that a local buffer ever holds is copied, by ordinary copies, from single-precision arrays
    that the kernel only reads."""
    local = local_buffers(kernel.body)
    if buffer not in local or local[buffer].dtype is not DType.F32 or local[buffer].space is Space.GLOBAL:
        return False
    writes = [leaf for leaf, _ in leaves(kernel.body) if leaf.buffer == buffer]
    return bool(writes) and all(copies_input(kernel, leaf) for leaf in writes)


def copies_input(kernel: Kernel, leaf: Leaf) -> bool:
    """Whether a statement copies from an array that the kernel only reads, at once."""
    load = copied(leaf)
    if load is None or not isinstance(leaf, Store) or leaf.asynchronous:
        return False
    written = {x.buffer for x, _ in leaves(kernel.body)}
    return load.buffer in {b.name for b in kernel.buffers} - written


def narrowed(kernel: Kernel, buffer: str) -> Kernel:
    """The kernel with the elements of a buffer in bfloat16: rounded where stored, widened where read."""

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, Alloc) and s.buffer.name == buffer:
            return replace(s, buffer=replace(s.buffer, dtype=NARROW))
        if isinstance(s, Store) and s.buffer == buffer:
            return replace(s, value=Cast(s.value, NARROW))
        return None

    widened = map_block_exprs(kernel.body, lambda e: map_expr(e, lambda x: _widened(x, buffer)))
    return replace(kernel, body=rewrite(widened, one))


def _widened(e: Expr, buffer: str) -> Expr:
    if isinstance(e, Load) and e.buffer == buffer:
        return Cast(replace(e, dtype=NARROW), DType.F32)
    return e


def rounded_inputs(kernel: Kernel) -> Kernel:
    """The kernel with every element of a single-precision array that it only reads rounded to bfloat16: the
    largest errors of any program that keeps such copies."""
    written = {leaf.buffer for leaf, _ in leaves(kernel.body)}
    inputs = {b.name for b in kernel.buffers if b.dtype is DType.F32} - written

    def one(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in inputs:
            return Cast(Cast(e, NARROW), DType.F32)
        return e

    return replace(kernel, body=map_block_exprs(kernel.body, lambda e: map_expr(e, one)))


def widens(e: Expr) -> TypeGuard[Cast]:
    """Whether the expression is an element that is kept in bfloat16."""
    return isinstance(e, Cast) and e.arg.dtype is NARROW
