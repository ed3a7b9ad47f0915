"""Sums and products that round: what adds them up otherwise than in one chain, what keeps FMAs out."""

from __future__ import annotations

from dataclasses import replace

from evolve.ir.expr import Binary, BinaryOp, Call, Expr, Load
from evolve.ir.kernel import Kernel
from evolve.ir.scaled import rescaling
from evolve.ir.stmt import Leaf, Reduce, Stmt, Store
from evolve.ir.types import PROD, SUM, DType
from evolve.ir.visit import leaves, map_block_exprs, map_expr, rewrite, subexpressions

ROUNDED_PRODUCT = "mul_rn"


def rounds(leaf: Leaf) -> bool:
    """Whether a statement is one step of a sum or product of floats: their order decides how it rounds."""
    return isinstance(leaf, Reduce) and leaf.monoid in (SUM, PROD) and leaf.value.dtype.is_float


def regroups(leaf: Leaf) -> str | None:
    """Why a statement may not be one step of the source's chain of roundings; None if it may."""
    if rescaling(leaf) is not None:
        return "rescales a sum"
    if not isinstance(leaf, Reduce) or not rounds(leaf):
        return None
    if leaf.origin is None:
        return f"combines partial results of a {leaf.monoid.name}"
    return f"updates a {leaf.monoid.name} in the order in which threads come" if leaf.atomic else None


def contracts(leaf: Leaf) -> str | None:
    """Why a statement is not compiled to the same operations with contraction and without; None if it is.

    Of NVRTC 13's functions in `ir.math`, one contracts inside: their machine code was compared.
    """
    inside = (e for e in subexpressions(leaf.value) if isinstance(e, Call))
    found = any(e.fn == "log1p" and e.dtype is DType.F64 for e in inside)
    return "calls log1p of doubles, inside which a compiler contracts" if found else None


def in_chains(kernel: Kernel) -> bool:
    """Whether each sum and product is added up step by step, if maybe in another order than the source's."""
    return all(regroups(leaf) is None for leaf, _ in leaves(kernel.body))


def uncontracted(kernel: Kernel) -> Kernel:
    """The kernel with each product of floats rounded by itself: no compiler makes an FMA of it and a sum."""

    def one(e: Expr) -> Expr:
        if isinstance(e, Binary) and e.op is BinaryOp.MUL and e.dtype.is_float:
            return Call(ROUNDED_PRODUCT, (e.lhs, e.rhs), e.dtype)
        return e

    def step(s: Stmt) -> Stmt | None:
        """A step of a running product as a store: `p *= x` would be contracted with what adds p up."""
        if not isinstance(s, Reduce) or s.monoid != PROD or not s.value.dtype.is_float or s.atomic:
            return None
        before = Load(s.buffer, s.indices, s.value.dtype)
        product = Call(ROUNDED_PRODUCT, (before, s.value), s.value.dtype)
        return Store(s.buffer, s.indices, product, s.origin, span=s.span)

    body = map_block_exprs(kernel.body, lambda e: map_expr(e, one))
    return replace(kernel, body=rewrite(body, step))
