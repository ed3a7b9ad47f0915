"""Difference-bound constraints, `a <= b + c`, and whether they contradict one another.

The matrix is a list of edges: most facts bound few of the differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evolve.validation.formula import Compare, Formula
from evolve.validation.polynomial import Monomial, Poly, Ranges

Edge = tuple[Monomial, Monomial, int]
"""The first is at most the second and so much; () is zero."""
ZERO: Monomial = ()


def contradict(facts: Iterable[Formula], ranges: Ranges) -> bool:
    """Whether the differences among the facts, products and elements being numbers each, cannot all be so.

    A negative cycle is a contradiction: Bellman and Ford's search finds it.
    """
    edges = [e for f in facts if isinstance(f, Compare) for e in _edges(f)]
    nodes = {n for a, b, _ in edges for n in (a, b)} | {ZERO}
    for n in nodes:
        if len(n) == 1 and n[0].name in ranges:
            low, high = ranges[n[0].name]
            edges += [(ZERO, n, -low)] if low is not None else []
            edges += [(n, ZERO, high)] if high is not None else []
    most = dict.fromkeys(nodes, 0)
    for _ in range(len(nodes)):
        changed = False
        for a, b, c in edges:
            if most[b] + c < most[a]:
                most[a], changed = most[b] + c, True
        if not changed:
            return False
    return True


def _edges(f: Compare) -> Iterator[Edge]:
    if f.op == "!=":
        return
    for p in (f.poly, f.poly.scale(-1)) if f.op == "==" else (f.poly,):
        yield from _edge(p)


def _edge(p: Poly) -> Iterator[Edge]:
    """`b - a + c >= 0`."""
    terms = [(m, c) for m, c in p.terms.items() if m]
    more = [m for m, c in terms if c == 1]
    less = [m for m, c in terms if c == -1]
    if 0 < len(terms) <= 2 and len(more) + len(less) == len(terms) and len(more) <= 1 and len(less) <= 1:
        yield (less[0] if less else ZERO), (more[0] if more else ZERO), p.constant
