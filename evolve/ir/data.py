"""Integers that are read from memory where an index is needed: terms of index expressions.

A term is `Cast(Load(array, …), INDEX)`, as the subscript in `x[idx[i]]` and the two ends of a row of a sparse
matrix, or `Find(array, …)`, as the row that an entry is in. Arrays that terms read are never written by the
kernel, so a term has one value wherever it stands.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from evolve.ir.affine import simplify
from evolve.ir.expr import Cast, Expr, Find, Load, add, index, sub
from evolve.ir.kernel import Contents, Kernel
from evolve.ir.printer import print_expr
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Block, For, If
from evolve.ir.types import DType
from evolve.ir.visit import MOST_REMEMBERED, loads, map_block_exprs, map_expr, subexpressions, substitute

Term: TypeAlias = Cast | Find


def is_term(e: Expr) -> bool:
    """Whether an expression is an integer read from memory as an index."""
    return isinstance(e, Find) or (isinstance(e, Cast) and e.dtype is DType.INDEX and isinstance(e.arg, Load))


def term(load: Load) -> Cast:
    """The element as an index."""
    return Cast(load, DType.INDEX)


@lru_cache(maxsize=MOST_REMEMBERED)
def terms(e: Expr) -> tuple[Term, ...]:
    """The terms of an expression, left to right; terms in the subscripts of others come first."""
    return tuple(x for x in subexpressions(e) if isinstance(x, Cast | Find) and is_term(x))


def index_arrays(e: Expr) -> frozenset[str]:
    """The arrays that terms of an expression read."""
    return frozenset(array_of(t) for t in terms(e))


def array_of(t: Term) -> str:
    """The array that a term reads."""
    if isinstance(t, Find):
        return t.buffer
    assert isinstance(t.arg, Load)
    return t.arg.buffer


def step_terms(step: For | If) -> tuple[Term, ...]:
    """The terms that decide how often a loop or a condition lets its body run."""
    return terms(step.extent if isinstance(step, For) else step.cond)


def reads(e: Expr) -> bool:
    """Whether any term is in an expression."""
    return bool(terms(e))


def reads_only_indices(e: Expr) -> bool:
    """Whether all that an expression loads, if anything, are elements of index arrays: they do not change."""
    fixed = {x for t in terms(e) for x in loads(t)}
    return all(x in fixed for x in loads(e))


def segment(kernel: Kernel, f: Find) -> tuple[Cast, Cast]:
    """The terms between which `f` has found its value: `array[f]` and `array[f + 1]`."""
    dtype = kernel.buffer(f.buffer).dtype
    return term(Load(f.buffer, (f,), dtype)), term(Load(f.buffer, (add(f, 1),), dtype))


def is_ordered(kernel: Kernel, array: str) -> bool:
    """Whether the premises say that the array, of one dimension, is nondecreasing from end to end."""
    return any(c.nondecreasing and c.buffer == array for c in kernel.contents) and (
        len(kernel.buffer(array).extents) == 1
    )


def with_known_ends(kernel: Kernel) -> Kernel:
    """The kernel with the first and the last element of each nondecreasing array as its premise gives them.

    For proofs only: the last row pointer of a sparse matrix is its number of entries, which no code can ask
    for.
    """
    ends = _Ends(kernel)
    if not ends.known:
        return kernel
    return replace(kernel, body=map_block_exprs(kernel.body, lambda e: map_expr(e, ends.put_in)))


def rests_on_ends(*kernels: Kernel) -> tuple[str, ...]:
    """The first and the last element of each nondecreasing array, as its premise gives them, where one of the
    kernels reads one of them as an index or searches the array: a clause each."""
    told: list[str] = []
    for kernel in kernels:
        ends = _Ends(kernel)
        read = _terms_of(kernel.body)
        used = {array_of(t) for t in read if isinstance(t, Find) or ends.put_in(t) is not t}
        for c in kernel.contents:
            if c.buffer in used and is_ordered(kernel, c.buffer):
                both = (f"{print_expr(e.arg)} == {print_expr(value)}" for e, value in _ends(kernel, c))
                told.append(f"the input has {' and '.join(both)}")
    return tuple(dict.fromkeys(told))


def _terms_of(body: Block) -> frozenset[Term]:
    """All terms of all expressions."""
    found: set[Term] = set()

    def note(e: Expr) -> Expr:
        found.update(terms(e))
        return e

    map_block_exprs(body, note)
    return frozenset(found)


class _Ends:
    """What the premises of a kernel make of the first and the last elements of nondecreasing arrays."""

    def __init__(self, kernel: Kernel) -> None:
        ordered = [c for c in kernel.contents if is_ordered(kernel, c.buffer)]
        ranges = ranges_at(kernel)
        self._fixed: dict[str, Expr] = {}
        for s in kernel.scalars if ordered else ():
            low, high = ranges.of(s.name)
            if low is not None and low == high:
                self._fixed[s.name] = index(low)
        self.known = {self._form(e): value for c in ordered for e, value in _ends(kernel, c)}

    def put_in(self, e: Expr) -> Expr:
        """The value of such an element; other expressions as they are."""
        return self.known.get(self._form(e), e) if isinstance(e, Cast) and is_term(e) else e

    def _form(self, e: Expr) -> Expr:
        return simplify(substitute(e, self._fixed))


def _ends(kernel: Kernel, c: Contents) -> tuple[tuple[Cast, Expr], ...]:
    b = kernel.buffer(c.buffer)
    first = term(Load(b.name, (index(0),), b.dtype))
    last = term(Load(b.name, (simplify(sub(b.extents[0], 1)),), b.dtype))
    return (first, c.low), (last, simplify(sub(c.high, 1)))
