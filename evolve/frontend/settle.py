"""Settling what integer arithmetic owes: that C's fixed-width results are those of integers."""

from __future__ import annotations

from dataclasses import replace

from evolve.frontend.addresses import upper_bound
from evolve.frontend.polynomial import Poly, constant, expression, polynomial, variable
from evolve.frontend.prove import Known, nonnegative, simplify
from evolve.frontend.refuse import RefusalError
from evolve.frontend.tidy import substitute, tidy_expr
from evolve.frontend.values import AXES, INTEGERS
from evolve.frontend.variables import Obligation, Step
from evolve.ir.expr import BinaryOp, Const, Expr, Var, compare
from evolve.ir.kernel import Scalar
from evolve.ir.printer import print_expr
from evolve.ir.stmt import For


def settle(
    obligations: list[Obligation],
    known: Known,
    by: dict[str, Poly],
    scalars: list[Scalar],
    implied: tuple[Scalar, ...] = (),
) -> tuple[Expr, ...]:
    """Facts over the scalars under which no integer operation leaves its type's range.

    Raises RefusalError for an unsigned operation, a narrowing or a division that may go wrong. Signed
    overflow that cannot be bounded is undefined behaviour, which the source does not have. What may go wrong
    depending on an implied size is refused too: nothing that is launched could ask for that size.
    """
    highest = {s.name: s.dtype.limits[1] for s in (*scalars, *implied) if s.dtype in INTEGERS}
    unasked = frozenset(s.name for s in implied)
    limits: dict[Poly, int] = {}
    places: dict[tuple[Step, ...], Known] = {(): known}
    done: set[tuple[Poly, int | None, int | None, bool, Known]] = set()
    for o in obligations:
        here = _place(o.path, places, by)
        d = o.duty
        if _geometry(d.poly, by):
            if d.must:
                _settle_partial(o, known, by, highest, limits)
            continue
        for cond in d.given:
            here = _assuming(cond, here, by)
        p = simplify(d.poly.substitute(by), here)
        same = (p, d.low, d.high, d.must, here)
        if same not in done:
            done.add(same)
            made: dict[Poly, int] = {}
            _settle_one(o, p, here, highest, made)
            for body, high in made.items():
                hidden = sorted(body.names() & unasked)
                if hidden and d.must:
                    why = f"{_show(p)} may exceed {d.high}, depending on {hidden[0]}"
                    raise RefusalError(d.line, d.what, why)
                limits[body] = min(limits.get(body, high), high)
    # In an order that is the same in every run: which of several is left out depends on it.
    in_order = sorted(limits.items(), key=lambda limit: print_expr(expression(limit[0])))
    kept = _strongest(in_order, known.scalars)
    facts = [compare(BinaryOp.LE, expression(p), high) for p, high in kept]
    return tuple(sorted(facts, key=print_expr))


def _geometry(p: Poly, by: dict[str, Poly]) -> bool:
    """A step on the way to a grid-wide index: launches stay below 2^31 threads an axis, so it fits.

    Thread variables that are loops themselves are no such steps.
    """
    return any(n.startswith("$") and n not in by for n in p.names())


def _settle_partial(
    o: Obligation, known: Known, by: dict[str, Poly], highest: dict[str, int], limits: dict[Poly, int]
) -> None:
    """A part of a grid-wide index in arithmetic that would wrap around: of terms that are not negative, each
    no larger than the whole index is."""
    d = o.duty
    parts = d.poly
    whole: dict[str, Poly] = {}
    for axis in AXES:
        base, lane = f"$base.{axis}", f"$threadIdx.{axis}"
        parts = parts.substitute({f"$global.{axis}": variable(base) + variable(lane)})
        if f"$global.{axis}" in by:
            whole |= {base: variable(f"$global.{axis}"), lane: variable(f"$global.{axis}")}
    if any(c < 0 for _, c in parts.terms):
        raise RefusalError(d.line, d.what, f"{_show(d.poly)} may be negative")
    top = parts.substitute(whole)
    if d.high is not None and not _geometry(top, by):
        p = simplify(top.substitute(by), known)
        _settle_one(Obligation(replace(d, low=None, poly=p), o.path), p, known, highest, limits)


def _place(path: tuple[Step, ...], places: dict[tuple[Step, ...], Known], by: dict[str, Poly]) -> Known:
    """What is known below loops and conditions, in terms of the parallel loops."""
    if path in places:
        return places[path]
    here = _place(path[:-1], places, by)
    step = path[-1]
    if isinstance(step, For):
        here = here.inside(step.var, simplify(polynomial(step.extent).substitute(by), here))
    else:
        here = _assuming(step.cond, here, by)
    places[path] = here
    return here


def _assuming(cond: Expr, known: Known, by: dict[str, Poly]) -> Known:
    cond = tidy_expr(substitute(cond, by), known)
    return known if isinstance(cond, Const) else known.assuming(cond)


def _strongest(limits: list[tuple[Poly, int]], known: Known) -> list[tuple[Poly, int]]:
    """Without the limits that another one implies: p <= h follows from q <= k when q - p >= k - h."""
    kept: list[tuple[Poly, int]] = []
    for at, (p, high) in enumerate(limits):
        others = kept + limits[at + 1 :]
        if not any(nonnegative(q - p - constant(k - high), known) for q, k in others):
            kept.append((p, high))
    return kept


def _settle_one(
    o: Obligation, p: Poly, known: Known, highest: dict[str, int], limits: dict[Poly, int]
) -> None:
    d = o.duty
    if d.low is not None and d.must and not nonnegative(p - constant(d.low), known):
        what = "be negative" if d.low == 0 else f"be less than {d.low}"
        raise RefusalError(d.line, d.what, f"{_show(p)} may {what}")
    if d.high is None or nonnegative(constant(d.high) - p, known):
        return
    if d.proved:
        raise RefusalError(d.line, d.what, f"{_show(p)} may exceed {d.high}")
    top = upper_bound(p, known)
    if top is None:
        if d.must:
            raise RefusalError(d.line, d.what, f"{_show(p)} cannot be bounded")
        return
    worst = _numeric(top, highest)
    if worst is not None and worst <= d.high:
        return
    offset = sum(c for m, c in top.terms if not m)
    body = top - constant(offset)
    if body.constant is not None:
        if d.must:
            raise RefusalError(d.line, d.what, f"{_show(p)} may exceed {d.high}")
        return
    limits[body] = min(limits.get(body, d.high - offset), d.high - offset)


def _numeric(p: Poly, highest: dict[str, int]) -> int | None:
    total = 0
    for m, c in p.terms:
        term = c
        for a in m:
            if not isinstance(a, Var) or a.name not in highest:
                return None
            term *= highest[a.name] if c > 0 else 1
        total += term
    return total


def _show(p: Poly) -> str:
    return print_expr(expression(p)).replace("$global.", "thread index ").replace("$", "")
