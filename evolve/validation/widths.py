"""Index arithmetic in 32 bits is not too large: bounds over the sizes, compared with what a launch asks.

The most that an expression can be is a polynomial of the sizes with fractions for coefficients: each variable
at its last value, each quotient without its rounding. A launch condition `g <= c` bounds it if it is `g` term
by term, or less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod

from evolve.ir.types import DType
from evolve.validation.formula import Compare, Formula
from evolve.validation.polynomial import Atom, Poly, Ranges, bounds

Sizes = Mapping[tuple[str, ...], Fraction]
"""Coefficients by product of sizes; () is the constant."""
MOST = 2**31 - 1
NARROW = {DType.I32: (-(2**31), MOST), DType.U32: (0, 2**32 - 1), DType.U8: (0, 255)}
"""What integers of 32 bits and fewer can be."""


@dataclass
class Widths:
    """`narrow`: sizes that are `int`; `ints`: arrays of `int`. `extents`: for each variable that counts, what
    it stays below. `reads`: what elements of arrays lie between. `asked`: conditions of the launch."""

    sizes: frozenset[str]
    narrow: frozenset[str] = frozenset()
    ints: frozenset[str] = frozenset()
    extents: dict[str, Poly] = field(default_factory=dict)
    reads: Mapping[str, tuple[Poly, Poly]] = field(default_factory=dict)
    asked: Sequence[tuple[Poly, int]] = ()
    least: Mapping[str, int] = field(default_factory=dict)
    """What sizes are at least, where that is more than 1."""
    known: dict[str, bool] = field(default_factory=dict)

    def fits(self, p: Poly, ranges: Ranges, dtype: DType, facts: Sequence[Formula] = ()) -> bool:
        """Whether the value is one of the type, which has 32 bits. `facts` may say more of what counts."""
        if self._fits(p, ranges, dtype):
            return True
        closer = self._closer(p, facts)
        return bool(closer) and replace(self, extents={**self.extents, **closer}, known={})._fits(
            p, ranges, dtype
        )

    def _closer(self, p: Poly, facts: Sequence[Formula]) -> dict[str, Poly]:
        """What variables stay below by the last fact that bounds each from above."""
        out: dict[str, Poly] = {}
        for a in p.atoms():
            v = Poly({(a,): 1})
            for f in facts:
                if a.label in self.extents and isinstance(f, Compare) and f.op == ">=":
                    rest = f.poly + v
                    if f.poly.terms.get((a,)) == -1 and a not in rest.atoms():
                        out[a.label] = rest.plus(1)
        # Of what bounds one another nothing is known.
        return {n: q for n, q in out.items() if n not in _behind(n, out)}

    def _fits(self, p: Poly, ranges: Ranges, dtype: DType) -> bool:
        least, most = NARROW[dtype]
        low, high = bounds(p, ranges)
        if low is not None and high is not None:
            return low >= least and high <= most
        spans = [f"{a.name} {ranges.get(a.name)}" for a in p.atoms() if a.kind == "var"]
        key = "; ".join([dtype.value, p.text, *sorted(spans)])
        if key not in self.known:
            above = high <= most if high is not None else self._at_most(p, ranges, most)
            below = low >= least if low is not None else self._at_most(p.scale(-1), ranges, -least)
            self.known[key] = above and below
        return self.known[key]

    def _at_most(self, p: Poly, ranges: Ranges, limit: int) -> bool:
        if self._below(p, ranges, limit):
            return True
        # What counts up to a size may have a number for its last value, which says less.
        open_ = {n: (r[0], None) if n in self.extents else r for n, r in ranges.items()}
        return open_ != ranges and self._below(p, open_, limit)

    def _below(self, p: Poly, ranges: Ranges, limit: int) -> bool:
        most = self._upper(p, ranges)
        if most is None:
            return False
        for g, c in (*self.asked, *((_size(n), MOST) for n in self.narrow)):
            asked = _exact(g, self.sizes)
            if asked is None:
                continue
            forms = (most, *(_enlarged(most, asked, self.least, constants=x) for x in (False, True)))
            if any(_within(x, asked, c, limit, self.least) for x in forms):
                return True
        return all(k <= 0 for m, k in most.items() if m) and sum(most.values(), Fraction(0)) <= limit

    def _upper(self, p: Poly, ranges: Ranges) -> Sizes | None:
        """A polynomial of the sizes that the value does not exceed."""
        parted = self._remainder(p, ranges)
        if parted is not None:
            parts = [self._upper(q, ranges) for q in parted]
            return (
                None
                if None in parts
                else _minus(parts[0] or {}, {m: -k for m, k in (parts[1] or {}).items()})
            )
        out: dict[tuple[str, ...], Fraction] = {}
        for m, c in p.terms.items():
            product: Sizes = {(): Fraction(1)}
            for a in m:
                most = self._atom(a, ranges) if c > 0 else self._least(a, ranges)
                # Products of what may be negative have no such bound.
                if most is None or (len(m) > 1 and self._least(a, ranges) is None):
                    return None
                product = _times(product, most)
            for n, k in product.items():
                out[n] = out.get(n, Fraction(0)) + c * k
        return {n: k for n, k in out.items() if k}

    def _remainder(self, p: Poly, ranges: Ranges) -> tuple[Poly, Poly] | None:
        """What is left without `k (q - d floor(q / d))`, a remainder times what is not negative, and the most
        that this can be; None where there is none."""
        for m, c in p.terms.items():
            for a in m:
                d = a.of[1].value if a.kind == "floor" else None
                others = tuple(x for x in m if x is not a)
                if d is None or d < 2 or c % d or None in (self._least(x, ranges) for x in others):
                    continue
                times = Poly({others: -c // d})
                rest = p - times * (a.of[0] - Poly({(a,): d}))
                if len(rest.terms) < len(p.terms) - 1:
                    # Less so much of a remainder is at most nothing less.
                    return rest, times.scale(d - 1) if c < 0 else Poly()
        return None

    def _atom(self, a: Atom, ranges: Ranges) -> Sizes | None:
        """The most that an atom can be."""
        if a.kind == "var" and a.label in self.sizes:
            return {(a.label,): Fraction(1)}
        _, high = bounds(Poly({(a,): 1}), ranges)
        if high is not None:
            return {(): Fraction(high)}
        if a.kind == "var" and a.label in self.extents:
            return self._upper(self.extents[a.label].plus(-1), ranges)
        if a.kind == "floor" and (d := a.of[1].value) is not None and d > 0:
            inner = self._upper(a.of[0], ranges)
            return None if inner is None else {m: k / d for m, k in inner.items()}
        if a.kind == "xor":
            both = [self._upper(q, ranges) for q in a.of]
            lows = [bounds(q, ranges)[0] for q in a.of]
            if both[0] is not None and both[1] is not None and all(n is not None and n >= 0 for n in lows):
                return _minus(both[0], {m: -k for m, k in both[1].items()})
        if a.kind == "min":
            return self._upper(a.of[0], ranges) or self._upper(a.of[1], ranges)
        if a.kind == "read":
            told = self.reads.get(a.label)
            most = None if told is None else self._upper(told[1].plus(-1), ranges)
            return most if most is not None or a.label not in self.ints else {(): Fraction(MOST)}
        return None

    def _least(self, a: Atom, ranges: Ranges) -> Sizes | None:
        if a.kind == "var" and a.label in self.sizes:
            return {(a.label,): Fraction(1)}
        low, _ = bounds(Poly({(a,): 1}), ranges)
        if low is None and a.kind == "read" and a.label in self.reads:
            low = bounds(self.reads[a.label][0], ranges)[0]
        return None if low is None or low < 0 else {(): Fraction(low)}


def _behind(name: str, bound: Mapping[str, Poly]) -> set[str]:
    """The variables that the bound of one is made of, their bounds' own among them."""
    out: set[str] = set()
    left = [name]
    while left:
        for a in bound[left.pop()].atoms():
            if a.label not in out:
                out.add(a.label)
                left += [a.label] if a.label in bound else []
    return out


def _within(most: Sizes, asked: Sizes, c: int, limit: int, least: Mapping[str, int]) -> bool:
    """Whether `asked <= c` keeps what is at most `most` within the limit."""
    # The least multiple of it that is the expression, product by product, or more.
    shared = [k / asked[m] for m, k in most.items() if m and k > 0 and asked.get(m, 0) > 0]
    if not shared:
        return False
    times = max(shared)
    left = _minus(most, {m: times * k for m, k in asked.items()})
    if any(k > 0 for m, k in left.items() if m):
        return False
    rest = (k * prod(least.get(x, 1) for x in m) for m, k in left.items())
    return times * c + sum(rest, Fraction(0)) <= limit


def _enlarged(most: Sizes, asked: Sizes, least: Mapping[str, int], *, constants: bool) -> Sizes:
    """Products that the condition does not have, times sizes, over the least these are, until it does."""
    out: dict[tuple[str, ...], Fraction] = {}
    for m, k in most.items():
        into = m
        if k > 0 and m not in asked and (m or constants):
            larger = [n for n in asked if asked[n] > 0 and _divides(m, n)]
            # Rather into what the condition has more of.
            into = min(larger, key=lambda n: (asked[n] - most.get(n, 0) < most[m], len(n)), default=m)
            for x in set(into):
                k /= least.get(x, 1) ** (into.count(x) - m.count(x))
        out[into] = out.get(into, Fraction(0)) + k
    return out


def _divides(m: tuple[str, ...], n: tuple[str, ...]) -> bool:
    return all(m.count(x) <= n.count(x) for x in m)


def _size(name: str) -> Poly:
    return Poly({(Atom("var", name),): 1})


def _exact(p: Poly, sizes: frozenset[str]) -> Sizes | None:
    out = {}
    for m, c in p.terms.items():
        if any(a.kind != "var" or a.label not in sizes for a in m):
            return None
        out[tuple(a.label for a in m)] = Fraction(c)
    return out


def _minus(a: Sizes, b: Sizes) -> Sizes:
    return {m: a.get(m, Fraction(0)) - b.get(m, Fraction(0)) for m in {*a, *b}}


def _times(a: Sizes, b: Sizes) -> Sizes:
    out: dict[tuple[str, ...], Fraction] = {}
    for m, c in a.items():
        for n, d in b.items():
            both = tuple(sorted((*m, *n)))
            out[both] = out.get(both, Fraction(0)) + c * d
    return out
