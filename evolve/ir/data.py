"""Integers that are read from memory where an index is needed: terms of index expressions.

A term is `Cast(Load(array, …), INDEX)`, as the subscript in `x[idx[i]]` and the two ends of a row of a sparse
matrix. Arrays that terms read are never written by the kernel, so a term has one value wherever it stands.
"""

from __future__ import annotations

from functools import lru_cache

from evolve.ir.expr import Cast, Expr, Load
from evolve.ir.stmt import For, If
from evolve.ir.types import DType
from evolve.ir.visit import MOST_REMEMBERED, subexpressions


def is_term(e: Expr) -> bool:
    """Whether an expression is an integer read from memory as an index."""
    return isinstance(e, Cast) and e.dtype is DType.INDEX and isinstance(e.arg, Load)


def term(load: Load) -> Cast:
    """The element as an index."""
    return Cast(load, DType.INDEX)


@lru_cache(maxsize=MOST_REMEMBERED)
def terms(e: Expr) -> tuple[Cast, ...]:
    """The terms of an expression, left to right; terms in the subscripts of others come first."""
    return tuple(x for x in subexpressions(e) if isinstance(x, Cast) and is_term(x))


def index_arrays(e: Expr) -> frozenset[str]:
    """The arrays that terms of an expression read."""
    return frozenset(t.arg.buffer for t in terms(e) if isinstance(t.arg, Load))


def step_terms(step: For | If) -> tuple[Cast, ...]:
    """The terms that decide how often a loop or a condition lets its body run."""
    return terms(step.extent if isinstance(step, For) else step.cond)


def reads(e: Expr) -> bool:
    """Whether any term is in an expression."""
    return bool(terms(e))
