"""Sizes at which a guarded variant runs, and sizes at which it just does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Var
from evolve.ir.scope import conjuncts

Shape = dict[str, int]


def inside(guard: Expr, seeds: Iterable[Mapping[str, int]], holds: Callable[[Shape], bool]) -> list[Shape]:
    """Shapes for which `holds` (the guard, evaluated), each a seed moved up to the guard's equalities and multiples.

    The smallest comes first: sizes of 1 moved up. Seeds for which no such move satisfies the guard are left out.
    """
    fixed, multiples = _facts(guard)
    seeds = list(seeds)
    names = list(seeds[0]) if seeds else []
    out: list[Shape] = []
    for seed in (dict.fromkeys(names, 1), *seeds):
        shape: Shape = {}
        for n in names:
            step = multiples.get(n, 1)
            shape[n] = fixed.get(n, -(-seed[n] // step) * step)
        if shape not in out and holds(shape):
            out.append(shape)
    return out


def outside(guard: Expr, shapes: Iterable[Shape], holds: Callable[[Shape], bool]) -> list[Shape]:
    """For each size that the guard constrains, one shape with that size one step off."""
    fixed, multiples = _facts(guard)
    out: list[Shape] = []
    base = next(iter(shapes), None)
    if base is None:
        return out
    for n in {**fixed, **multiples}:
        for step in (1, -1):
            shape = {**base, n: base[n] + step}
            if shape[n] >= 1 and not holds(shape):
                out.append(shape)
                break
    return out


def _facts(guard: Expr) -> tuple[dict[str, int], dict[str, int]]:
    fixed: dict[str, int] = {}
    multiples: dict[str, int] = {}
    for fact in conjuncts((guard,)):
        match fact:
            case Binary(op=BinaryOp.EQ, lhs=Var(name=n), rhs=Const(value=v)):
                fixed[n] = int(v)
            case Binary(
                op=BinaryOp.EQ,
                lhs=Binary(op=BinaryOp.MOD, lhs=Var(name=n), rhs=Const(value=d)),
                rhs=Const(value=0),
            ):
                multiples[n] = max(multiples.get(n, 1), int(d))
            case _:
                pass
    return fixed, multiples
