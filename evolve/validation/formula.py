"""Conditions over index expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from evolve.validation.polynomial import Atom, Poly


@dataclass(frozen=True)
class Compare:
    """`poly op 0`."""

    poly: Poly
    op: Literal[">=", "==", "!="]


@dataclass(frozen=True)
class Every:
    """All of them; of none: true."""

    of: tuple[Formula, ...] = ()


@dataclass(frozen=True)
class Some:
    """One of them; of none: false."""

    of: tuple[Formula, ...] = ()


@dataclass(frozen=True)
class Opaque:
    """What depends on data. It may hold or not, and so may its negation."""


Formula: TypeAlias = Compare | Every | Some | Opaque
TRUE, FALSE = Every(), Some()


def at_least(p: Poly, q: Poly) -> Compare:
    return Compare(p - q, ">=")


def below(p: Poly, q: Poly) -> Compare:
    return Compare((q - p).plus(-1), ">=")


def equal(p: Poly, q: Poly) -> Compare:
    return Compare(p - q, "==")


def negation(f: Formula) -> Formula:
    match f:
        case Compare(op=">="):
            return Compare(f.poly.scale(-1).plus(-1), ">=")
        case Compare(op="=="):
            return Compare(f.poly, "!=")
        case Compare():
            return Compare(f.poly, "==")
        case Every():
            return Some(tuple(map(negation, f.of)))
        case Some():
            return Every(tuple(map(negation, f.of)))
        case Opaque():
            return f


def atoms(f: Formula) -> set[Atom]:
    match f:
        case Compare():
            return f.poly.atoms()
        case Every() | Some():
            return set().union(*map(atoms, f.of))
        case Opaque():
            return set()


def is_opaque(f: Formula) -> bool:
    return isinstance(f, Opaque) or (isinstance(f, Every | Some) and any(map(is_opaque, f.of)))


def conjuncts(f: Formula) -> tuple[Formula, ...]:
    return tuple(x for part in f.of for x in conjuncts(part)) if isinstance(f, Every) else (f,)
