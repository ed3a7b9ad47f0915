"""Index expressions as polynomials over atoms, in one form: equal forms are equal expressions.

Atoms are variables, quotients rounded down or towards zero, extremes, exclusive ors, and integers read from
memory. Ranges of variables decide what a quotient is where they can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd
from typing import Literal

Bound = int | None
Interval = tuple[Bound, Bound]
"""Least and greatest value; None: not known."""
Ranges = Mapping[str, Interval]
Kind = Literal["var", "floor", "trunc", "min", "max", "xor", "read", "find"]


@dataclass(frozen=True, eq=False)
class Atom:
    """`label`: the variable, or the array that is read. `of`: operands, for quotients both."""

    kind: Kind
    label: str
    of: tuple[Poly, ...] = ()

    @cached_property
    def name(self) -> str:
        """The atom in one spelling."""
        if self.kind == "var":
            return self.label
        return f"{self.kind}{self.label}({'; '.join(p.text for p in self.of)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


Monomial = tuple[Atom, ...]


@dataclass(frozen=True, eq=False)
class Poly:
    """Coefficients by monomial, none 0; the monomial () is the constant."""

    terms: Mapping[Monomial, int] = field(default_factory=dict)

    @cached_property
    def text(self) -> str:
        parts = sorted(("*".join(a.name for a in m), c) for m, c in self.terms.items())
        return " + ".join(f"{c}*{m}" if m and c != 1 else m or str(c) for m, c in parts) or "0"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __add__(self, other: Poly) -> Poly:
        out = dict(self.terms)
        for m, c in other.terms.items():
            total = out.get(m, 0) + c
            if total:
                out[m] = total
            else:
                out.pop(m, None)
        return Poly(out)

    def __sub__(self, other: Poly) -> Poly:
        return self + other.scale(-1)

    def __mul__(self, other: Poly) -> Poly:
        out: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                both = tuple(sorted((*m, *n), key=lambda a: a.name))
                out[both] = out.get(both, 0) + c * d
        return Poly({m: c for m, c in out.items() if c})

    def scale(self, by: int) -> Poly:
        return Poly({m: c * by for m, c in self.terms.items()}) if by else ZERO

    def plus(self, number: int) -> Poly:
        return self + constant(number)

    @property
    def constant(self) -> int:
        return self.terms.get((), 0)

    @property
    def value(self) -> int | None:
        """The number that it is."""
        return self.constant if not self.terms or set(self.terms) == {()} else None

    def atoms(self) -> set[Atom]:
        """All atoms, those inside others too."""
        out: set[Atom] = set()
        for m in self.terms:
            for a in m:
                if a not in out:
                    out.add(a)
                    for p in a.of:
                        out |= p.atoms()
        return out


ZERO = Poly()


def constant(value: int) -> Poly:
    return Poly({(): value}) if value else ZERO


def atom(a: Atom) -> Poly:
    return Poly({(a,): 1})


def variable(name: str) -> Poly:
    return atom(Atom("var", name))


def bounds(p: Poly, ranges: Ranges) -> Interval:
    """An interval that the value lies in."""
    low: Bound = 0
    high: Bound = 0
    for m, c in p.terms.items():
        a, b = 1, 1
        span: Interval = (a, b)
        for x in m:
            span = _product(span, _span(x, ranges))
        if c < 0:
            span = (span[1], span[0])
        low = None if low is None or span[0] is None else low + c * span[0]
        high = None if high is None or span[1] is None else high + c * span[1]
    for m, c in p.terms.items():
        if (
            len(m) == 1
            and m[0].kind == "floor"
            and (d := m[0].of[1].value)
            and d > 1
            and c < 0
            and c % d == 0
        ):
            # k (q - d floor(q / d)), a remainder, and what is left.
            k = -c // d
            rest = p - m[0].of[0].scale(k) + Poly({m: k * d})
            least, most = bounds(rest, ranges)
            if least is not None:
                low = least if low is None else max(low, least)
            if most is not None:
                high = most + k * (d - 1) if high is None else min(high, most + k * (d - 1))
            break
    return low, high


def _product(a: Interval, b: Interval) -> Interval:
    if None not in a and None not in b:
        ends = [x * y for x in a for y in b]  # type: ignore[operator]
        return min(ends), max(ends)
    if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0:
        return a[0] * b[0], None
    return None, None


def _span(a: Atom, ranges: Ranges) -> Interval:
    if a.name in ranges:
        return ranges[a.name]
    if a.kind in ("floor", "trunc") and (d := a.of[1].value) is not None and d > 0:
        low, high = bounds(a.of[0], ranges)
        return None if low is None else low // d, None if high is None else high // d + (a.kind == "trunc")
    if a.kind in ("min", "max"):
        (a0, a1), (b0, b1) = (bounds(p, ranges) for p in a.of)
        take = min if a.kind == "min" else max
        low = None if a0 is None or b0 is None else take(a0, b0)
        return low, None if a1 is None or b1 is None else take(a1, b1)
    if a.kind == "xor":
        (a0, a1), (b0, b1) = (bounds(p, ranges) for p in a.of)
        if a0 is not None and b0 is not None and min(a0, b0) >= 0:
            if a1 is not None and b1 is not None:
                return 0, (1 << max(a1, b1).bit_length()) - 1
            return 0, None
    return None, None


def floor(p: Poly, d: Poly, ranges: Ranges) -> Poly:
    """p / d rounded down. Multiples of a constant divisor leave the dividend."""
    n = d.value
    if n is None or n < 1:
        return atom(Atom("floor", "", (p, d)))
    whole = Poly({m: c // n for m, c in p.terms.items() if c // n})
    rest = Poly({m: c % n for m, c in p.terms.items() if c % n})
    low, high = bounds(rest, ranges)
    if low is not None and high is not None and low // n == high // n:
        return whole.plus(low // n)
    # floor((g r + c) / (g n)) = floor((r + floor(c / g)) / n)
    g = gcd(n, *(c for m, c in rest.terms.items() if m))
    if g > 1:
        rest = Poly({m: c // g for m, c in rest.terms.items() if c // g})
        n //= g
        if n == 1:
            return whole + rest
        return whole + floor(rest, constant(n), ranges)
    inner = rest.terms
    if len(inner) == 1 and next(iter(inner.values())) == 1:
        (m,) = inner
        if len(m) == 1 and m[0].kind == "floor" and (k := m[0].of[1].value) is not None and k > 0:
            return whole + floor(m[0].of[0], constant(k * n), ranges)
    return whole + atom(Atom("floor", "", (rest, constant(n))))


def truncated(p: Poly, d: Poly) -> Poly:
    """p / d rounded towards zero, where nobody knows whether p is negative."""
    return atom(Atom("trunc", "", (p, d)))


def extreme(kind: Literal["min", "max"], p: Poly, q: Poly, ranges: Ranges) -> Poly:
    low, high = bounds(p - q, ranges)
    if high is not None and high <= 0:
        return p if kind == "min" else q
    if low is not None and low >= 0:
        return q if kind == "min" else p
    return atom(Atom(kind, "", tuple(sorted((p, q), key=lambda x: x.text))))


def exclusive_or(p: Poly, q: Poly, ranges: Ranges) -> Poly:
    """What lies below the bits that one of them is made of is added to the rest instead."""
    if p.value == 0 or q.value == 0:
        return q if p.value == 0 else p
    for a, b in ((p, q), (q, p)):
        step = gcd(*b.terms.values()) & -gcd(*b.terms.values())
        high = Poly({m: c - c % step for m, c in a.terms.items() if c - c % step})
        low = a - high
        span = bounds(low, ranges)
        if low.terms and span[0] is not None and span[1] is not None and span[0] >= 0 and span[1] < step:
            return exclusive_or(high, b, ranges) + low
    return atom(Atom("xor", "", tuple(sorted((p, q), key=lambda x: x.text))))


def substituted(p: Poly, name: str, by: Poly) -> Poly:
    """The same with another value for a variable."""
    out = ZERO
    for m, c in p.terms.items():
        term = constant(c)
        for a in m:
            term = term * _with(a, name, by)
        out = out + term
    return out


def _with(a: Atom, name: str, by: Poly) -> Poly:
    if a.kind == "var":
        return by if a.label == name else atom(a)
    of = tuple(substituted(q, name, by) for q in a.of)
    if a.kind in ("min", "max", "xor"):
        of = tuple(sorted(of, key=lambda x: x.text))
    return atom(Atom(a.kind, a.label, of))
