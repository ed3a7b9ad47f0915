"""Integer polynomials over INDEX variables and opaque INDEX terms (floor divisions, remainders, min, max, and
integers read from memory)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from evolve.ir.data import reads
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load, Var, add, index, mul, sub
from evolve.ir.printer import print_expr
from evolve.ir.types import DType
from evolve.ir.visit import rebuild, variables

Monomial = tuple[Expr, ...]
"""Atoms in a fixed order, with repetition. The empty monomial is 1."""


@lru_cache(maxsize=4096)
def _key(atom: Expr) -> str:
    return print_expr(atom)


@dataclass(frozen=True)
class Poly:
    """sum(coefficient * product of atoms). Terms are kept sorted, coefficients are never 0."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Poly) -> Poly:
        return _make([*self.terms, *other.terms])

    def __neg__(self) -> Poly:
        return Poly(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Poly) -> Poly:
        return self + (-other)

    def __mul__(self, other: Poly) -> Poly:
        return _make([(_merge(a, b), x * y) for a, x in self.terms for b, y in other.terms])

    @property
    def constant(self) -> int | None:
        """Its value if it is a constant."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    def atoms(self) -> frozenset[Expr]:
        return frozenset(a for m, _ in self.terms for a in m)

    def names(self) -> frozenset[str]:
        """All variables, those inside opaque atoms too."""
        return frozenset(n for a in self.atoms() for n in variables(a))

    @property
    def reads(self) -> bool:
        """Whether it depends on integers read from memory."""
        return any(reads(a) for a in self.atoms())

    def coefficient(self, atom: Expr) -> tuple[Poly, Poly] | None:
        """(a, b) with self = a * atom + b and no atom in a or b; None when it occurs to a higher power."""
        a: list[tuple[Monomial, int]] = []
        b: list[tuple[Monomial, int]] = []
        for m, c in self.terms:
            count = m.count(atom)
            if count > 1:
                return None
            if count:
                at = m.index(atom)
                a.append((m[:at] + m[at + 1 :], c))
            else:
                b.append((m, c))
        return _make(a), _make(b)

    def replace(self, atom: Expr, by: Poly) -> Poly:
        """Every occurrence of an atom replaced; not inside other atoms."""
        out = ZERO
        for m, c in self.terms:
            term = Poly(((tuple(x for x in m if x != atom), c),))
            for _ in range(m.count(atom)):
                term = term * by
            out = out + term
        return out

    def substitute(self, by: Mapping[str, Poly]) -> Poly:
        """Variables replaced everywhere, inside opaque atoms too."""
        out = ZERO
        for m, c in self.terms:
            term = constant(c)
            for a in m:
                term = term * _substitute_atom(a, by)
            out = out + term
        return out

    def divide(self, d: Poly) -> tuple[Poly, Poly]:
        """(q, r) with self = q * d + r; no term of r is divisible by d's leading term."""
        lead = max(d.terms, key=_order)
        quotient, rest, done = ZERO, self, ZERO
        while rest.terms:
            m, c = max(rest.terms, key=_order)
            term = Poly(((m, c),))
            left = _divide_monomial(m, lead[0])
            if left is None or c // lead[1] == 0:
                done, rest = done + term, rest - term
                continue
            if c % lead[1] and left:
                done, rest = done + term, rest - term
                continue
            q = Poly(((left, c // lead[1]),))
            quotient = quotient + q
            rest = rest - q * d
            if c % lead[1]:
                keep = Poly(((m, c % lead[1]),))
                done, rest = done + keep, rest - keep
        return quotient, done

    def __iter__(self) -> Iterator[tuple[Monomial, int]]:
        return iter(self.terms)


def _order(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
    return len(term[0]), [_key(a) for a in term[0]]


def _merge(a: Monomial, b: Monomial) -> Monomial:
    return tuple(sorted((*a, *b), key=_key))


def _divide_monomial(m: Monomial, d: Monomial) -> Monomial | None:
    left = list(m)
    for a in d:
        if a not in left:
            return None
        left.remove(a)
    return tuple(left)


def _make(terms: list[tuple[Monomial, int]]) -> Poly:
    acc: dict[Monomial, int] = {}
    for m, c in terms:
        acc[m] = acc.get(m, 0) + c
    kept = [(m, c) for m, c in acc.items() if c]
    return Poly(tuple(sorted(kept, key=lambda t: (-len(t[0]), [_key(a) for a in t[0]]))))


ZERO = Poly(())


def constant(value: int) -> Poly:
    """The constant polynomial."""
    return Poly((((), value),)) if value else ZERO


ONE = constant(1)


def atom(e: Expr) -> Poly:
    """A single atom."""
    return Poly((((e,), 1),))


def variable(name: str) -> Poly:
    """A single INDEX variable."""
    return atom(Var(name, DType.INDEX))


def polynomial(e: Expr) -> Poly:
    """The polynomial of an INDEX expression; what is not +, - or * becomes an opaque atom."""
    match e:
        case Const():
            return constant(int(e.value))
        case Binary(op=BinaryOp.ADD):
            return polynomial(e.lhs) + polynomial(e.rhs)
        case Binary(op=BinaryOp.SUB):
            return polynomial(e.lhs) - polynomial(e.rhs)
        case Binary(op=BinaryOp.MUL):
            return polynomial(e.lhs) * polynomial(e.rhs)
        case Binary(op=BinaryOp.FLOORDIV | BinaryOp.MOD | BinaryOp.MIN | BinaryOp.MAX):
            return _opaque(e.op, polynomial(e.lhs), polynomial(e.rhs))
        case _:
            return atom(e)


def _opaque(op: BinaryOp, a: Poly, b: Poly) -> Poly:
    x, y = a.constant, b.constant
    if x is not None and y is not None:
        if op in (BinaryOp.FLOORDIV, BinaryOp.MOD) and y > 0:
            return constant(x // y if op is BinaryOp.FLOORDIV else x % y)
        if op is BinaryOp.MIN:
            return constant(min(x, y))
        if op is BinaryOp.MAX:
            return constant(max(x, y))
    if op is BinaryOp.FLOORDIV and y == 1:
        return a
    if op is BinaryOp.MOD and y == 1:
        return ZERO
    if op in (BinaryOp.MIN, BinaryOp.MAX) and a == b:
        return a
    return atom(Binary(op, expression(a), expression(b), DType.INDEX))


def _substitute_atom(a: Expr, by: Mapping[str, Poly]) -> Poly:
    match a:
        case Var():
            return by.get(a.name, atom(a))
        case Binary(op=BinaryOp.FLOORDIV | BinaryOp.MOD | BinaryOp.MIN | BinaryOp.MAX):
            if not variables(a) & by.keys():
                return atom(a)
            return _opaque(a.op, polynomial(a.lhs).substitute(by), polynomial(a.rhs).substitute(by))
        case Cast(arg=Load() as element):
            if not variables(a) & by.keys():
                return atom(a)
            indices = tuple(expression(polynomial(i).substitute(by)) for i in element.indices)
            return atom(replace(a, arg=replace(element, indices=indices)))
        case _:
            return atom(a)


def expression(p: Poly) -> Expr:
    """An INDEX expression of the polynomial: positive terms first, constant last."""
    out: Expr | None = None
    terms = sorted(p.terms, key=lambda t: (not t[0], t[1] < 0))
    for m, c in terms:
        term: Expr | None = None
        for a in m:
            term = a if term is None else mul(term, a)
        size = abs(c)
        if term is None:
            out = index(c) if out is None else add(out, c)
            continue
        if size != 1:
            term = mul(term, size)
        if out is None:
            out = term if c > 0 else mul(term, -1)
        else:
            out = add(out, term) if c > 0 else sub(out, term)
    return index(0) if out is None else out


def canonical(e: Expr) -> Expr:
    """Every INDEX part of an expression in polynomial normal form."""
    if e.dtype is DType.INDEX and not isinstance(e, Const | Var):
        return expression(polynomial(e))
    if isinstance(e, Const | Var):
        return e
    from evolve.ir.visit import children

    return rebuild(e, tuple(canonical(x) for x in children(e)))
