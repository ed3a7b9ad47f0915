"""What must hold for a variant to run, each condition with the reason for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evolve.ir.expr import Binary, BinaryOp, Const, Expr, compare, var
from evolve.ir.kernel import Variant
from evolve.ir.scope import conjuncts

PROGRAM = "what the program is specialized for"
SOURCE = "no index of the original wraps around"
FITS = "index arithmetic fits 32 bits"
SIZES = "proved of sizes from 1 on"


@dataclass(frozen=True)
class Condition:
    """A BOOL expression over the scalars; `why` fits after it as a comment."""

    expr: Expr
    why: str


def conditions(variant: Variant, emitted: Iterable[Condition]) -> tuple[Condition, ...]:
    """The program's conditions, then what the text asks, then that sizes are at least 1."""
    own = {t for k in variant.kernels for t in conjuncts(k.assumptions)}
    asked = [
        *(Condition(t, PROGRAM if t in own else SOURCE) for t in conjuncts((variant.guard,))),
        *(Condition(t, PROGRAM) for k in variant.kernels for t in conjuncts(k.assumptions)),
        *emitted,
    ]
    used = frozenset(s.name for k in variant.kernels for s in k.scalars if s.is_size and not s.implied)
    positive = [n for n in sorted(used) if not any(_implies_positive(n, c.expr) for c in asked)]
    asked += [Condition(compare(BinaryOp.GE, var(n), 1), SIZES) for n in positive]
    first: dict[Expr, Condition] = {}
    for c in asked:
        first.setdefault(c.expr, c)
    return _tightest(tuple(first.values()))


def _tightest(terms: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Without upper bounds that another upper bound of the same expression implies."""
    most: dict[Expr, int] = {}
    for t in terms:
        match t.expr:
            case Binary(BinaryOp.LE, lhs, Const(value)):
                most[lhs] = min(int(value), most.get(lhs, int(value)))

    def is_loose(e: Expr) -> bool:
        match e:
            case Binary(BinaryOp.LE, lhs, Const(value)):
                return bool(value != most[lhs])
        return False

    return tuple(t for t in terms if not is_loose(t.expr))


def _implies_positive(name: str, e: Expr) -> bool:
    match e:
        case Binary(BinaryOp.EQ, lhs, Const(value)):
            return lhs == var(name) and value >= 1
    return False
