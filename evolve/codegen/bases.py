"""Names for where a block and a thread begin: `const int row = row_o * 32 + ty;`.

A sum of coordinates that several subscripts or conditions have is computed once, at the head of the kernel,
where a compiler would move it anyway; nothing else gets a name, so that nothing lives longer than before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from evolve.codegen.names import Names
from evolve.ir.affine import linear
from evolve.ir.expr import Binary, BinaryOp, Const, Expr, Var, add, mul, var
from evolve.ir.kernel import Kernel
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import For, If
from evolve.ir.types import DType, Space
from evolve.ir.visit import children, leaves, loads, local_buffers, walk

Form = frozenset[tuple[str, int]]
"""Identifiers of coordinates with their factors."""


@dataclass
class Bases:
    """`names`: the identifier of each form, the longest first; `loops` the loops that it is made of."""

    names: dict[Form, str] = field(default_factory=dict)
    sums: dict[Form, Expr] = field(default_factory=dict)

    def rewritten(self, e: Expr, name: Callable[[str], str]) -> Expr | None:
        """A sum with what has a name replaced by it; None where there is nothing to replace.

        The name is a variable `@NAME`.
        """
        terms = list(_terms(e))
        found = False
        for form, given in self.names.items():
            places = {name(v.name): (i, c) for i, (v, c) in enumerate(map(_factor, terms)) if v is not None}
            factors = {places[n][1] / c if n in places else 0.0 for n, c in form}
            times = factors.pop()
            if factors or times < 1 or not times.is_integer():
                continue
            at = sorted(places[n][0] for n, _ in form)
            base = var(f"@{given}")
            terms[at[0]] = base if times == 1 else mul(base, int(times))
            terms = [t for i, t in enumerate(terms) if i not in at[1:]]
            found = True
        if not found:
            return None
        out = terms[0]
        for t in terms[1:]:
            out = Binary(BinaryOp.ADD, out, t, DType.INDEX)
        return out


def find_bases(kernel: Kernel, names: Names) -> Bases:
    """The sums that stand in two places at least. `names` knows coordinates by their identifiers already."""
    counts: dict[Form, int] = {}
    spoken: dict[Form, tuple[str, ...]] = {}
    sums: dict[Form, Expr] = {}
    for e, loops in _subscripts(kernel):
        ranges = ranges_at(kernel, loops)
        kinds = {x.var: x.kind for x in loops if isinstance(x, For) and (x.kind.is_grid or x.kind.is_thread)}
        parts = {a.name: c for a, c in linear(e, ranges).terms if isinstance(a, Var) and a.name in kinds}
        if len(parts) < 2 or not any(kinds[v].is_grid for v in parts):
            continue
        form = frozenset((names.of(v), c) for v, c in parts.items())
        counts[form] = counts.get(form, 0) + 1
        grid_first = sorted(parts, key=lambda v: (kinds[v].is_thread, list(parts).index(v)))
        roots = tuple(dict.fromkeys(v.partition(".")[0] for v in grid_first))
        if form not in spoken or len(roots) < len(spoken[form]):
            spoken[form] = roots
        total: Expr | None = None
        for v in grid_first:
            term = var(v) if parts[v] == 1 else mul(var(v), parts[v])
            total = term if total is None else add(total, term)
        assert total is not None
        sums.setdefault(form, total)
    kept = sorted((f for f, n in counts.items() if n > 1), key=lambda f: -len(f))
    buffers = local_buffers(kernel.body)
    out = Bases()
    for form in kept:
        identifier = names.fresh(_word(spoken[form], buffers))
        names.alias(f"@{identifier}", identifier)
        out.names[form] = identifier
        out.sums[form] = sums[form]
    return out


def _word(roots: tuple[str, ...], buffers: Mapping[str, object]) -> str:
    """`row` for a row, `A_tile_row` for the row of an element of A_tile that the thread copies."""
    first, *others = roots
    if not others:
        return first
    return f"{others[0]}_{first}" if others[0] in buffers else f"{first}_{others[0]}"


def _subscripts(kernel: Kernel) -> Iterator[tuple[Expr, tuple[For | If, ...]]]:
    """Subscripts of memory and sides of comparisons, with what is around them."""
    spaces = {b.name: b.space for b in (*kernel.buffers, *local_buffers(kernel.body).values())}
    for leaf, site in leaves(kernel.body):
        touched = [(leaf.buffer, leaf.indices)]
        touched += [(x.buffer, x.indices) for e in (leaf.value, *leaf.indices) for x in loads(e)]
        for buffer, indices in dict.fromkeys(touched):
            if spaces[buffer] is not Space.REGISTER:
                yield from ((i, site.path) for i in indices)
    for s in walk(kernel.body):
        if isinstance(s.stmt, If):
            yield from ((e, s.path) for e in _sides(s.stmt.cond))


def _sides(cond: Expr) -> Iterator[Expr]:
    if cond.dtype is DType.INDEX:
        yield cond
    else:
        for x in children(cond):
            yield from _sides(x)


def _terms(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Binary) and e.op is BinaryOp.ADD:
        yield from _terms(e.lhs)
        yield from _terms(e.rhs)
    else:
        yield e


def _factor(e: Expr) -> tuple[Var | None, int]:
    match e:
        case Var():
            return e, 1
        case Binary(op=BinaryOp.MUL, lhs=Var() as v, rhs=Const(value=c)):
            return v, int(c)
    return None, 0
