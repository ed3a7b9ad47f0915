"""Orders the sketches of all families, then varies what did best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evolve.agents.base import Context, Proposal
from evolve.agents.expert import maps, products, rows, tiles
from evolve.agents.expert.shape import describe

PER_ASK = 4


class Expert:
    """Offers every sketch once, favourites first, a few at a time; nothing when they are used up."""

    def propose(self, context: Context) -> Sequence[Proposal]:
        """The next few sketches. The search's own mutation and crossover refine what scores."""
        offers = list(self._all(context))
        start = context.ask * PER_ASK
        return offers[start : start + PER_ASK]

    def _all(self, context: Context) -> Iterator[Proposal]:
        sizes = dict(context.workload["sizes"])
        shape = describe(context.kernel, sizes)
        families = (
            products.sketches(shape),
            tiles.sketches(shape),
            rows.sketches(shape, sizes),
            maps.rows_a_thread(shape),
            maps.sketches(shape),
        )
        seen: set[str] = set()
        for family in families:
            for text, why in family:
                if text not in seen:
                    seen.add(text)
                    yield Proposal(text, operator="sketch", note=why)
