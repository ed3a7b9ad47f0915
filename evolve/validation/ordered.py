"""What follows from the order of a nondecreasing array's elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations

from evolve.validation.context import Context
from evolve.validation.difference_bounds import contradict
from evolve.validation.formula import Compare, Every, Formula, Some, at_least, atoms, below, negation
from evolve.validation.polynomial import Atom, Interval, Monomial, Poly, Ranges, atom, bounds, constant

ELEMENT, SOUGHT = "starts", "sought"


@dataclass(frozen=True)
class Ordered:
    """An array of `segments` + 1 elements, none below zero and none less than the one before.

    What is sought is one number for each lane: from the first element on, below the last.
    """

    segments: Poly

    def element(self, at: Poly) -> Poly:
        return atom(Atom("read", ELEMENT, (at,)))

    def sought(self, lane: Poly) -> Poly:
        return atom(Atom("read", SOUGHT, (lane,)))

    def covers(self, value: Poly) -> Formula:
        """That a number is in a segment."""
        first, last = self.element(constant(0)), self.element(self.segments)
        return Every((at_least(value, first), below(value, last)))

    def holds_at(self, value: Poly, row: Poly) -> Formula:
        """That a number is in this segment."""
        low, high = self.element(row), self.element(row.plus(1))
        inside = (at_least(row, constant(0)), below(row, self.segments))
        return Every((*inside, at_least(value, low), below(value, high)))

    def follows(self, ctx: Context, goal: Formula) -> bool:
        """Whether it holds wherever the context does. False where that is not known."""
        match goal:
            case Every():
                return all(self.follows(ctx.given(*goal.of[:i]), g) for i, g in enumerate(goal.of))
            case Some():
                return any(self.follows(ctx, g) for g in goal.of) or self._shown(ctx, goal)
            case Compare(op="=="):
                sides = Compare(goal.poly, ">="), Compare(goal.poly.scale(-1), ">=")
                return all(self.follows(ctx, g) for g in sides)
            case _:
                return self._shown(ctx, goal)

    def _shown(self, ctx: Context, goal: Formula) -> bool:
        if goal in ctx.facts:
            return True
        if isinstance(goal, Compare) and goal.op == ">=":
            low, _ = bounds(goal.poly, ctx.ranges)
            if goal.poly.value is not None or (low is not None and low >= 0):
                return low is not None and low >= 0
        against = negation(goal)
        if contradict((*ctx.facts, against), ctx.ranges):
            return True
        more = self._told(ctx.given(against))
        return contradict(more.facts, more.ranges) or more.excludes(against)

    def _told(self, ctx: Context) -> Context:
        """With what products and the elements' order say."""
        found: set[Atom] = set().union(*(atoms(f) for f in ctx.facts))
        ctx = ctx.given(*_products(ctx), *_sharpened(ctx))
        ctx = ctx.given(
            *(self.covers(Poly({(a,): 1})) for a in found if (a.kind, a.label) == ("read", SOUGHT))
        )
        found = set().union(*(atoms(f) for f in ctx.facts))
        reads = sorted((a for a in found if (a.kind, a.label) == ("read", ELEMENT)), key=lambda a: a.name)
        plain = _plain(ctx)
        inside = [a for a in reads if self._inside(a.of[0], plain)]
        pairs = [(a, b) for a, b in permutations(inside, 2) if plain.at_most(b.of[0], a.of[0])]
        return ctx.given(*(at_least(Poly({(a,): 1}), Poly({(b,): 1})) for a, b in pairs))

    def _inside(self, at: Poly, plain: _Plain) -> bool:
        if not plain.at_most(constant(0), at):
            return False
        between = (Poly({m: 1}) for terms in plain.facts for m, _ in terms if len(m) == 1)
        return plain.at_most(at, self.segments) or any(
            plain.at_most(x, self.segments) and plain.at_most(at, x) for x in between
        )


@dataclass(frozen=True)
class _Plain:
    """What is at most what for reasons that are plain: there are many to ask for."""

    ranges: Ranges
    facts: Mapping[frozenset[tuple[Monomial, int]], int]
    """Of terms without their constant, what this is at least."""
    known: dict[tuple[Poly, Poly], bool] = field(default_factory=dict)

    def at_most(self, p: Poly, q: Poly) -> bool:
        if (p, q) not in self.known:
            self.known[p, q] = self._at_most(p, q)
        return self.known[p, q]

    def _at_most(self, p: Poly, q: Poly) -> bool:
        if any(self.at_most(x, q) for x in _parts(p, "min")) or any(
            self.at_most(p, x) for x in _parts(q, "max")
        ):
            return True
        for parts, below_all in ((_parts(q, "min"), True), (_parts(p, "max"), False)):
            if parts:
                return all(self.at_most(p, x) if below_all else self.at_most(x, q) for x in parts)
        rest = q - p
        told = self.facts.get(_without_constant(rest))
        if told is not None and told + rest.constant >= 0:
            return True
        low, _ = bounds(rest, self.ranges)
        return low is not None and low >= 0


def _plain(ctx: Context) -> _Plain:
    """Where elements are has nothing to do with what they are."""
    return _plain_of(tuple(f for f in ctx.facts if not _reads(f)), tuple(sorted(ctx.ranges.items())))


@lru_cache(maxsize=256)
def _plain_of(facts: tuple[Formula, ...], ranges: tuple[tuple[str, Interval], ...]) -> _Plain:
    least: dict[frozenset[tuple[Monomial, int]], int] = {}
    for f in facts:
        if isinstance(f, Compare) and f.op == ">=":
            key = _without_constant(f.poly)
            least[key] = max(-f.poly.constant, least.get(key, -f.poly.constant))
    return _Plain(dict(ranges), least)


@lru_cache(maxsize=4096)
def _reads(f: Formula) -> bool:
    return any(a.kind == "read" for a in atoms(f))


def _without_constant(p: Poly) -> frozenset[tuple[Monomial, int]]:
    return frozenset((m, c) for m, c in p.terms.items() if m)


def _sharpened(ctx: Context) -> Iterator[Formula]:
    """What facts about the lesser of two numbers say of these."""
    for f in ctx.facts:
        if not isinstance(f, Compare) or f.op != ">=":
            continue
        for m, c in f.poly.terms.items():
            if len(m) == 1 and m[0].kind == "min" and c in (1, -1):
                rest = f.poly - Poly({m: c})
                first, second = (rest + x.scale(c) for x in m[0].of)
                if c == 1:
                    yield from (Compare(first, ">="), Compare(second, ">="))
                elif (first.value or 0) < 0:
                    yield Compare(second, ">=")
                elif (second.value or 0) < 0:
                    yield Compare(first, ">=")


def _parts(p: Poly, kind: str) -> tuple[Poly, ...]:
    """The operands where a number is an extreme and nothing else."""
    (only,) = p.terms.items() if len(p.terms) == 1 else (((), 0),)
    m, c = only
    return m[0].of if c == 1 and len(m) == 1 and m[0].kind == kind else ()


def _products(ctx: Context) -> Iterator[Formula]:
    """What a product of two variables is at least and at most, one of them lying between numbers."""
    for m in {m for f in ctx.facts for p in _polys(f) for m in p.terms if len(m) == 2}:
        product = Poly({m: 1})
        for x, y in (m, m[::-1]):
            low, high = bounds(Poly({(x,): 1}), ctx.ranges)
            other = Poly({(y,): 1})
            if low is not None and high is not None and ctx.holds(at_least(other, constant(0))):
                yield at_least(product, other.scale(low))
                yield at_least(other.scale(high), product)


def _polys(f: Formula) -> Iterator[Poly]:
    if isinstance(f, Compare):
        yield f.poly
        for a in f.poly.atoms():
            yield from a.of
    elif isinstance(f, Every | Some):
        for x in f.of:
            yield from _polys(x)
