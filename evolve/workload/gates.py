"""Conditions on scalars alone, as in `if (m != 1000) return;`, and scalar values at which the kernel works.

Sizes that nobody gave must not lie outside such a condition: there the kernel does nothing, and nothing would
be timed or checked.
"""

from __future__ import annotations

from itertools import product

from evolve.ir.errors import EvolveError
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Load, Unary, UnaryOp
from evolve.ir.kernel import Kernel
from evolve.ir.scope import conjuncts
from evolve.ir.stmt import If
from evolve.ir.types import DType
from evolve.ir.visit import Site, leaves, subexpressions, variables
from evolve.workload.model import Sizes

Gates = tuple[tuple[Expr, ...], ...]
"""For each store to an array the conditions on scalars that it needs, those without any left out."""

_MAX_TRIED = 4096


def gates(kernel: Kernel) -> Gates:
    """The gates of a kernel; none where something is stored under no such condition."""
    arrays = {b.name for b in kernel.buffers}
    scalars = {s.name for s in kernel.scalars}
    found = [_conditions(site, scalars) for leaf, site in leaves(kernel.body) if leaf.buffer in arrays]
    return tuple(dict.fromkeys(found)) if all(found) else ()


def _conditions(site: Site, scalars: set[str]) -> tuple[Expr, ...]:
    out: list[Expr] = []
    sides = iter(site.in_else)
    for place in site.path:
        if not isinstance(place, If):
            continue
        parts = (Unary(UnaryOp.NOT, place.cond, DType.BOOL),) if next(sides) else conjuncts((place.cond,))
        out += [c for c in parts if variables(c) <= scalars and not _reads(c)]
    return tuple(out)


def _reads(e: Expr) -> bool:
    return any(isinstance(x, Load) for x in subexpressions(e))


def works(found: Gates, sizes: Sizes) -> bool:
    """Whether the kernel stores anything at these sizes, as far as its gates say."""
    return not found or any(all(_holds(c, sizes) for c in gate) for gate in found)


def _holds(c: Expr, sizes: Sizes) -> bool:
    try:
        return bool(evaluate(c, sizes))
    except EvolveError:
        return False


def inside(found: Gates, sizes: Sizes, facts: tuple[Expr, ...], least: int = 1) -> Sizes:
    """`sizes` with as few and as near changes as make the kernel work; as given where none is found.

    Whole numbers of at least `least` are tried that the conditions mention, below the given ones first.
    """
    if works(found, sizes):
        return sizes
    for gate in found:
        names = [n for n in sizes if isinstance(sizes[n], int) and any(n in variables(c) for c in gate)]
        options = [_options(n, int(sizes[n]), gate, least) for n in names]
        for at, chosen in enumerate(product(*options)):
            if at >= _MAX_TRIED:
                break
            made = {**sizes, **dict(zip(names, chosen, strict=True))}
            if all(_holds(c, made) for c in (*gate, *facts)):
                return made
    return sizes


def _options(name: str, now: int, gate: tuple[Expr, ...], least: int) -> list[int]:
    """The value now, then those that the conditions mention: smaller ones downwards, then larger ones."""
    found: set[int] = set()
    for c in gate:
        if name not in variables(c):
            continue
        for e in subexpressions(c):
            if isinstance(e, Const) and not isinstance(e.value, float):
                k = int(e.value)
                found |= {k - 1, k, k + 1}
            if isinstance(e, Binary) and e.op in (BinaryOp.MOD, BinaryOp.REM) and isinstance(e.rhs, Const):
                d = max(1, int(e.rhs.value))
                found |= {now // d * d, d, now // d * d + d}
    found = {v for v in found if v >= least} - {now}
    below = sorted((v for v in found if v < now), reverse=True)
    return [now, *below, *sorted(v for v in found if v > now)]
