"""Proving that an INDEX polynomial is never negative, from loop ranges and known facts.

The method is interval reasoning with symbolic ends: each loop variable is put at the end of its
range that makes the polynomial smallest, each size scalar is written 1 + s with s >= 0, and what
is left must have no negative coefficient. Known inequalities may be subtracted first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from evolve.frontend.polynomial import ONE, Poly, atom, constant, expression, polynomial, variable
from evolve.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load, Unary, UnaryOp, Var, compare
from evolve.ir.types import DType
from evolve.ir.visit import variables

_DEPTH = 2
_MAX_FACTS = 24


@dataclass(frozen=True)
class Known:
    """What holds at a place.

    loops    enclosing loops with their extents, outermost first: 0 <= v <= extent - 1
    facts    polynomials that are >= 0 here
    lowest   least values of the scalars that have one; a scalar without one may be anything
    values   the largest value in each index array; the least is 0
    conditions  all that was asked on the way, what gives no facts too
    ordered     index arrays of which no element is less than the one before, the first is 0 and the last the
                largest value, with the subscript of the last where it is known
    """

    loops: tuple[tuple[str, Poly], ...] = ()
    facts: tuple[Poly, ...] = ()
    lowest: tuple[tuple[str, int], ...] = ()
    values: tuple[tuple[str, Poly], ...] = ()
    conditions: tuple[Expr, ...] = ()
    ordered: tuple[tuple[str, Poly | None], ...] = ()

    @property
    def scalars(self) -> Known:
        """What holds everywhere: of the scalars and of what index arrays hold."""
        return Known(lowest=self.lowest, values=self.values, ordered=self.ordered)

    def largest(self, element: Expr) -> Poly | None:
        """The largest value that an integer read from memory has; None for other expressions."""
        if not isinstance(element, Cast) or not isinstance(element.arg, Load):
            return None
        return dict(self.values).get(element.arg.buffer)

    def in_order(self, element: Expr) -> tuple[str, Poly] | None:
        """The ordered array that an integer is read from, and which element of it; None for others."""
        if not isinstance(element, Cast) or not isinstance(element.arg, Load):
            return None
        load = element.arg
        return (load.buffer, polynomial(load.indices[0])) if load.buffer in dict(self.ordered) else None

    def ending(self, name: str, last: Poly) -> Known:
        """With the subscript of the last element of an ordered array."""
        return replace(self, ordered=tuple((n, last if n == name else p) for n, p in self.ordered))

    def inside(self, name: str, extent: Poly) -> Known:
        """In the body of a loop, which therefore runs at least once."""
        return replace(self, loops=(*self.loops, (name, extent)), facts=(*self.facts, extent - ONE))

    def given(self, *facts: Poly) -> Known:
        return replace(self, facts=(*self.facts, *facts))

    def assuming(self, cond: Expr) -> Known:
        """Where a condition holds. `a != b` says something where a is known not to be beyond b."""
        return replace(self, conditions=(*self.conditions, cond))._believing(cond)

    def _believing(self, cond: Expr) -> Known:
        match cond:
            case Binary(op=BinaryOp.AND):
                return self._believing(cond.lhs)._believing(cond.rhs)
            case Binary(op=BinaryOp.NE) if cond.lhs.dtype is DType.INDEX and cond.rhs.dtype is DType.INDEX:
                d = polynomial(cond.rhs) - polynomial(cond.lhs)
                if nonnegative(d, self):
                    return self.given(d - ONE)
                return self.given(-d - ONE) if nonnegative(-d, self) else self
            case _:
                return self.given(*facts_of(cond))


def nonnegative(p: Poly, known: Known, depth: int = _DEPTH) -> bool:
    """Whether p >= 0 is proved. False means only that no proof was found."""
    if _smallest(p, known, depth):
        return True
    if depth == 0:
        return False
    names = p.names()
    for f in [f for f in known.facts if f.names() & names][:_MAX_FACTS]:
        if nonnegative(p - f, known, depth - 1):
            return True
        # p = quotient * f + rest, with f >= 0.
        quotient, rest = p.divide(f)
        if quotient.constant is None and nonnegative(quotient, known, 0) and nonnegative(rest, known, 0):
            return True
    return False


def positive(p: Poly, known: Known) -> bool:
    """Whether p >= 1 is proved."""
    return nonnegative(p - ONE, known)


def _smallest(p: Poly, known: Known, depth: int) -> bool:
    """p >= 0 by putting each atom where it makes p smallest, innermost loops first."""
    extents = dict(known.loops)
    lowest = dict(known.lowest)
    # Opaque terms of the scalars alone come last: they may cancel with those in the loops' extents.
    for a in _in_order(p):
        if isinstance(a, Binary) and variables(a) & extents.keys():
            return _opaque_smallest(p, a, known, depth)
    for name, _ in reversed(known.loops):
        parts = p.coefficient(variable_atom(name))
        if parts is None:
            return False
        slope, rest = parts
        if not slope.terms:
            continue
        if nonnegative(slope, known, 0):
            p = rest
        elif nonnegative(-slope, known, 0):
            p = rest + slope * (extents[name] - ONE)
        else:
            return False
    shift: dict[str, Poly] = {}
    for a in _in_order(p):
        if isinstance(a, Binary):
            return _opaque_smallest(p, a, known, depth)
        top = known.largest(a)
        if top is not None:
            return _element_smallest(p, a, top, known, depth)
        if not isinstance(a, Var) or a.name not in lowest:
            return False
        shift[a.name] = variable(a.name) + constant(lowest[a.name])
    return all(c >= 0 for _, c in p.substitute(shift))


def _element_smallest(p: Poly, a: Expr, top: Poly, known: Known, depth: int) -> bool:
    """p >= 0 with an element of an index array at its least, 0, or its largest value."""
    parts = p.coefficient(a)
    if parts is None:
        return False
    slope, rest = parts
    if nonnegative(slope, known, 0):
        return nonnegative(rest, known, depth)
    return nonnegative(-slope, known, 0) and nonnegative(rest + slope * top, known, depth)


def _in_order(p: Poly) -> list[Expr]:
    """The atoms in an order that is the same in every run."""
    return [a for m, _ in p.terms for a in m]


def variable_atom(name: str) -> Var:
    return Var(name, DType.INDEX)


def _opaque_smallest(p: Poly, a: Binary, known: Known, depth: int) -> bool:
    parts = p.coefficient(a)
    if parts is None:
        return False
    slope, rest = parts
    x, y = polynomial(a.lhs), polynomial(a.rhs)
    up = nonnegative(slope, known, 0)
    if not up and not nonnegative(-slope, known, 0):
        return False

    def at(value: Poly) -> bool:
        return nonnegative(rest + slope * value, known, depth)

    if a.op in (BinaryOp.MIN, BinaryOp.MAX):
        if up == (a.op is BinaryOp.MIN):
            return at(x) and at(y)
        # One of the two is no smaller (or no larger) than their mean: abs(d) is max(d, -d).
        mean = rest + rest + slope * (x + y)
        return at(x) or at(y) or nonnegative(mean, known, depth)
    # Side conditions get less effort, which also ends the recursion.
    less = max(depth - 1, 0)
    if not nonnegative(y - ONE, known, less):
        return False
    if a.op is BinaryOp.MOD:
        return at(constant(0)) if up else (at(y - ONE) or (nonnegative(x, known, less) and at(x)))
    quotient, remainder = slope.divide(y)
    # y * floor(x / y) >= x - (y - 1), also where x is negative, whichever way the quotient is rounded.
    if up and not remainder.terms and nonnegative(rest + quotient * (x - y + ONE), known, depth):
        return True
    if not nonnegative(x, known, less):
        return False
    if up:
        return at(constant(0))
    if not remainder.terms:
        # slope < 0 and y * floor(x / y) <= x.
        return nonnegative(rest + quotient * x, known, depth)
    return at(x)


def simplify(p: Poly, known: Known) -> Poly:
    """An equal polynomial without the divisions, remainders, minima and maxima that ranges decide."""
    for _ in range(16):
        for a in sorted(p.atoms(), key=str):
            if isinstance(a, Cast):
                better = _simpler_element(a, known)
            elif isinstance(a, Binary):
                better = _decide(a, known)
            else:
                continue
            if better is not None:
                p = p.replace(a, better)
                break
        else:
            return p
    return p


def _simpler_element(a: Cast, known: Known) -> Poly | None:
    """An integer read from memory with simpler subscripts; None where they are simple."""
    if not isinstance(a.arg, Load):
        return None
    indices = tuple(expression(simplify(polynomial(i), known)) for i in a.arg.indices)
    return None if indices == a.arg.indices else atom(replace(a, arg=replace(a.arg, indices=indices)))


def _decide(a: Binary, known: Known) -> Poly | None:
    x, y = simplify(polynomial(a.lhs), known), simplify(polynomial(a.rhs), known)
    if a.op in (BinaryOp.FLOORDIV, BinaryOp.MOD):
        if not y.terms:
            return None
        quotient, rest = x.divide(y)
        if nonnegative(rest, known) and positive(y - rest, known):
            return quotient if a.op is BinaryOp.FLOORDIV else rest
        if quotient.terms and positive(y, known):
            small = atom(Binary(a.op, expression(rest), expression(y), DType.INDEX))
            return quotient + small if a.op is BinaryOp.FLOORDIV else small
    elif a.op is BinaryOp.MIN:
        if nonnegative(y - x, known):
            return x
        if nonnegative(x - y, known):
            return y
    elif a.op is BinaryOp.MAX:
        if nonnegative(x - y, known):
            return x
        if nonnegative(y - x, known):
            return y
    return None


def facts_of(cond: Expr) -> tuple[Poly, ...]:
    """The inequalities p >= 0 that a true condition gives (an equation gives two)."""
    match cond:
        case Binary(op=BinaryOp.AND):
            return facts_of(cond.lhs) + facts_of(cond.rhs)
        case Binary() if (
            cond.op.is_comparison and cond.lhs.dtype is DType.INDEX and cond.rhs.dtype is DType.INDEX
        ):
            d = polynomial(cond.rhs) - polynomial(cond.lhs)
            table = {
                BinaryOp.LT: (d - ONE,),
                BinaryOp.LE: (d,),
                BinaryOp.GT: (-d - ONE,),
                BinaryOp.GE: (-d,),
                BinaryOp.EQ: (d, -d),
            }
            return table.get(cond.op, ())
        case _:
            return ()


def negate(cond: Expr) -> Expr:
    """The opposite condition; comparisons of integers are turned around, others get a `not`."""
    match cond:
        case Const():
            return Const(not cond.value, DType.BOOL)
        case Unary(op=UnaryOp.NOT):
            return cond.arg
        case Binary(op=BinaryOp.AND):
            return Binary(BinaryOp.OR, negate(cond.lhs), negate(cond.rhs), DType.BOOL)
        case Binary(op=BinaryOp.OR):
            return Binary(BinaryOp.AND, negate(cond.lhs), negate(cond.rhs), DType.BOOL)
        case Binary() if cond.op.is_comparison and not cond.lhs.dtype.is_float:
            if cond.lhs.dtype is DType.INDEX:
                return compare(cond.op.negated, cond.lhs, cond.rhs)
            return Binary(cond.op.negated, cond.lhs, cond.rhs, DType.BOOL)
        case _:
            return Unary(UnaryOp.NOT, cond, DType.BOOL)
