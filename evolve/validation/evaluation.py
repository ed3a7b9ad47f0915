"""Index expressions and conditions in plain integers, as C computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evolve.validation.formula import Compare, Every, Formula, Opaque, Some
from evolve.validation.polynomial import Atom, Poly, atom, constant

_COMPUTED: dict[str, Callable[[int, int], int]] = {
    "floor": lambda a, b: a // b,
    "trunc": lambda a, b: abs(a) // b * (1 if a >= 0 else -1),
    "min": min,
    "max": max,
    "xor": lambda a, b: a ^ b,
}


class NoNumberError(Exception):
    """A quotient that is none."""


def settled(p: Poly, values: Mapping[str, int]) -> Poly:
    """With numbers for atoms, and for what is computed of numbers."""
    out = constant(0)
    for m, c in p.terms.items():
        term = constant(c)
        for a in m:
            term = term * _number(a, values)
        out = out + term
    return out


def _number(a: Atom, values: Mapping[str, int]) -> Poly:
    if a.name in values:
        return constant(values[a.name])
    if not a.of:
        return atom(a)
    of = tuple(settled(p, values) for p in a.of)
    numbers = [p.value for p in of]
    if a.kind in _COMPUTED and None not in numbers:
        first, second = (x or 0 for x in numbers)
        if (a.kind == "floor" and second < 1) or (a.kind == "trunc" and not second):
            raise NoNumberError
        return constant(_COMPUTED[a.kind](first, second))
    found = Atom(a.kind, a.label, of)
    return constant(values[found.name]) if found.name in values else atom(found)


def with_numbers(f: Formula, values: Mapping[str, int]) -> Formula:
    match f:
        case Compare():
            return Compare(settled(f.poly, values), f.op)
        case Every() | Some():
            return type(f)(tuple(with_numbers(x, values) for x in f.of))
        case Opaque():
            return f


def is_true(f: Formula) -> bool:
    """Whether it holds, all of it being numbers."""
    match f:
        case Compare():
            v = f.poly.value
            return v is not None and {">=": v >= 0, "==": v == 0, "!=": v != 0}[f.op]
        case Every():
            return all(map(is_true, f.of))
        case Some():
            return any(map(is_true, f.of))
        case Opaque():
            return False
