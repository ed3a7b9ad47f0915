"""One result or one row of results from each row: a block or a warp a row, the row in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.shape import Inner, Shape
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import call, choice, each, program
from evolve.ir.effects import Mode
from evolve.ir.expr import Var
from evolve.target.limits import WARP

WIDTHS = (4, 2, 1)
THREADS = (512, 256, 1024, 128)
SHORT = (64, 32)
MAX_IDLE = 0.25
REGISTERS_FOR_ROWS = 64
"""Elements a thread may hold: beyond, the row is read again instead."""


@dataclass(frozen=True)
class _Sweep:
    """A pass over the columns.

    straight  some array is walked forward, element by element
    plain     without conditions, so that it may be vectorized
    loads     the arrays that it reads forward
    """

    name: str
    does: str
    straight: bool
    plain: bool
    loads: frozenset[str]


def sketches(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs for parallel loops over rows with sweeps over the columns inside."""
    if not shape.parallel or not shape.sweeps or len(shape.sweeps) != len(shape.inner) or shape.is_small:
        return
    row = shape.parallel[-1]
    apart = _apart(shape)
    if apart is None or not _walked_along(shape, row):
        return
    sweeps, before = apart
    trips = {s.name: shape.trips[s.name.rsplit(".", 1)[0] if before else s.name] for s in sweeps}
    again = read_more_than_once(shape, row)
    facts = Facts(shape, sizes)
    for x in shape.sweeps:
        facts.constant(x.name)
    whole = trips[sweeps[0].name]
    varies = any(shape.varies(x.name) for x in shape.sweeps)
    again = [] if varies else again
    for width in (1,) if varies else WIDTHS:
        if any(s.straight and trips[s.name] % width for s in sweeps):
            continue
        if width > 1 and not any(s.straight for s in sweeps):
            continue
        steps = [trips[s.name] // (width if s.straight else 1) for s in sweeps]
        for held in (again, []) if again else ([],):
            threads = [t for t in _threads(steps) if not held or whole // t * len(held) <= REGISTERS_FOR_ROWS]
            made = _Rows(shape, facts, row, sweeps, before, width, held)
            text = made.block_a_row(threads) if threads else None
            if text is not None:
                yield Sketch(
                    text,
                    f"a block a row, {width} columns an access"
                    + (f", {', '.join(held)} held in registers" if held else ""),
                    ("idle_sms", "uncoalesced", "redundant_dram" if held else "latency"),
                )
        if all(n <= WARP * REGISTERS_FOR_ROWS for n in trips.values()) and not varies:
            held = again if whole // WARP * max(1, len(again)) <= REGISTERS_FOR_ROWS else []
            text = _Rows(shape, facts, row, sweeps, before, width, held).warp_a_row()
            if text is not None:
                yield Sketch(text, "a warp a row, no shared memory", ("idle_sms", "uncoalesced", "latency"))


def _threads(steps: list[int]) -> list[int]:
    """Block sizes for sweeps of so many steps: those that divide them; if none does, those under which few
    threads idle in the last step."""
    exact = [t for t in THREADS if all(n % t == 0 for n in steps)]
    if exact:
        return exact

    def idle(t: int) -> float:
        return max(1.0 - n / (-(-n // t) * t) for n in steps)

    return sorted((t for t in (*THREADS, *SHORT) if idle(t) <= MAX_IDLE), key=lambda t: t not in THREADS)


@dataclass(frozen=True)
class _Rows:
    """One way to go through the rows."""

    shape: Shape
    facts: Facts
    row: str
    sweeps: tuple[_Sweep, ...]
    before: tuple[str, ...]
    width: int
    held: list[str]

    def _wide(self) -> list[str]:
        return [s.name for s in self.sweeps if s.straight] if self.width > 1 else []

    def _lanes(self, name: str) -> str:
        """The loop whose iterations go to the threads."""
        cut = self.width > 1 and (name in self._wide() or name in self._copies())
        return f"{name}.o.i" if cut else f"{name}.i"

    def _varies(self, name: str) -> bool:
        return name in self.shape.extents and self.shape.varies(name)

    def _copies(self) -> list[str]:
        return [f"{b}_row.{self.shape.ranks[b] - 1}" for b in self.held]

    def _shared_along(self) -> str | None:
        """A loop around the rows along which blocks read the same rows of some array: they run together, so
        that L2 still has them."""
        for x in reversed(self.shape.parallel[:-1]):
            if any(self.row in w.uses and x not in w.uses for w in self.shape.walks if w.mode is Mode.READ):
                return x
        return None

    def block_a_row(self, threads: list[int]) -> str | None:
        others = [(x, self.shape.trips[x]) for x in self.shape.parallel[:-1]]
        binds = on_grid(others, (self.row, self.shape.trips[self.row]), self._shared_along())
        return (
            None if binds is None else self._program(binds, self.row, "block_reduce", choice(threads), None)
        )

    def warp_a_row(self) -> str | None:
        others = [(x, self.shape.trips[x]) for x in self.shape.parallel[:-1]]
        binds = on_grid(others, (f"{self.row}.o", self.shape.trips[self.row]), self._shared_along())
        if binds is None:
            return None
        split = f"split({self.row}, {choice([4, 8, 2, 16])})"
        return self._program(
            [*binds, f"bind({self.row}.i, thread.y)"], f"{self.row}.i", "warp_reduce", str(WARP), split
        )

    def _program(self, binds: list[str], at: str, reduce: str, threads: str, first: str | None) -> str:
        copies, wide = self._copies(), self._wide()
        every = [*copies, *(s.name for s in self.sweeps)]
        split = [*(copies if self.width > 1 else []), *wide]
        rest = [f"{n}.o" if n in split else n for n in every]
        reduces = [s.name for s in self.sweeps if s.does == "reduce"]
        maps = [s.name for s in self.sweeps if s.does == "map"]
        vector = [
            *(copies if self.width > 1 else []),
            *(s.name for s in self.sweeps if s.name in wide and s.plain and self._moves(s)),
        ]
        return program(
            self.facts.statement(),
            first,
            *binds,
            *(f"distribute({x})" for x in self.before),
            *(f"{b}_row = stage({b}, at={at}, scope=register)" for b in self.held),
            call("split", split, self.width),
            call("split", rest, threads),
            call(reduce, [self._lanes(n) for n in reduces]),
            call("bind", [self._lanes(n) for n in (*copies, *maps)], "thread.x"),
            call("vectorize", each("i", vector), self.width),
            call("unroll", [f"{n}.o" for n in rest if not self._varies(n)]),
        )

    def _moves(self, s: _Sweep) -> bool:
        """Whether a sweep touches memory, not only registers."""
        return s.does == "map" or bool(s.loads - set(self.held))


def _apart(shape: Shape) -> tuple[tuple[_Sweep, ...], tuple[str, ...]] | None:
    """The sweeps, those that reduce and store at once taken apart; None where that cannot be."""
    out: list[_Sweep] = []
    before: list[str] = []
    for x in shape.sweeps:
        if x.does != "mixed":
            out.append(_sweep(shape, x))
        elif not x.runs and len(x.parts) > 1 and "mixed" not in x.parts and len(shape.sweeps) == 1:
            before.append(x.name)
            whole = _sweep(shape, x)
            out += [replace(whole, name=f"{x.name}.{n}", does=does) for n, does in enumerate(x.parts)]
        else:
            return None
    return tuple(out), tuple(before)


def _sweep(shape: Shape, x: Inner) -> _Sweep:
    walks = [w for w in shape.walks if w.loops and w.loops[-1] == x.name and x.name in w.uses]
    loads = frozenset(w.buffer for w in walks if w.mode is Mode.READ and w.stride(x.name) == 1)
    return _Sweep(x.name, x.does, any(w.stride(x.name) == 1 for w in walks), not x.guarded, loads)


def _walked_along(shape: Shape, row: str) -> bool:
    """Whether some array is contiguous along the sweeps rather than along the parallel loop."""
    return any(
        w.stride(x.name) != 0 and w.stride(row) == 0 and row in w.uses
        for w in shape.walks
        for x in shape.inner
    )


def read_more_than_once(shape: Shape, row: str) -> list[str]:
    """Read-only matrices that more than one sweep reads along the row, each element by the same thread."""
    out = []
    sweeps = {x.name for x in shape.inner}
    for b in dict.fromkeys(w.buffer for w in shape.walks):
        reads = [w for w in shape.reads_of(b) if w.loops and w.loops[-1] in sweeps]
        aligned = all(w.indices[-1] == Var(w.loops[-1]) and row in w.uses for w in reads)
        same = len({w.indices[:-1] for w in reads}) == 1
        if b not in shape.written and aligned and same and len({w.loops[-1] for w in reads}) > 1:
            out.append(b)
    return out
