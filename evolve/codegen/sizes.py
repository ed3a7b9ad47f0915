"""How large index arithmetic can get: the launch guards that make 32-bit indices safe.

Every bound is a polynomial over the sizes with rational coefficients, computed by taking each loop
at its last iteration and each size as it is. It bounds every intermediate value too, because all
terms are counted with their absolute value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import floor, gcd, lcm

from evolve.codegen.errors import CodegenError
from evolve.ir.affine import Ranges
from evolve.ir.data import is_term, reads
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Unary, Var, add, compare, index, mul, var
from evolve.ir.printer import print_expr
from evolve.ir.types import DType
from evolve.ir.visit import children, variables

INT_MAX = 2**31 - 1

Monomial = tuple[str, ...]
Poly = dict[Monomial, Fraction]
"""Sorted variable names (with repetition) to coefficient; () is the constant."""


def constant(value: int | Fraction) -> Poly:
    return {(): Fraction(value)}


def _plus(a: Poly, b: Poly, scale: int = 1) -> Poly:
    out = dict(a)
    for m, c in b.items():
        out[m] = out.get(m, Fraction(0)) + scale * c
    return {m: c for m, c in out.items() if c}


def _times(a: Poly, b: Poly) -> Poly:
    out: Poly = {}
    for m, c in a.items():
        for n, d in b.items():
            key = tuple(sorted(m + n))
            out[key] = out.get(key, Fraction(0)) + c * d
    return {m: c for m, c in out.items() if c}


class Magnitudes:
    """Collects bounds of INDEX expressions and turns them into guards.

    `ranges` are those of the sizes alone; `ints` names the sizes whose C type is `int`: they fit as they are.
    `wide` names loops that count in 64 bits, `counted` those whose extent is read from memory and fits `int`.
    """

    def __init__(
        self,
        ranges: Ranges,
        ints: Iterable[str] = (),
        wide: frozenset[str] = frozenset(),
        counted: frozenset[str] = frozenset(),
    ) -> None:
        self._ranges = ranges
        self._polys: list[Poly] = []
        self._given: list[Poly] = [{(n,): Fraction(1)} for n in ints]
        self._wide = wide
        self._counted = counted

    def require(self, e: Expr, loops: Mapping[str, Expr]) -> None:
        """`e` is computed in 32 bits under loops of these extents, but for what is computed from indices that
        are read from memory or from loops that count in 64 bits: that has 64.

        Raises CodegenError for an expression that has no bound.
        """
        if not self.is_wide(e):
            self._polys.append(self._of(e, loops))
            return
        if not is_term(e):
            for part in children(e):
                if part.dtype is DType.INDEX:
                    self.require(part, loops)

    def is_wide(self, e: Expr) -> bool:
        """Whether an INDEX expression is computed in 64 bits."""
        return reads(e) or bool(variables(e) & self._wide)

    def at_most(self, e: Expr, limit: int) -> Expr | None:
        """The guard `e <= limit` for a size expression; None where it always holds."""
        return self._guard(self._of(e, {}), limit)

    def guards(self) -> tuple[Expr, ...]:
        """The undominated conditions under which all that was required fits `int`."""
        kept: list[Poly] = []
        for p in self._polys:
            if any(_dominates(q, p) for q in (*self._given, *kept)):
                continue
            kept = [q for q in kept if not _dominates(p, q)]
            kept.append(p)
        found = [self._guard(p, INT_MAX) for p in kept]
        return tuple(g for g in found if g is not None)

    def _guard(self, p: Poly, limit: int) -> Expr | None:
        fixed = p.get((), Fraction(0))
        if all(m == () for m in p):
            if fixed > limit:
                raise CodegenError(f"an index reaches {int(fixed)}, which does not fit {limit}")
            return None
        coefficients = [c for m, c in p.items() if m != ()]
        unit = lcm(*(c.denominator for c in coefficients))
        scale = Fraction(unit, gcd(*(int(c * unit) for c in coefficients)))
        lhs: Expr | None = None
        for m, c in sorted(p.items()):
            if m == ():
                continue
            term: Expr = var(m[0])
            for name in m[1:]:
                term = mul(term, var(name))
            k = int(c * scale)
            term = term if k == 1 else mul(term, k)
            lhs = term if lhs is None else add(lhs, term)
        assert lhs is not None
        return compare(BinaryOp.LE, lhs, index(floor((limit - fixed) * scale)))

    def _of(self, e: Expr, loops: Mapping[str, Expr]) -> Poly:
        match e:
            case Const():
                return constant(abs(int(e.value)))
            case Var() if e.name in self._counted:
                return constant(INT_MAX - 1)
            case Var() if e.name in loops:
                return _plus(self._of(loops[e.name], loops), constant(1), -1)
            case Var():
                low, high = self._ranges.of(e.name)
                if low is not None and low == high:
                    return constant(abs(low))
                if low is None or low < 0:
                    raise CodegenError(
                        f"{e.name} has no known lower bound, so its arithmetic has none either"
                    )
                return {(e.name,): Fraction(1)}
            case Binary(op=BinaryOp.ADD | BinaryOp.SUB):
                return _plus(self._of(e.lhs, loops), self._of(e.rhs, loops))
            case Binary(op=BinaryOp.MUL):
                return _times(self._of(e.lhs, loops), self._of(e.rhs, loops))
            case Binary(op=BinaryOp.FLOORDIV, rhs=Const(value=d)) if d > 0:
                inner = self._of(e.lhs, loops)
                self._polys.append(inner)
                return {m: c / int(d) for m, c in inner.items()}
            case Binary(op=BinaryOp.FLOORDIV | BinaryOp.MOD):
                self._polys.append(self._of(e.rhs, loops))
                return self._of(e.lhs, loops)
            case Binary(op=BinaryOp.MIN | BinaryOp.MAX | BinaryOp.BIT_XOR):
                # The exclusive or of two numbers that are not negative is at most their sum.
                return _plus(self._of(e.lhs, loops), self._of(e.rhs, loops))
            case Unary() if e.dtype is DType.INDEX:
                return self._of(e.arg, loops)
            case _:
                raise CodegenError(f"index arithmetic on {print_expr(e)} has no known bound")


def _dominates(a: Poly, b: Poly) -> bool:
    """Whether a >= b for all sizes >= 1: each shortfall is covered by a monomial that contains it."""
    rest = _plus(a, b, -1)
    spare = {m: c for m, c in rest.items() if c > 0}
    for m, c in rest.items():
        need = -c
        if need <= 0:
            continue
        for n in spare:
            if need > 0 and _contains(n, m):
                used = min(spare[n], need)
                spare[n] -= used
                need -= used
        if need > 0:
            return False
    return True


def _contains(big: Monomial, small: Iterable[str]) -> bool:
    pool = list(big)
    for x in small:
        if x not in pool:
            return False
        pool.remove(x)
    return True
