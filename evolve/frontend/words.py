"""Accesses, conditions and sizes in isl's own notation, for questions about all sizes.

Terms of the sizes alone that are not affine, as products of two, are taken for sizes of their own: what holds
for all of these holds for theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from evolve.frontend.asking import SIGNS, Asking
from evolve.frontend.polynomial import Monomial, Poly, constant, polynomial
from evolve.frontend.prove import Known, positive
from evolve.ir.data import is_term, term
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Load, Unary, UnaryOp, Var
from evolve.ir.printer import print_expr
from evolve.ir.types import DType
from evolve.ir.visit import loads, variables

_TURNED = (BinaryOp.LT, BinaryOp.LE, BinaryOp.NE)
"""Comparisons of integers that are asked as their opposites."""


DATA = "data "
"""What the names of parameters begin with that stand for integers which are no sizes."""


class UnknownError(Exception):
    """An address or a condition that isl has no words for."""


@dataclass
class Words:
    """isl's text of one access: a dimension for each loop and each integer that is read from memory."""

    known: Known
    params: dict[str, Poly]
    written: frozenset[str] = frozenset()
    dims: dict[str, str] = field(default_factory=dict)
    bounds: list[str] = field(default_factory=list)
    _met: dict[str, list[tuple[Poly, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._asking = Asking(self.affine, self._scalar, self._dim, self.bounds, self._ordered)

    def _scalar(self, name: str) -> str:
        """An integer parameter that is no size."""
        return self._param(f"{DATA}{name}", constant(-1))

    def domain(self) -> str:
        """When the access happens, for some contents. Raises UnknownError."""
        parts = []
        for name, extent in self.known.loops:
            parts.append(f"0 <= {self._dim(name)} < {self.affine(extent)}")
        parts += [self.condition(c) for c in self.known.conditions]
        return " and ".join([*parts, *self.bounds]) or "0 = 0"

    def affine(self, p: Poly) -> str:
        """Raises UnknownError."""
        terms = [f"{c}*{self._monomial(m)}" if m else str(c) for m, c in p.terms]
        return f"({' + '.join(terms) or '0'})"

    def condition(self, e: Expr, holds: bool = True) -> str:
        """Where a condition holds, or does not. One that reads the contents of an array may do either, unless
        the kernel computes these itself. Raises UnknownError.
        """
        match e:
            case Const():
                return "0 = 0" if bool(e.value) is holds else "1 = 0"
            case Unary(op=UnaryOp.NOT):
                return self.condition(e.arg, not holds)
            case Binary(op=BinaryOp.AND | BinaryOp.OR):
                word = "and" if (e.op is BinaryOp.AND) is holds else "or"
                return f"({self.condition(e.lhs, holds)} {word} {self.condition(e.rhs, holds)})"
            case Binary() if e.op.is_comparison and e.lhs.dtype is e.rhs.dtype is DType.INDEX:
                return self._comparison(e, holds)
            case _:
                return self._choice(e, holds)

    def _comparison(self, e: Binary, holds: bool) -> str:
        op = e.op if holds else e.op.negated
        try:
            return f"{self.affine(polynomial(e.lhs))} {SIGNS[op]} {self.affine(polynomial(e.rhs))}"
        except UnknownError:
            if loads(e):
                raise
            return self._choice(e, holds)

    def _choice(self, e: Expr, holds: bool) -> str:
        read = {x.buffer for x in loads(e)}
        if read & self.written:
            raise UnknownError(print_expr(e))
        if read:
            found = self._asking.text(e, holds)
            if found is None:
                raise UnknownError(print_expr(e))
            return found
        self._needs_sizes_alone(variables(e), print_expr(e))
        if isinstance(e, Binary) and e.op in _TURNED and not e.lhs.dtype.is_float:
            e, holds = replace(e, op=e.op.negated), not holds
        chosen = self._param(f"? {print_expr(e)}", constant(-1))
        return f"{chosen} >= 1" if holds else f"{chosen} <= 0"

    def _monomial(self, m: Monomial) -> str:
        if len(m) == 1:
            return self._atom(m[0])
        return self._opaque(Poly(((m, 1),)))

    def _atom(self, a: Expr) -> str:
        if isinstance(a, Var):
            return self.dims.get(a.name) or self._opaque(polynomial(a))
        if is_term(a):
            return self._element(a)
        if isinstance(a, Binary):
            x, y = polynomial(a.lhs), polynomial(a.rhs)
            if a.op in (BinaryOp.FLOORDIV, BinaryOp.MOD):
                k = y.constant
                if k is not None and k > 0:
                    quotient = a.op is BinaryOp.FLOORDIV
                    return f"floor({self.affine(x)}/{k})" if quotient else f"({self.affine(x)} mod {k})"
            elif a.op in (BinaryOp.MIN, BinaryOp.MAX):
                word = "min" if a.op is BinaryOp.MIN else "max"
                return f"{word}({self.affine(x)}, {self.affine(y)})"
        return self._opaque(polynomial(a))

    def _element(self, a: Expr) -> str:
        key = f"[] {print_expr(a)}"
        if any(x.buffer in self.written for x in loads(a)):
            raise UnknownError(key)
        if key not in self.dims:
            name = self._dim(key)
            top = self.known.largest(a)
            self.bounds.append(f"0 <= {name}" if top is None else f"0 <= {name} <= {self.affine(top)}")
            self._order(a, name)
        return self.dims[key]

    def _ordered(self, load: Load) -> str | None:
        """An element of an ordered array, which conditions ask for the index that it is."""
        element = polynomial(term(load))
        (atom,) = element.atoms()
        return None if self.known.in_order(atom) is None else self.affine(element)

    def _order(self, a: Expr, name: str) -> None:
        """What the premise about an ordered array says of its element `a`, beside those met before."""
        found, top = self.known.in_order(a), self.known.largest(a)
        if found is None or top is None:
            return
        array, which = found
        here, last = self.affine(which), dict(self.known.ordered)[array]
        if not positive(which, self.known):
            self.bounds.append(f"({here} != 0 or {name} = 0)")
        if last is not None and not positive(last - which, self.known):
            self.bounds.append(f"({here} != {self.affine(last)} or {name} = {self.affine(top)})")
        for other, there in self._met.setdefault(array, []):
            apart = (which - other).constant
            if apart is not None:
                self.bounds.append(f"{there} {'<=' if apart > 0 else '>='} {name}")
                continue
            at = self.affine(other)
            self.bounds.append(f"({at} > {here} or {there} <= {name})")
            self.bounds.append(f"({at} < {here} or {there} >= {name})")
        self._met[array].append((which, name))

    def _opaque(self, p: Poly) -> str:
        """A term of the sizes alone, by a name of its own."""
        key = " ".join(print_expr(a) for m, _ in p.terms for a in m)
        self._needs_sizes_alone(p.names(), key)
        if p.reads:
            raise UnknownError(key)
        return self._param(key, p)

    def _needs_sizes_alone(self, names: frozenset[str] | set[str], what: str) -> None:
        if any(n in self.dims for n in names):
            raise UnknownError(what)

    def _dim(self, key: str) -> str:
        return self.dims.setdefault(key, f"d{len(self.dims)}")

    def _param(self, key: str, value: Poly) -> str:
        self.params.setdefault(key, value)
        return f"p{list(self.params).index(key)}"
