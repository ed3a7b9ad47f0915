"""Products summed over a third loop: block tiles in shared memory, register tiles in threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.overlapped import overlapped
from evolve.agents.expert.shape import Shape, Walk
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import call, each, in_order, program
from evolve.ir.effects import Mode

BLOCKS = (
    (128, 128, 8, 8),
    (64, 64, 4, 4),
    (128, 64, 8, 4),
    (64, 128, 4, 8),
    (256, 128, 16, 8),
    (64, 128, 8, 8),
)
"""Block rows, block columns, rows and columns a thread: 128 or 256 threads each."""
SMALL_BLOCKS = ((32, 32, 8, 4), (32, 32, 4, 4), (16, 16, 4, 4))
"""The same for matrices that are smaller than those blocks: a warp or two each."""
DEPTHS = (32, 16, 8)
VECTOR = 4
FORMS = ("steps one by one", "wide fragments")
"""How operands come from shared memory: element by element, or several steps or rows in one load. Where
no tile divides the sizes, `guarded`: everything element by element, behind conditions."""


@dataclass(frozen=True)
class Operand:
    """An array of the product. `side` is the parallel loop that it moves with; `deep` says that it is
    contiguous along the summed loop."""

    buffer: str
    side: str
    rank: int
    side_dim: int
    sum_dim: int

    @property
    def deep(self) -> bool:
        return self.sum_dim > self.side_dim

    @property
    def tile(self) -> str:
        return f"{self.buffer}_tile"


@dataclass(frozen=True)
class Product:
    """The roles of the loops: rows i and columns j of the result, the summed k, loops around them."""

    shape: Shape
    others: tuple[str, ...]
    i: str
    j: str
    k: str
    operands: tuple[Operand, ...]
    in_memory: str | None

    @property
    def parts(self) -> int:
        """What `distribute` makes of the nest."""
        return len(self.shape.pieces) + (2 if self.in_memory else 0)

    @property
    def at(self) -> int:
        """Which of them is the sum."""
        place = next(n for n, p in enumerate(self.shape.pieces) if p.loop == self.k)
        return place + (1 if self.in_memory else 0)

    @property
    def storing(self) -> list[int]:
        """Those that write the result."""
        if not self.in_memory:
            return [n for n, p in enumerate(self.shape.pieces) if p.stores]
        at = self.at
        before = [n for n, p in enumerate(self.shape.pieces[: at - 1]) if p.stores]
        after = [n + 2 for n, p in enumerate(self.shape.pieces) if n >= at and p.stores]
        return [*before, at + 1, *after]


def sketches(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs for two parallel loops around one reduction that reuses its operands along both."""
    product = _product(shape)
    if product is None:
        return
    for ahead in (False, True):
        text = overlapped(product, Facts(shape, sizes), ahead=ahead)
        if text is not None:
            how = ", the next ones under way" if ahead else ""
            why = f"64 x 128 x 16 tiles in shared memory, 8 x 8 a thread, lanes in pairs{how}"
            yield Sketch(text, why, ("latency", "global_accesses", "redundant_l2", "shared_traffic"))
    offered = 0
    # Conditions cost registers: guarded tiles are small ones.
    for blocks, whole in ((BLOCKS, True), (SMALL_BLOCKS, True), (BLOCKS[1:4], False)):
        for bm, bn, rm, rn in blocks:
            for depth in DEPTHS if whole else DEPTHS[1:]:
                facts = Facts(shape, sizes)
                wanted = {product.i: bm, product.j: bn, product.k: depth}
                if whole and not all(facts.multiple(x, t) for x, t in wanted.items()):
                    continue
                for form in FORMS if whole else ("guarded",):
                    text = _tiled(product, facts, (bm, bn, rm, rn, depth), form)
                    if text is not None:
                        offered += 1
                        yield Sketch(
                            text,
                            f"{bm} x {bn} x {depth} tiles in shared memory, {rm} x {rn} a thread, {form}",
                            ("global_accesses", "redundant_l2", "shared_traffic"),
                        )
        if offered:
            return


def _product(shape: Shape) -> Product | None:
    if len(shape.parallel) < 2 or len(shape.inner) != 1 or shape.inner[0].does != "reduce":
        return None
    k = shape.inner[0].name
    kept = [w for w in shape.writes if k not in w.uses]
    j = next((x for x in reversed(shape.parallel) if kept and all(w.stride(x) == 1 for w in kept)), None)
    if j is None or len(shape.targets) != 1:
        return None
    reads = [w for w in shape.walks if w.mode is Mode.READ and k in w.uses]
    cols = _operands(reads, j, k, shape.parallel)
    for i in (x for x in reversed(shape.parallel) if x != j):
        rows = _operands(reads, i, k, shape.parallel)
        rows = [x for x in rows if not any(x.buffer == y.buffer for y in cols)]
        if rows and cols:
            others = tuple(x for x in shape.parallel if x not in (i, j))
            memory = next((w.buffer for w in shape.walks if w.mode is Mode.REDUCE and k in w.loops), None)
            return Product(shape, others, i, j, k, (*rows, *cols), memory)
    return None


def _operands(reads: list[Walk], side: str, k: str, parallel: tuple[str, ...]) -> list[Operand]:
    """Arrays that move with one of the two sides and the sum, the same way at each read."""
    found: dict[str, Operand] = {}
    for w in reads:
        a, b = w.dimension(side), w.dimension(k)
        sides = [x for x in parallel[-2:] if x in w.uses] if side in parallel[-2:] else [side]
        if a is None or b is None or len(sides) != 1 or max(a, b) != len(w.indices) - 1:
            continue
        if any(x.buffer == w.buffer and x.indices != w.indices for x in reads):
            continue
        found[w.buffer] = Operand(w.buffer, side, len(w.indices), a, b)
    return list(found.values())


def _tiled(p: Product, facts: Facts, tile: tuple[int, int, int, int, int], form: str) -> str | None:
    i, j, k = p.i, p.j, p.k
    bm, bn, rm, rn, depth = tile
    ty, tx = bm // rm, bn // rn
    deep = [x for x in p.operands if x.deep]
    flat = [x for x in p.operands if x.side == j and not x.deep]
    wide, guarded = form == FORMS[1], form == "guarded"
    # Several steps a load need rows that lie together: columns of a deep operand do not.
    along_k = wide and bool(deep) and all(x.side == i for x in deep)
    if wide and not along_k and all(x.deep for x in p.operands if x.side == i):
        return None
    trips = p.shape.trips
    binds = on_grid(
        [*((x, trips[x]) for x in p.others), (f"{i}.o", -(-trips[i] // bm))], (f"{j}.o", -(-trips[j] // bn))
    )
    if binds is None:
        return None
    # A thread's rows lie together; its columns in groups of 4, one group from each of rn / 4 stretches,
    # so that neighbouring threads read neighbouring vectors. Columns that are read from a tile whose rows
    # they are lie one thread apart, in different banks.
    grouped = bool(flat) and not guarded
    thread_row, row = f"{i}.i.o", f"{i}.i.i"
    if grouped:
        stretch, thread_col, lane = f"{j}.i.o", f"{j}.i.i.o", f"{j}.i.i.i"
        nest = [thread_row, thread_col, row, stretch, lane]
    else:
        stretch, thread_col, lane = f"{j}.i.o", f"{j}.i.i", ""
        nest = [thread_row, thread_col, row, stretch]
    at = str(p.at)
    steps = [f"{k}.i.o", f"{k}.i.i"] if along_k else [f"{k}.i"]
    lines: list[str | None] = [
        facts.statement(),
        in_order(p.shape.parallel, [*p.others, i, j]),
        f"{p.in_memory}_sum = accumulate_in_register({k}, {p.in_memory})" if p.in_memory else None,
        f"tile([{i}, {j}], [{bm}, {bn}])",
        *binds,
        f"split({i}.i, {rm})",
        f"split({j}.i, {VECTOR * tx if grouped else tx})",
        f"split({j}.i.i, {VECTOR})" if grouped else None,
        call("reorder", nest),
        call("distribute", nest),
        f"split({k}, {depth})",
        f"split({k}.i, {VECTOR})" if along_k else None,
        call("reorder", [f"{k}.o", *each(at, nest[:2]), *steps, *each(at, nest[2:])]),
    ]
    for x in p.operands:
        sides = {i: bm, j: bn}
        pad = ["0"] * x.rank
        pad[-1] = str(VECTOR if (not x.deep and not guarded) or along_k else 1)
        slow, fast = (x.side_dim, x.sum_dim) if x.deep else (x.sum_dim, x.side_dim)
        extents = (sides[x.side], depth) if x.deep else (depth, sides[x.side])
        lines += [
            f"{x.tile} = stage({x.buffer}, at={k}.o, scope=shared)",
            f"set_layout({x.tile}, pad=[{', '.join(pad)}])",
            *_copy(
                (f"{x.tile}.{slow}", f"{x.tile}.{fast}"), extents, (ty, tx), (1,) if guarded else (4, 2, 1)
            ),
        ]
    for x in p.operands:
        if x.deep and along_k:
            lines += [
                f"{x.buffer}_frag = stage({x.tile}, at={k}.i.o, scope=register)",
                f"unroll({x.buffer}_frag.{x.side_dim})",
                f"vectorize({x.buffer}_frag.{x.sum_dim}, {VECTOR})",
            ]
        elif x.side == i and not guarded:
            frag = f"{x.buffer}_frag"
            lines += [f"{frag} = stage({x.tile}, at={steps[-1]}, scope=register)"]
            if wide and not x.deep and rm % VECTOR == 0:
                lines += [f"vectorize({frag}.{x.side_dim}, {VECTOR})"]
            else:
                lines += [f"unroll({frag}.{x.side_dim})"]
    for part in range(p.parts):
        lines += [f"bind({thread_row}.{part}, thread.y)", f"bind({thread_col}.{part}, thread.x)"]
    plain = [f"{x}.{part}" for part in range(p.parts) for x in (row, stretch)]
    if grouped:
        vector = [p.at, *p.storing]
        plain += [f"{lane}.{part}" for part in range(p.parts) if part not in vector]
        lines += [call("vectorize", [f"{lane}.{part}" for part in sorted(vector)], VECTOR)]
    lines += [call("unroll", plain), call("unroll", steps[-1:])]
    return program(*lines)


def _copy(
    loops: tuple[str, str], extents: tuple[int, int], threads: tuple[int, int], widths: tuple[int, ...]
) -> list[str | None]:
    """A copy nest over (thread.y, thread.x): wide along the contiguous dimension where that fits."""
    (outer, inner), (slow, fast) = loops, extents
    ty, tx = threads
    lines: list[str | None] = []
    width = next((w for w in widths if fast % (w * tx) == 0), None)
    if width is None:
        # Fewer columns than threads in x: each thread row takes whole rows, some threads idle.
        lines += [f"bind({inner}, thread.x)"]
    else:
        vector = f"vectorize({inner}.i, {width})" if width > 1 else None
        if width > 1:
            lines += [f"split({inner}, {width})"]
            inner = f"{inner}.o"
        if fast // width > tx:
            lines += [f"split({inner}, {tx})", f"unroll({inner}.o)"]
            inner = f"{inner}.i"
        lines += [f"bind({inner}, thread.x)", vector]
    if slow > ty:
        lines += [f"split({outer}, {ty})", f"unroll({outer}.o)", f"bind({outer}.i, thread.y)"]
    else:
        lines += [f"bind({outer}, thread.y)"]
    return lines
