"""Sizes that a host function computes in 64 bits: that nothing is too large for these is shown of each.

Taken for granted is that the arrays are there: none has 2**62 bytes, and no size is 2**62.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from evolve.ir.kernel import Module
from evolve.ir.types import DType
from evolve.validation.context import Context
from evolve.validation.formula import Compare
from evolve.validation.host import Node
from evolve.validation.meaning import kernel_index
from evolve.validation.polynomial import Monomial, Poly, constant, variable
from evolve.validation.state import State
from evolve.validation.verdict import UnreadError

_MOST = 2**63 - 1
_ARRAY = 2**62
"""Bytes that no array has, and so no size."""
BEYOND = 9.1e18
"""More than what is compared with in floating point, 9.0e18 that is, rounded any way."""
_ROUNDED = 2**100
"""Of which a double keeps all but much less than the difference of these."""


class HostSizes:
    """`names`: the size that each name of the text is, by the name's key."""

    def __init__(self, module: Module, state: State) -> None:
        self.names: dict[int, str] = {}
        narrow = {s.name for s in module.scalars if s.dtype in (DType.I32, DType.U32)}
        self.magnitudes = {n: 2**31 if n in narrow else _ARRAY for n in state.sizes}
        self.lengths: list[tuple[list[str], int]] = []
        """Products of sizes that are the length of an array, which memory has."""
        for b in module.buffers:
            length = constant(b.dtype.size)
            for x in b.extents:
                length = length * kernel_index(state, x, {}, Context({}))
            for m, c in length.terms.items() if len(length.terms) == 1 else ():
                if m and c > 0 and all(a.kind == "var" for a in m):
                    self.lengths.append(([a.label for a in m], _ARRAY // c))

    def number(self, e: Node, context: Context) -> Poly:
        """A number in 64 bits, computed without being too large for them."""
        match e:
            case ("num", int() as value):
                return constant(value)
            case ("name", key, _) if key in self.names:
                return variable(self.names[key])
            case ("cast", "long long", ("num", int() as value)):
                return constant(value)
            case ("cast", "long long", ("op", "-", ("num", int() as value), None, "int")):
                return constant(-value)
            case ("op", "+" | "-" | "*" | "/" | "%" as op, left, right, "long long"):
                a, b = self.number(left, context), self.number(right, context)
                out = self._computed(op, a, b, context)
                if op in "+-*":  # Others are no larger than what they divide.
                    self._check_fits(out, context)
                return out
        raise UnreadError("a size of another form")

    def _computed(self, op: str, a: Poly, b: Poly, context: Context) -> Poly:
        if op in "+-*":
            return a + b if op == "+" else a - b if op == "-" else a * b
        if b.value is None or b.value < 1:
            raise UnreadError("a quotient by what is no number")
        whole = context.quotient(a, b)
        return whole if op == "/" else a - whole * b

    def _check_fits(self, p: Poly, context: Context) -> None:
        if sum(abs(c) * self._most(m, context) for m, c in p.terms.items()) > _MOST:
            raise UnreadError(f"{p.text} may not fit 64 bits")

    def _most(self, m: Monomial, context: Context) -> int:
        """What a product is at most, either sign."""
        names: list[str] = []
        for a in m:
            if a.kind in ("floor", "trunc"):
                # Not larger than what is divided, nor than what that is made of.
                inner = a.of[0]
                return sum(abs(c) * self._most(n, context) for n, c in inner.terms.items()) * prod(
                    self._most((x,), context) for x in m if x is not a
                )
            if a.kind != "var":
                return _MOST + 1
            names.append(a.label)
        positive = _positive(m, context)
        lengths = (
            k for k in self.lengths if positive or not any(k[0].count(x) > names.count(x) for x in k[0])
        )
        known = [*self._bounded(context), *lengths]
        return min([self._plain(names), *(x for x in (self._within(names, *k) for k in known) if x)])

    def _plain(self, names: list[str]) -> int:
        return prod(self.magnitudes.get(n, _MOST + 1) for n in names)

    def _bounded(self, context: Context) -> Iterator[tuple[list[str], int]]:
        """Products of sizes that are positive, and what is known of a sum of these."""
        for f in context.facts:
            if not isinstance(f, Compare) or f.op != ">=" or any(c > 0 for m, c in f.poly.terms.items() if m):
                continue
            if all(_positive(m, context) for m in f.poly.terms if m):
                for m, c in f.poly.terms.items():
                    if m and all(a.kind == "var" for a in m):
                        yield [a.label for a in m], f.poly.constant // -c

    def _within(self, names: list[str], of: list[str], most: int) -> int | None:
        """The most that a product is which another divides, or of which it is a part."""
        if all(of.count(x) >= names.count(x) for x in names):
            return most  # what is left of the other is 1 at least
        if any(names.count(x) < of.count(x) for x in of):
            return None
        rest = list(names)
        for x in of:
            rest.remove(x)
        return most * self._plain(rest)

    def rough(self, e: Node) -> Poly:
        """A product or sum of sizes in floating point."""
        match e:
            case ("cast", "double", inner):
                return self.rough(inner)
            case ("num", int() | float() as value) if value == int(value):
                return constant(int(value))
            case ("name", key, _) if key in self.names:
                return variable(self.names[key])
            case ("op", "+" | "*" as op, left, right, "double"):
                a, b = self.rough(left), self.rough(right)
                return a + b if op == "+" else a * b
            case ("op", "-", left, right, "double"):
                a, b = self.rough(left), self.rough(right)
                if all(self._plain([x.name for x in m]) <= _ROUNDED for m in b.terms):
                    return a - b
        raise UnreadError("a size of another form")

    def is_at_most(self, p: Poly, limit: int, context: Context) -> bool:
        """Whether a size that is not negative is so much at most."""
        if sum(abs(c) * self._most(m, context) for m, c in p.terms.items()) <= limit:
            return True
        return context.holds(Compare(constant(limit) - p, ">="))

    def in_(self, e: Node) -> bool:
        """Whether an expression has a size in it."""
        if e[0] == "name":
            return e[1] in self.names
        return any(self.in_(x) for x in e[1:] if isinstance(x, tuple) and x)


def _positive(m: Monomial, context: Context) -> bool:
    """Whether each factor is known to be at least 1."""
    for a in m:
        low, _ = context.ranges.get(a.name, (None, None))
        if low is None or low < 1:
            return False
    return True
