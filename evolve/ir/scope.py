"""What is known at a place in a kernel: ranges of the variables in scope."""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm

from evolve.ir.affine import Range, Ranges, simplify
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Var
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import For, If
from evolve.ir.types import DType


def ranges_at(kernel: Kernel, path: Iterable[For | If] = ()) -> Ranges:
    """Ranges of the size scalars (at least 1, and what the assumptions say) and of the loops in `path`."""
    bounds: dict[str, Range] = {s.name: (1, None) for s in kernel.scalars if s.is_size}
    divisors: dict[str, int] = {}
    for fact in conjuncts(kernel.assumptions):
        _learn(fact, bounds, divisors)
    extents: dict[str, Expr] = {}
    ordered = frozenset(c.buffer for c in kernel.contents if c.nondecreasing)
    known = Ranges(bounds, divisors, extents, _elements(kernel), ordered)
    for step in path:
        if not isinstance(step, For):
            continue
        extent = simplify(step.extent, known)
        if isinstance(extent, Const):
            bounds[step.var] = (0, int(extent.value) - 1)
        else:
            bounds[step.var] = (0, None)
            extents[step.var] = extent
    return known


def _elements(kernel: Kernel) -> dict[str, Range]:
    """Constant bounds of what index arrays hold."""
    return {
        c.buffer: (
            int(c.low.value) if isinstance(c.low, Const) else None,
            int(c.high.value) - 1 if isinstance(c.high, Const) else None,
        )
        for c in kernel.contents
    }


def conjuncts(facts: Iterable[Expr]) -> tuple[Expr, ...]:
    """The operands of nested conjunctions."""
    out: list[Expr] = []
    for fact in facts:
        if isinstance(fact, Binary) and fact.op is BinaryOp.AND:
            out.extend(conjuncts((fact.lhs, fact.rhs)))
        else:
            out.append(fact)
    return tuple(out)


def _learn(fact: Expr, bounds: dict[str, Range], divisors: dict[str, int]) -> None:
    match fact:
        case Binary(op=BinaryOp.EQ, lhs=Var(name=n), rhs=Const(value=v)):
            bounds[n] = (int(v), int(v))
        case Binary(
            op=BinaryOp.EQ,
            lhs=Binary(op=BinaryOp.MOD, lhs=Var(name=n), rhs=Const(value=d)),
            rhs=Const(value=0),
        ):
            divisors[n] = lcm(divisors.get(n, 1), int(d))
        case Binary(op=BinaryOp.LE, lhs=Var(name=n, dtype=DType.INDEX), rhs=Const(value=v)):
            low, high = bounds.get(n, (None, None))
            bounds[n] = (low, int(v) if high is None else min(high, int(v)))
        case Binary(op=BinaryOp.GE, lhs=Var(name=n, dtype=DType.INDEX), rhs=Const(value=v)):
            low, high = bounds.get(n, (None, None))
            bounds[n] = (int(v) if low is None else max(low, int(v)), high)
        case _:
            pass
