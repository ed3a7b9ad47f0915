"""Sizes that only space out rows, such as `ld` in `a[r * ld + c]`: below the rows' length, rows overlap.

No loop runs to such a size, so nothing else says how large it is. Rows that overlap are a race where they are
written, and where they are read far less traffic than people mean.
"""

from __future__ import annotations

from evolve.ir.affine import linear
from evolve.ir.effects import effects
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Expr, Load
from evolve.ir.kernel import Kernel
from evolve.ir.stmt import For
from evolve.ir.visit import Site, subexpressions, variables, walk
from evolve.workload.implied import trips
from evolve.workload.model import Sizes


def pitches(kernel: Kernel, sizes: Sizes, spare: int = 0) -> Sizes:
    """`sizes` with each pitch raised to at least the length of the rows that it spaces out, and `spare` more.

    Strides of outer loops span the rows that inner loops space out.
    """
    loops = [site.stmt for site in walk(kernel.body) if isinstance(site.stmt, For)]
    free = {s.name for s in kernel.scalars if s.is_size} - {n for x in loops for n in variables(x.extent)}
    arrays = {b.name for b in kernel.buffers}
    now = dict(sizes)
    # A pitch may depend on those of inner loops: as many rounds as there are pitches settle all.
    for _ in free:
        for site in walk(kernel.body):
            for access in effects(site.stmt).accesses:
                if access.buffer in arrays:
                    for subscript in access.indices:
                        _widen(subscript, site, free, now, spare)
    return now


def _widen(subscript: Expr, site: Site, free: set[str], now: dict[str, int | float], spare: int) -> None:
    """Raises the pitches in one subscript to what the rest of it spans."""
    if not variables(subscript) & free:
        return
    depth = {loop.var: d for d, loop in enumerate(site.loops)}
    low, high = dict(now), dict(now)
    for loop in site.loops:
        last = max(trips(loop.extent, low), trips(loop.extent, high)) - 1
        low[loop.var], high[loop.var] = 0, max(0, last)
    terms = [
        (variables(atom), abs(factor) * _reach(atom, low, high)) for atom, factor in linear(subscript).terms
    ]
    for names, _ in terms:
        mine, loops = names & free, [depth[n] for n in names if n in depth]
        if len(mine) != 1 or not loops:
            continue
        span = 0
        for others, reach in terms:
            inner = [depth[n] for n in others if n in depth]
            if others & mine or not inner:
                continue
            if not others & free or min(inner) > min(loops):
                span += reach
        (name,) = mine
        now[name] = max(now[name], span + 1 + spare if span else 1)


def _reach(atom: Expr, low: Sizes, high: Sizes) -> int:
    """How far a term moves over its loops; 0 where data decide."""
    if any(isinstance(x, Load) for x in subexpressions(atom)):
        return 0
    return abs(int(evaluate(atom, high)) - int(evaluate(atom, low)))
