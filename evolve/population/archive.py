"""A quality-diversity archive on islands (MAP-Elites, Mouret and Clune 2015, arXiv 1504.04909).

Each island keeps the fittest program of every behaviour cell. Everything is frozen: inserting
returns a new archive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType

Cell = tuple[str, ...]


@dataclass(frozen=True)
class Elite:
    """A scored program. `fitness` is T_attainable / T; `proposal` 0 is the baseline."""

    proposal: int
    program: str
    fitness: float
    time_us: float
    cell: Cell


_EMPTY: Mapping[Cell, Elite] = MappingProxyType({})


@dataclass(frozen=True)
class Archive:
    """One map from cell to elite for each island."""

    islands: tuple[Mapping[Cell, Elite], ...] = field(default=(_EMPTY,))

    @staticmethod
    def empty(islands: int) -> Archive:
        """An archive with that many empty islands."""
        return Archive((_EMPTY,) * islands)

    def insert(self, island: int, elite: Elite) -> Archive:
        """The archive with `elite` on the island, if its cell is free or held by a less fit one.

        On equal fitness the earlier proposal stays.
        """
        held = self.islands[island].get(elite.cell)
        if held is not None and held.fitness >= elite.fitness:
            return self
        cells = {**self.islands[island], elite.cell: elite}
        islands = list(self.islands)
        islands[island] = MappingProxyType(cells)
        return Archive(tuple(islands))

    def without(self, proposal: int) -> Archive:
        """The archive without a proposal, whose cells are free then."""
        islands = (
            MappingProxyType({cell: e for cell, e in island.items() if e.proposal != proposal})
            for island in self.islands
        )
        return Archive(tuple(islands))

    def members(self, island: int) -> tuple[Elite, ...]:
        """The island's elites, fittest first, earlier proposals first among equals."""
        return tuple(sorted(self.islands[island].values(), key=lambda e: (-e.fitness, e.proposal)))

    def best(self) -> Elite | None:
        """The fittest elite anywhere."""
        ranked = [members[0] for i in range(len(self.islands)) if (members := self.members(i))]
        return min(ranked, key=lambda e: (-e.fitness, e.proposal), default=None)

    def migrate(self) -> Archive:
        """Each island's best also goes to the next island of the ring."""
        bests = [self.members(i)[:1] for i in range(len(self.islands))]
        archive = self
        for origin, best in enumerate(bests):
            for elite in best:
                archive = archive.insert((origin + 1) % len(self.islands), elite)
        return archive

    @property
    def occupied(self) -> int:
        """How many distinct cells are held anywhere."""
        return len({cell for island in self.islands for cell in island})


def select(archive: Archive, island: int, count: int, rng: Random) -> tuple[Elite, ...]:
    """Draws up to `count` different parents from an island, by rank: each half as likely as the one before.

    An empty island borrows from the whole archive.
    """
    pool = list(archive.members(island))
    if not pool:
        everywhere = {e.proposal: e for i in range(len(archive.islands)) for e in archive.members(i)}
        pool = sorted(everywhere.values(), key=lambda e: (-e.fitness, e.proposal))
    chosen: list[Elite] = []
    while pool and len(chosen) < count:
        rank = 0
        while rank < len(pool) - 1 and rng.random() < 0.5:
            rank += 1
        chosen.append(pool.pop(rank))
    return tuple(chosen)
