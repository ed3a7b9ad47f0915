"""Approximate functions in place of accurate ones: which there are, and a kernel that uses them.

Only of single precision, and only those whose special cases are the accurate function's: `__powf` of a
negative number is NaN, so `pow` has none. `rsqrtf` is the hardware's own function already.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import TypeGuard

from evolve.ir.expr import Binary, BinaryOp, Call, Expr
from evolve.ir.kernel import Kernel
from evolve.ir.math import FUNCTIONS
from evolve.ir.stmt import Reduce, Stmt, Store
from evolve.ir.types import DType
from evolve.ir.visit import leaves, map_expr, rewrite, subexpressions

FAST = {name: f"fast_{name}" for name in ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "tanh")}
"""Accurate functions of one argument and their approximate counterparts."""
DIVISION = "fast_div"


def approximate(e: Expr) -> Expr:
    """The expression with each function and division of single precision approximate, where there is one."""
    return map_expr(e, _fast)


def _fast(e: Expr) -> Expr:
    if isinstance(e, Binary) and e.op is BinaryOp.DIV and e.dtype is DType.F32:
        return Call(DIVISION, (e.lhs, e.rhs), e.dtype)
    if isinstance(e, Call) and e.fn in FAST and e.dtype is DType.F32:
        return replace(e, fn=FAST[e.fn])
    return e


def approximated(kernel: Kernel, buffers: Container[str] | None = None) -> Kernel:
    """The kernel with all that is computed for some buffers (default: for all) approximate."""

    def one(s: Stmt) -> Stmt | None:
        if isinstance(s, Store | Reduce) and (buffers is None or s.buffer in buffers):
            return replace(s, value=approximate(s.value))
        return None

    return replace(kernel, body=rewrite(kernel.body, one))


def approximable(kernel: Kernel) -> tuple[str, ...]:
    """The buffers that `approximated` would change something for."""
    found = (leaf for leaf, _ in leaves(kernel.body) if approximate(leaf.value) != leaf.value)
    return tuple(dict.fromkeys(leaf.buffer for leaf in found))


def approximate_calls(kernel: Kernel) -> tuple[str, ...]:
    """The approximate functions that a kernel calls, by their CUDA names; each once."""
    parts = (e for leaf, _ in leaves(kernel.body) for e in subexpressions(leaf.value))
    calls = (e for e in parts if is_approximate(e))
    return tuple(dict.fromkeys(FUNCTIONS[e.fn].spelling(e.dtype) for e in calls))


def stands_for(source: Expr, target: Expr) -> str | None:
    """What is approximate in `target` if it is `source` with an approximate outermost operation; else None.

    Both have the same operands then, in the order of `ir.visit.children`.
    """
    if target.dtype is not DType.F32 or not is_approximate(target):
        return None
    if isinstance(source, Call) and FAST.get(source.fn) == target.fn:
        return FUNCTIONS[source.fn].spelling(source.dtype)
    if isinstance(source, Binary) and source.op is BinaryOp.DIV and target.fn == DIVISION:
        return "/"
    return None


def is_approximate(e: Expr) -> TypeGuard[Call]:
    """Whether the outermost operation is a call of an approximate function."""
    return isinstance(e, Call) and FUNCTIONS[e.fn].approximate
