"""Products whose tiles are copied asynchronously: what came out fastest on an H200.

A block has 64 rows and 128 columns, a thread 8 of each. What decides is what a multiplication waits for:

* Threads in pairs read the same rows and the same columns, and so cost half the passes of shared memory; the
  factor that is contiguous along the sum is stored transposed, so that both are read in vectors.
* What is copied asynchronously needs no registers, of which 128 a thread are all taken: either the factor
  that keeps its form, waited for at once while other blocks of the SM compute, or both, an iteration ahead.
* Results are stored one by one. Stored in vectors, accumulators lie in the banks of the registers that they
  are multiplied from, and two operands of one bank are read one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.grids import on_grid
from evolve.agents.expert.text import call, each, in_order, program

if TYPE_CHECKING:
    from evolve.agents.expert.products import Operand, Product

ROWS, COLUMNS, DEPTH = 64, 128, 16
"""The tile of a block."""


def overlapped(p: Product, facts: Facts, *, ahead: bool) -> str | None:
    """The program; `ahead` says whether the next tiles are under way while these are multiplied.

    None for products of another form.
    """
    rows = [x for x in p.operands if x.side == p.i]
    columns = [x for x in p.operands if x.side == p.j]
    if len(rows) != 1 or len(columns) != 1 or not rows[0].deep or columns[0].deep:
        return None
    if not all(facts.multiple(x, n) for x, n in ((p.i, ROWS), (p.j, COLUMNS), (p.k, DEPTH))):
        return None
    i, j, k, at = p.i, p.j, p.k, str(p.at)
    trips = p.shape.trips
    grid = [*((x, trips[x]) for x in p.others), (f"{i}.o", -(-trips[i] // ROWS))]
    binds = on_grid(grid, (f"{j}.o", -(-trips[j] // COLUMNS)))
    if binds is None:
        return None
    threads = {f"{i}.i.o.o.i": "z", f"{i}.i.o.i": "x", f"{j}.i.o.i": "y"}
    steps = [f"{i}.i.o.o.o", f"{i}.i.i", f"{j}.i.o.o", f"{j}.i.i"]
    nest = [*threads, *steps]
    parts = [str(n) for n in range(p.parts)]
    lines: list[str | None] = [
        facts.statement(),
        in_order(p.shape.parallel, [*p.others, i, j]),
        f"{p.in_memory}_sum = accumulate_in_register({k}, {p.in_memory})" if p.in_memory else None,
        f"tile([{i}, {j}], [{ROWS}, {COLUMNS}])",
        *binds,
        f"split({i}.i, 4)",
        f"split({i}.i.o, 2)",
        f"split({i}.i.o.o, 4)",
        f"split({j}.i, 4)",
        f"split({j}.i.o, 16)",
        call("reorder", nest),
        call("distribute", nest),
        f"split({k}, {DEPTH})",
        call("reorder", [f"{k}.o", *each(at, [*threads]), f"{k}.i", *each(at, steps)]),
        *_turned(rows[0], k, ahead),
        *_straight(columns[0], k),
        f"{rows[0].buffer}_frag = stage({rows[0].tile}, at={steps[0]}.{at}, scope=register)",
        f"vectorize({rows[0].buffer}_frag.{rows[0].rank - 1}, 4)",
        *(f"bind({x}.{part}, thread.{axis})" for part in parts for x, axis in threads.items()),
        f"vectorize({steps[-1]}.{at}, 4)",
        call("unroll", [f"{x}.{part}" for part in parts for x in steps if (x, part) != (steps[-1], at)]),
        f"unroll({k}.i)",
    ]
    tiles = [rows[0].tile, columns[0].tile]
    if ahead:
        lines += [f"{what}({t})" for what in ("make_async", "multi_buffer") for t in tiles]
        lines += [f"pipeline({k}.o)", "launch_bounds(128, 4)"]
    else:
        lines.append(f"make_async({columns[0].tile})")
    return program(*lines)


def _turned(x: Operand, k: str, ahead: bool) -> list[str | None]:
    """Rows of the tile become columns. Asynchronously neighbours along the sum are copied by neighbouring
    threads, one by one; through registers a thread copies four of them."""
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    pad = [0] * (x.rank - 1) + [4]
    rows, deep = f"{x.tile}.{x.side_dim}", f"{x.tile}.{x.sum_dim}"
    head: list[str | None] = [
        f"{x.tile} = stage({x.buffer}, at={k}.o, scope=shared)",
        f"set_layout({x.tile}, order={order}, pad={pad})",
    ]
    if ahead:
        return [
            *head,
            f"bind({deep}, thread.y)",
            f"split({rows}, 2)",
            f"bind({rows}.i, thread.x)",
            f"split({rows}.o, 4)",
            f"unroll({rows}.o.o)",
            f"bind({rows}.o.i, thread.z)",
        ]
    return [
        *head,
        f"split({deep}, 4)",
        f"split({deep}.o, 2)",
        f"unroll({deep}.o.o)",
        f"bind({deep}.o.i, thread.x)",
        f"vectorize({deep}.i, 4)",
        f"split({rows}, 16)",
        f"bind({rows}.i, thread.y)",
        f"bind({rows}.o, thread.z)",
    ]


def _straight(x: Operand, k: str) -> list[str | None]:
    """A tile that keeps its form, copied in vectors."""
    deep, columns = f"{x.tile}.{x.sum_dim}", f"{x.tile}.{x.side_dim}"
    return [
        f"{x.tile} = stage({x.buffer}, at={k}.o, scope=shared)",
        f"split({columns}, 4)",
        f"split({columns}.o, 2)",
        f"bind({columns}.o.i, thread.x)",
        f"vectorize({columns}.i, 4)",
        f"bind({columns}.o.o, thread.y)",
        f"split({deep}, 4)",
        f"bind({deep}.i, thread.z)",
        f"unroll({deep}.o)",
    ]
