"""Running totals along each row: a block or a warp a row, scanned in chunks of some columns a thread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.shape import Shape, Walk
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import call, choice, each, program
from evolve.ir.effects import Mode
from evolve.target.limits import WARP

WIDTHS = (4, 2, 1)
THREADS = (1024, 512, 256, 128, 64)
MOST_HELD = 32
"""Elements of an array that a thread holds."""


def sketches(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs for parallel loops over rows with one sweep inside that stores what it has added up so far."""
    if not shape.parallel or len(shape.inner) != 1 or not shape.inner[0].runs or shape.is_small:
        return
    row, sweep = shape.parallel[-1], shape.inner[0].name
    if shape.varies(sweep) or shape.inner[0].guarded or "mixed" in shape.inner[0].parts:
        return
    reads, stores = (
        _straight(shape, sweep, [w for w in shape.walks if (w.mode is Mode.READ) == is_read])
        for is_read in (True, False)
    )
    reads = [b for b in reads if b not in shape.written]
    for width in WIDTHS:
        if shape.trips[sweep] % width:
            continue
        steps = shape.trips[sweep] // width
        made = _Scan(shape, sizes, row, sweep, reads, stores, width)
        held = max(1, len(reads)) * shape.trips[sweep]
        threads = [t for t in THREADS if steps % t == 0 and held <= MOST_HELD * t]
        text = made.block_a_row(threads) if threads else None
        if text is not None:
            yield Sketch(
                text, f"a block a row, {width} columns a thread and scan", ("idle_sms", "uncoalesced")
            )
        text = made.warp_a_row(MOST_HELD // max(1, len(reads)) * WARP)
        if text is not None:
            yield Sketch(text, f"a warp a row, {width} columns a lane and scan", ("barriers", "uncoalesced"))


def _straight(shape: Shape, sweep: str, walks: list[Walk]) -> list[str]:
    """Arrays that are walked forward along the sweep and nowhere else in it."""
    names = dict.fromkeys(w.buffer for w in walks if sweep in w.uses)
    return [b for b in names if all(w.stride(sweep) == 1 for w in walks if w.buffer == b)]


@dataclass(frozen=True)
class _Scan:
    """One way to go along the rows."""

    shape: Shape
    sizes: dict[str, int]
    row: str
    sweep: str
    reads: list[str]
    stores: list[str]
    width: int

    def block_a_row(self, threads: list[int]) -> str | None:
        others = [(x, self.shape.trips[x]) for x in self.shape.parallel[:-1]]
        binds = on_grid(others, (self.row, self.shape.trips[self.row]))
        return (
            None
            if binds is None
            else self._program(self._facts(), binds, self.row, self.sweep, choice(threads))
        )

    def _facts(self) -> Facts:
        facts = Facts(self.shape, self.sizes)
        facts.constant(self.sweep)
        return facts

    def warp_a_row(self, chunk: int) -> str | None:
        """`chunk` columns are held at a time."""
        others = [(x, self.shape.trips[x]) for x in self.shape.parallel[:-1]]
        binds = on_grid(others, (f"{self.row}.o", self.shape.trips[self.row]))
        if binds is None or self.shape.trips[self.sweep] % chunk or chunk % (WARP * self.width):
            return None
        facts = self._facts()
        if not facts.multiple(self.row, 8):
            return None
        split = [f"split({self.row}, {choice([8, 4])})", *binds, f"bind({self.row}.i, thread.y)"]
        first = [*split, f"split({self.sweep}, {chunk})"]
        return self._program(facts, first, f"{self.sweep}.o", f"{self.sweep}.i", str(WARP))

    def _program(self, facts: Facts, first: list[str], at: str, sweep: str, threads: str) -> str:
        copies = [f"{b}_row.{self.shape.ranks[b] - 1}" for b in self.reads]
        wide = self.width > 1
        lanes = [f"{n}.o.i" if wide else f"{n}.i" for n in (*copies, sweep)]
        chunks = [f"{n}.o.o" if wide else f"{n}.o" for n in (*copies, sweep)]
        out = [f"{b}_run.{self.shape.ranks[b] - 1}" for b in self.stores] if wide else []
        return program(
            facts.statement(),
            *first,
            *(f"{b}_row = stage({b}, at={at}, scope=register)" for b in self.reads),
            call("split", [*copies, sweep], self.width) if wide else None,
            call("split", each("o", [*copies, sweep]) if wide else [*copies, sweep], threads),
            call("scan", lanes[-1:]),
            *(f"{b}_run = cache_write({b}, at={lanes[-1]}, scope=register)" for b in self.stores if wide),
            call("bind", lanes[:-1], "thread.x"),
            call("vectorize", [*each("i", copies), *out], self.width) if wide else None,
            call("unroll", chunks),
        )
