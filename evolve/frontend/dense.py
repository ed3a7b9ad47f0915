"""Addresses that isl has no words for, as `r * cols + c` or `(i + 1) % n`: how far they reach, and others
that touch the same elements."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from evolve.frontend.polynomial import ONE, Poly, polynomial, variable
from evolve.frontend.prove import Known, facts_of, nonnegative, positive, variable_atom
from evolve.frontend.tidy import substitute
from evolve.ir.expr import Binary, BinaryOp, Expr
from evolve.ir.scope import conjuncts
from evolve.ir.visit import variables


def merged(flat: Poly, known: Known) -> tuple[Poly, Known]:
    """The same addresses with loops that count as one made one: `r * cols + c` with c below cols is a number
    below rows * cols, where nothing else depends on r or c."""
    for outer, inner in permutations(known.loops, 2):
        made = _one(flat, known, outer, inner)
        if made is not None:
            return merged(*made)
    return flat, known


def _one(
    flat: Poly, known: Known, outer: tuple[str, Poly], inner: tuple[str, Poly]
) -> tuple[Poly, Known] | None:
    (v, count), (w, width) = outer, inner
    if w not in flat.names() or any({v, w} & e.names() for _, e in known.loops):
        return None
    both = f"{v} {w}"
    by = {w: variable(both) - variable(v) * width}
    whole = flat.substitute(by)
    conditions = tuple(substitute(c, by) for c in known.conditions)
    if any(v in names for names in (whole.names(), *map(variables, conditions))):
        return None
    left = tuple((n, e) for n, e in known.loops if n not in (v, w))
    return whole, replace(known, loops=((both, count * width), *left), facts=(), conditions=conditions)


def unwrapped(subs: tuple[Poly, ...], known: Known) -> tuple[Poly, ...]:
    """Subscripts that touch the same elements, with a loop over n values in place of a remainder by n of it.

    `(v + e) % n` is each of 0 to n - 1 once, whatever e is, where nothing else depends on v.
    """
    for v, count in known.loops:
        others = [e.names() for n, e in known.loops if n != v] + [variables(c) for c in known.conditions]
        if any(v in names for names in others):
            continue
        for a in {a for p in subs for a in p.atoms() if v in variables(a)}:
            left = [p.replace(a, Poly(())) for p in subs]
            if _is_turned(a, v, count) and not any(v in p.names() for p in left):
                subs = tuple(p.replace(a, variable(v)) for p in subs)
                break
    return subs


def _is_turned(a: Expr, v: str, count: Poly) -> bool:
    """Whether an expression is a remainder by `count` of `v`, or of its negative, plus what is free of it."""
    if not isinstance(a, Binary) or a.op is not BinaryOp.MOD or polynomial(a.rhs) != count:
        return False
    parts = polynomial(a.lhs).coefficient(variable_atom(v))
    return parts is not None and parts[0] in (ONE, -ONE) and v not in parts[1].names()


def reaches(flat: Poly, known: Known, end: Poly, given: tuple[Poly, ...]) -> bool:
    """Whether an address is `end` or larger in one iteration: the last of each loop that makes it larger, and
    the first of others, with each integer that is read from memory at its largest: of an ordered array the
    first is 0, and all others may be.

    `given`: what is not negative at the sizes that matter.
    """
    plain = known.scalars.given(*given)
    conditions: list[Expr] = [c for e in known.conditions for c in conjuncts((e,))]
    facts = [facts_of(c) for c in conditions]
    if not all(facts):
        return False
    holds = [f for each in facts for f in each] + [e - ONE for _, e in known.loops]
    for name, extent in reversed(known.loops):
        parts = flat.coefficient(variable_atom(name))
        up = parts is not None and nonnegative(parts[0], plain)
        by = {name: extent - ONE if up else Poly(())}
        flat = flat.substitute(by)
        holds = [f.substitute(by) for f in holds]
    for a in sorted(flat.atoms(), key=str):
        top = known.largest(a)
        if top is not None:
            found = known.in_order(a)
            if found is not None and not positive(found[1], plain):
                if found[1].terms:
                    return False
                top = Poly(())
            flat = flat.replace(a, top)
            holds = [f.replace(a, top) for f in holds]
    return all(nonnegative(f, plain) for f in [*holds, flat - end])
