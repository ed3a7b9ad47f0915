"""Simplification of INDEX expressions under the ranges of their variables.

An expression becomes a linear form: integer coefficients over atoms (variables, and floor
divisions, remainders or products that could not be broken up) plus a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd

from evolve.ir.expr import (
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Find,
    Load,
    Var,
    add,
    compare,
    floordiv,
    index,
    mod,
    mul,
)
from evolve.ir.types import DType
from evolve.ir.visit import children, rebuild, variables

Range = tuple[int | None, int | None]
"""Inclusive bounds; None is unbounded."""

UNKNOWN_RANGE: Range = (None, None)


@dataclass(frozen=True)
class Ranges:
    """What is known of variables.

    bounds    inclusive constant bounds
    divisors  a constant that divides the variable exactly
    extents   a loop variable's extent where it is not constant: 0 <= v <= extent - 1
    elements  constant bounds of the integers in an array
    ordered   arrays of one dimension in which no integer is less than the one before
    """

    bounds: Mapping[str, Range]
    divisors: Mapping[str, int]
    extents: Mapping[str, Expr] = field(default_factory=dict)
    elements: Mapping[str, Range] = field(default_factory=dict)
    ordered: frozenset[str] = frozenset()

    def of(self, name: str) -> Range:
        return self.bounds.get(name, UNKNOWN_RANGE)


NOTHING = Ranges({}, {})


@dataclass(frozen=True)
class Linear:
    """sum(coefficient * atom) + constant. Atoms are kept in order of first appearance."""

    terms: tuple[tuple[Expr, int], ...]
    constant: int

    def __add__(self, other: Linear) -> Linear:
        acc = dict(self.terms)
        for atom, c in other.terms:
            acc[atom] = acc.get(atom, 0) + c
        return Linear(tuple((a, c) for a, c in acc.items() if c), self.constant + other.constant)

    def scale(self, k: int) -> Linear:
        if k == 0:
            return Linear((), 0)
        return Linear(tuple((a, c * k) for a, c in self.terms), self.constant * k)

    @property
    def is_constant(self) -> bool:
        return not self.terms


def linear(e: Expr, ranges: Ranges = NOTHING) -> Linear:
    """The simplified linear form of an INDEX expression. Remembered like `simplify`."""
    key = (id(ranges), e)
    found = _linears.get(key)
    if found is None:
        if len(_linears) > _MOST_REMEMBERED:
            _linears.clear()
        # The ranges stand in the entry so that no others can come to have their identity.
        found = _linears[key] = (_recombine(_linear(e, ranges), ranges), ranges)
    return found[0]


_MOST_REMEMBERED = 20_000
_linears: dict[tuple[int, Expr], tuple[Linear, Ranges]] = {}


def _recombine(a: Linear, ranges: Ranges) -> Linear:
    """d*floor(e/d) + (e mod d) is e, and d*floor(v/d) is v where d divides v."""
    for atom, c in a.terms:
        if not (isinstance(atom, Binary) and atom.op is BinaryOp.FLOORDIV and isinstance(atom.rhs, Const)):
            continue
        d = int(atom.rhs.value)
        if d <= 0 or c % d:
            continue
        rest = Linear(tuple(t for t in a.terms if t[0] != atom), a.constant)
        inner = atom.lhs
        remainder = mod(inner, d)
        k = dict(rest.terms).get(remainder)
        if k is not None and k == c // d:
            rest = Linear(tuple(t for t in rest.terms if t[0] != remainder), rest.constant)
            return _recombine(rest + linear(inner, ranges).scale(k), ranges)
        if isinstance(inner, Var) and ranges.divisors.get(inner.name, 1) % d == 0:
            return _recombine(rest + Linear(((inner, c // d),), 0), ranges)
    return a


def _linear(e: Expr, ranges: Ranges) -> Linear:
    match e:
        case Const():
            return Linear((), int(e.value))
        case Binary(op=BinaryOp.ADD):
            return linear(e.lhs, ranges) + linear(e.rhs, ranges)
        case Binary(op=BinaryOp.SUB):
            return linear(e.lhs, ranges) + linear(e.rhs, ranges).scale(-1)
        case Binary(op=BinaryOp.MUL):
            a, b = linear(e.lhs, ranges), linear(e.rhs, ranges)
            if a.is_constant:
                return b.scale(a.constant)
            if b.is_constant:
                return a.scale(b.constant)
            return Linear(((mul(expression(a), expression(b)), 1),), 0)
        case Binary(op=BinaryOp.FLOORDIV | BinaryOp.MOD):
            a, b = linear(e.lhs, ranges), linear(e.rhs, ranges)
            if b.is_constant and b.constant > 0:
                quotient, rest = _divide(a, b.constant, ranges)
                return quotient if e.op is BinaryOp.FLOORDIV else rest
            op = floordiv if e.op is BinaryOp.FLOORDIV else mod
            return Linear(((op(expression(a), expression(b)), 1),), 0)
        case Binary(op=BinaryOp.MIN | BinaryOp.MAX):
            a, b = linear(e.lhs, ranges), linear(e.rhs, ranges)
            low, high = bounds(a + b.scale(-1), ranges)
            smaller_is_a = high is not None and high <= 0
            smaller_is_b = low is not None and low >= 0
            if smaller_is_a:
                return a if e.op is BinaryOp.MIN else b
            if smaller_is_b:
                return b if e.op is BinaryOp.MIN else a
            return Linear(((Binary(e.op, expression(a), expression(b), DType.INDEX), 1),), 0)
        case Binary(op=BinaryOp.BIT_XOR, lhs=Const(value=x), rhs=Const(value=y)):
            return Linear((), int(x) ^ int(y))
        case Binary(op=BinaryOp.BIT_XOR, lhs=kept, rhs=Const(value=0)):
            return linear(kept, ranges)
        case _:
            return Linear(((e, 1),), 0)


def _divide(a: Linear, d: int, ranges: Ranges) -> tuple[Linear, Linear]:
    """Quotient and remainder of floor division by d > 0, as simple as ranges allow."""
    if d == 1:
        return a, Linear((), 0)
    whole: dict[Expr, int] = {}
    part: dict[Expr, int] = {}
    for atom, c in a.terms:
        if c % d == 0:
            whole[atom] = c // d
        elif isinstance(atom, Var) and (c * ranges.divisors.get(atom.name, 1)) % d == 0:
            # c * atom is a multiple of d although c is not: keep the exact quotient as an atom.
            whole[floordiv(atom if c == 1 else mul(atom, c), d)] = 1
        else:
            part[atom] = c
    rest = Linear(tuple(part.items()), a.constant % d)
    quotient = Linear(tuple(whole.items()), a.constant // d)
    low, high = bounds(rest, ranges)
    if low is not None and high is not None and low // d == high // d:
        k = low // d
        return quotient + Linear((), k), rest + Linear((), -k * d)
    reduced = _common(rest, d)
    if reduced is not None:
        g, small = reduced
        q, r = _divide(small, d // g, ranges) if d // g > 1 else (small, Linear((), 0))
        return quotient + q, r.scale(g) + Linear((), rest.constant % g)
    body = expression(rest)
    q = Linear(((floordiv(body, d), 1),), 0)
    nested = _nested(rest, ranges)
    if nested is not None:
        # floor((floor(e / d1) + k) / d) == floor((e + k*d1) / (d1*d)): ceilings of ceilings stay one.
        inner, d1 = nested
        q, _ = _divide(inner + Linear((), rest.constant * d1), d1 * d, ranges)
    return quotient + q, Linear(((mod(body, d), 1),), 0)


def _nested(a: Linear, ranges: Ranges) -> tuple[Linear, int] | None:
    """(e, d1) when `a` is floor(e / d1) plus a constant and e is made of sizes.

    Not for loop variables: their quotient and remainder must keep one form to be put together again.
    """
    match a.terms:
        case ((Binary(op=BinaryOp.FLOORDIV, lhs=lhs, rhs=Const(value=d)), 1),) if d > 0:
            names = variables(lhs)
            if any(n in ranges.extents or ranges.of(n)[1] is not None for n in names):
                return None
            return linear(lhs, ranges), int(d)
        case _:
            return None


def _common(a: Linear, d: int) -> tuple[int, Linear] | None:
    """g > 1 dividing d and every coefficient, with a // g; floor(a/d) == floor((a//g)/(d/g))."""
    g = d
    for _, c in a.terms:
        g = gcd(g, c)
    if g <= 1 or not a.terms:
        return None
    return g, Linear(tuple((x, c // g) for x, c in a.terms), a.constant // g)


def expression(a: Linear) -> Expr:
    """Back to an expression: terms in order, constant last."""
    out: Expr | None = None
    for atom, c in a.terms:
        term = atom if c == 1 else mul(atom, c)
        out = term if out is None else add(out, term)
    if out is None:
        return index(a.constant)
    return out if a.constant == 0 else add(out, a.constant)


def bounds(a: Linear, ranges: Ranges) -> Range:
    """Inclusive bounds of a linear form by interval arithmetic, symbolic extents eliminated first."""
    a = _in_units(a, ranges)
    low, high = _interval(a, ranges)
    if ranges.extents and (low is None or high is None):
        if high is None:
            high = _interval(_at_extreme(a, ranges, largest=True), ranges)[1]
        if low is None:
            low = _interval(_at_extreme(a, ranges, largest=False), ranges)[0]
    return low, high


def _in_units(a: Linear, ranges: Ranges) -> Linear:
    """Exact quotients of a size, and the size itself, as multiples of its quotient by all its known divisors.

    With n mod 16384 == 0, n // 1024 is 16 * (n // 16384): so differences of quotients cancel.
    """
    quotients = [(_quotient(atom, ranges), atom, c) for atom, c in a.terms]
    sizes = [q[0] for q, _, _ in quotients if q is not None]
    if len(set(sizes)) == len(sizes):
        return a
    out = Linear((), a.constant)
    for q, atom, c in quotients:
        if q is not None and sizes.count(q[0]) > 1:
            unit = ranges.divisors[q[0]]
            out = out + Linear(((floordiv(Var(q[0]), unit), c * (unit // q[1])),), 0)
        else:
            out = out + Linear(((atom, c),), 0)
    return out


def _quotient(atom: Expr, ranges: Ranges) -> tuple[str, int] | None:
    """(size, divisor) when the atom is a size or its exact quotient by a constant."""
    size, d = atom, 1
    if isinstance(atom, Binary) and atom.op is BinaryOp.FLOORDIV and isinstance(atom.rhs, Const):
        size, d = atom.lhs, int(atom.rhs.value)
    if not isinstance(size, Var) or size.name not in ranges.divisors or d <= 0:
        return None
    return (size.name, d) if ranges.divisors[size.name] % d == 0 else None


def _at_extreme(a: Linear, ranges: Ranges, *, largest: bool) -> Linear:
    """`a` with each loop variable of symbolic extent at the end of its range that makes `a` extreme."""
    out = Linear((), a.constant)
    for atom, c in a.terms:
        extent = ranges.extents.get(atom.name) if isinstance(atom, Var) else None
        if extent is None:
            out = out + Linear(((atom, c),), 0)
        elif (c > 0) == largest:
            out = out + (linear(extent, ranges) + Linear((), -1)).scale(c)
    return _in_units(_recombine(out, ranges), ranges)


def _interval(a: Linear, ranges: Ranges) -> Range:
    low: int | None = a.constant
    high: int | None = a.constant
    later = _row(a, ranges)
    if later is not None:
        # Their difference is at least 0; nothing is known of how large it is.
        a, high = Linear(tuple(t for t in a.terms if t[0] not in later), a.constant), None
    for atom, c in a.terms:
        lo, hi = _atom_bounds(atom, ranges)
        if c < 0:
            lo, hi = hi, lo
        low = None if low is None or lo is None else low + c * lo
        high = None if high is None or hi is None else high + c * hi
    return low, high


def _row(a: Linear, ranges: Ranges) -> tuple[Expr, Expr] | None:
    """Two elements of an ordered array, the later one less the earlier one, with one coefficient above 0."""
    ends = [
        (atom, c, atom.arg)
        for atom, c in a.terms
        if isinstance(atom, Cast)
        and isinstance(atom.arg, Load)
        and atom.arg.buffer in ranges.ordered
        and len(atom.arg.indices) == 1
    ]
    for later, c, x in ends:
        for earlier, d, y in ends:
            if c > 0 and d == -c and x.buffer == y.buffer:
                apart = linear(x.indices[0], ranges) + linear(y.indices[0], ranges).scale(-1)
                if apart.is_constant and apart.constant >= 0:
                    return later, earlier
    return None


def _atom_bounds(atom: Expr, ranges: Ranges) -> Range:
    match atom:
        case Var():
            return ranges.of(atom.name)
        case Cast(arg=Load(buffer=array)):
            return ranges.elements.get(array, UNKNOWN_RANGE)
        case Find():
            return 0, None
        case Binary(op=BinaryOp.MOD, rhs=Const(value=d)) if d > 0:
            lo, hi = bounds(linear(atom.lhs, ranges), ranges)
            if lo is not None and hi is not None and lo // int(d) == hi // int(d):
                return lo % int(d), hi % int(d)
            return 0, int(d) - 1
        case Binary(op=BinaryOp.FLOORDIV, rhs=Const(value=d)) if d > 0:
            lo, hi = bounds(linear(atom.lhs, ranges), ranges)
            return (None if lo is None else lo // int(d)), (None if hi is None else hi // int(d))
        case Binary(op=BinaryOp.MUL):
            (a, b), (c, d2) = (bounds(linear(x, ranges), ranges) for x in (atom.lhs, atom.rhs))
            if a is not None and c is not None and a >= 0 and c >= 0:
                return a * c, (None if b is None or d2 is None else b * d2)
            return UNKNOWN_RANGE
        case Binary(op=BinaryOp.BIT_XOR):
            (a, b), (c, d2) = (bounds(linear(x, ranges), ranges) for x in (atom.lhs, atom.rhs))
            if a is None or c is None or a < 0 or c < 0:
                return UNKNOWN_RANGE
            return 0, (None if b is None or d2 is None else (1 << max(b, d2).bit_length()) - 1)
        case Binary(op=BinaryOp.MIN):
            (a, b), (c, d2) = (bounds(linear(x, ranges), ranges) for x in (atom.lhs, atom.rhs))
            highs = [h for h in (b, d2) if h is not None]
            return (None if a is None or c is None else min(a, c)), (min(highs) if highs else None)
        case Binary(op=BinaryOp.MAX):
            (a, b), (c, d2) = (bounds(linear(x, ranges), ranges) for x in (atom.lhs, atom.rhs))
            lows = [x for x in (a, c) if x is not None]
            return (max(lows) if lows else None), (None if b is None or d2 is None else max(b, d2))
        case _:
            return UNKNOWN_RANGE


def simplify(e: Expr, ranges: Ranges = NOTHING) -> Expr:
    """An equal expression, simpler where ranges allow: arithmetic on INDEX, and comparisons decided.

    Works on any expression; parts of other types are rebuilt around their simplified operands. Answers are
    remembered: the same few subscripts are asked about after every statement of a program.
    """
    if isinstance(e, Const | Var):
        return e
    key = (id(ranges), e)
    found = _simplified.get(key)
    if found is None:
        if len(_simplified) > _MOST_REMEMBERED:
            _simplified.clear()
        found = _simplified[key] = (_simplify(e, ranges), ranges)
    return found[0]


_simplified: dict[tuple[int, Expr], tuple[Expr, Ranges]] = {}


def _simplify(e: Expr, ranges: Ranges) -> Expr:
    if isinstance(e, Binary) and e.op.is_comparison and _is_index(e.lhs) and _is_index(e.rhs):
        return _simplify_comparison(e, ranges)
    if isinstance(e, Binary) and e.op in (BinaryOp.AND, BinaryOp.OR):
        return _simplify_logic(e, ranges)
    if _is_index(e) and not isinstance(e, Const | Var):
        inner = rebuild(e, tuple(simplify(x, ranges) for x in children(e)))
        return expression(linear(inner, ranges))
    parts = children(e)
    return rebuild(e, tuple(simplify(x, ranges) for x in parts)) if parts else e


def _is_index(e: Expr) -> bool:
    return e.dtype is DType.INDEX


def _simplify_comparison(e: Binary, ranges: Ranges) -> Expr:
    a, b = simplify(e.lhs, ranges), simplify(e.rhs, ranges)
    low, high = bounds(linear(a, ranges) + linear(b, ranges).scale(-1), ranges)
    decided: bool | None = None
    op = e.op
    if op is BinaryOp.LT:
        decided = True if high is not None and high < 0 else False if low is not None and low >= 0 else None
    elif op is BinaryOp.LE:
        decided = True if high is not None and high <= 0 else False if low is not None and low > 0 else None
    elif op is BinaryOp.GT:
        decided = True if low is not None and low > 0 else False if high is not None and high <= 0 else None
    elif op is BinaryOp.GE:
        decided = True if low is not None and low >= 0 else False if high is not None and high < 0 else None
    elif low == 0 and high == 0:
        decided = op is BinaryOp.EQ
    elif (low is not None and low > 0) or (high is not None and high < 0):
        decided = op is BinaryOp.NE
    if decided is not None:
        return Const(decided, DType.BOOL)
    return compare(op, a, b)


def _simplify_logic(e: Binary, ranges: Ranges) -> Expr:
    a, b = simplify(e.lhs, ranges), simplify(e.rhs, ranges)
    absorbing = e.op is BinaryOp.OR
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Const):
            return x if bool(x.value) == absorbing else y
    return Binary(e.op, a, b, DType.BOOL)
