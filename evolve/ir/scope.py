"""What is known at a place in a kernel: ranges of the variables in scope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from math import lcm

from evolve.ir.affine import Range, Ranges, simplify
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Var
from evolve.ir.kernel import Contents, Kernel, Scalar
from evolve.ir.stmt import For, If
from evolve.ir.types import DType


def ranges_at(kernel: Kernel, path: Iterable[For | If] = ()) -> Ranges:
    """Ranges of the size scalars (at least 1, and what the assumptions say) and of the loops in `path`.

    The same ranges are the same object, by which `simplify` remembers.
    """
    known = _outside(kernel.scalars, kernel.assumptions, kernel.contents)
    for step in path:
        if isinstance(step, For):
            known = _inside(known, step.var, step.extent)
    return known


@lru_cache(maxsize=256)
def _outside(
    scalars: tuple[Scalar, ...], assumptions: tuple[Expr, ...], contents: tuple[Contents, ...]
) -> Ranges:
    bounds: dict[str, Range] = {s.name: (1, None) for s in scalars if s.is_size}
    divisors: dict[str, int] = {}
    for fact in conjuncts(assumptions):
        _learn(fact, bounds, divisors)
    ordered = frozenset(c.buffer for c in contents if c.nondecreasing)
    return Ranges(bounds, divisors, {}, _elements(contents), ordered)


_MOST_INSIDE = 4096
_loops_inside: dict[tuple[int, str, Expr], tuple[Ranges, Ranges]] = {}


def _inside(known: Ranges, var: str, extent: Expr) -> Ranges:
    """`known` and one loop more."""
    key = (id(known), var, extent)
    found = _loops_inside.get(key)
    if found is None:
        if len(_loops_inside) > _MOST_INSIDE:
            _loops_inside.clear()
        # `known` stands in the entry so that no others can come to have its identity.
        found = _loops_inside[key] = (_with_loop(known, var, extent), known)
    return found[0]


def _with_loop(known: Ranges, var: str, extent: Expr) -> Ranges:
    extent = simplify(extent, known)
    if isinstance(extent, Const):
        return replace(known, bounds={**known.bounds, var: (0, int(extent.value) - 1)})
    return replace(known, bounds={**known.bounds, var: (0, None)}, extents={**known.extents, var: extent})


def _elements(contents: Iterable[Contents]) -> dict[str, Range]:
    """Constant bounds of what index arrays hold."""
    return {
        c.buffer: (
            int(c.low.value) if isinstance(c.low, Const) else None,
            int(c.high.value) - 1 if isinstance(c.high, Const) else None,
        )
        for c in contents
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
        case Binary(op=BinaryOp.EQ, lhs=Var(name=n, dtype=DType.INDEX), rhs=Const(value=v)):
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
