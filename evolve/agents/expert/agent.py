"""Orders the sketches of all families, then varies what did best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from evolve.agents.base import Context, Proposal
from evolve.agents.expert import (
    chains,
    columns,
    counts,
    fallback,
    kept,
    maps,
    online,
    products,
    rows,
    scans,
    sparse,
    stencils,
    tiles,
    totals,
    windows,
)
from evolve.agents.expert.fixed import factors, fixed
from evolve.agents.expert.premises import assumed, begun, loosened
from evolve.agents.expert.shape import Shape, describe, few
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.variations import variations
from evolve.ir.kernel import Kernel

PER_ASK = 4
ANSWERS = 1
"""Of these, from the third ask on: edits of the best program that its gap calls for."""
FIRST = 2
"""Asks that go to sketches alone."""


class Expert:
    """Offers every sketch once, favourites first, a few at a time, beside edits of the best program that
    answer its gap report; when the sketches are used up, edits of the best and of the parents only."""

    def propose(self, context: Context) -> Sequence[Proposal]:
        """The next few programs: a function of the context alone."""
        kernel, head = assumed(context.kernel, context.workload.get("timed", ()))
        head += loosened(kernel, context.numerics)
        sizes = dict(context.workload["sizes"])
        ordered = chains.sketches(kernel, sizes) if context.numerics == "exact" else ()
        offers = begun([*ordered, *sketches(kernel, sizes, context.target.sms)], head)
        alone = FIRST * PER_ASK
        if context.ask < FIRST:
            start, count = context.ask * PER_ASK, PER_ASK
        else:
            count = PER_ASK - ANSWERS
            start = alone + (context.ask - FIRST) * count
        made = [Proposal(s.text, operator="sketch", note=s.why) for s in offers[start : start + count]]
        if context.ask >= FIRST or not made:
            made += _answers(context, PER_ASK - len(made), used_up=start - len(offers))
        return made


def sketches(kernel: Kernel, sizes: Mapping[str, int], sms: int = Shape.sms) -> list[Sketch]:
    """All sketches for a lifted kernel at the sizes that are timed, favourites first, for a GPU of so many
    multiprocessors."""
    known = dict(sizes)
    shape = describe(kernel, known)
    counted = few(shape, known)
    if counted:
        shape = describe(kernel, known, counted)
    shape = replace(shape, sms=sms)
    families = (
        counts.sketches(kernel, shape),
        sparse.sketches(shape, known),
        windows.sketches(shape, known),
        totals.sketches(shape, known),
        products.sketches(shape, known),
        tiles.sketches(shape, known),
        scans.sketches(shape, known),
        columns.sketches(shape, known),
        rows.sketches(shape, known),
        online.sketches(shape, known),
        kept.sketches(kernel, shape, known),
        stencils.in_vectors(shape, known),
        stencils.rows_a_thread(shape, known),
        maps.sketches(shape, known),
        maps.vector_rows(shape, known),
    )
    names = tuple(sorted({*factors(shape), *counted}))
    found = {s.text: s for family in families for s in (fixed(x, names, known) for x in family)}
    for s in (fixed(x, names, known) for x in fallback.sketches(shape, known)):
        found.setdefault(s.text, s)
    return list(found.values())


def _answers(context: Context, count: int, used_up: int) -> list[Proposal]:
    """Edits of the best program and, after those, of the parents that have not been tried lately."""
    # A new best is edited from its first edit on; one whose edits were tried long ago, from a later one.
    if used_up <= 0 or any(a.proposal == context.best.proposal for a in context.recent):
        return list(islice(_fresh(context), count))
    fresh = list(_fresh(context))
    start = used_up % len(fresh) if fresh else 0
    return (fresh[start:] + fresh[:start])[:count]


def _fresh(context: Context) -> Iterator[Proposal]:
    """One after the other: the moves that edits are made of take a tenth of a second a program to list."""
    tried = {_plain(a.program) for a in context.recent}
    for parent in {p.proposal: p for p in (context.best, *context.parents)}.values():
        if parent.program.strip():
            for s in variations(parent, context.legal_moves(parent.program)):
                if _plain(s.text) not in tried:
                    yield Proposal(s.text, (parent.proposal,), "answer", s.why)


def _plain(text: str) -> str:
    return "".join(text.split())
