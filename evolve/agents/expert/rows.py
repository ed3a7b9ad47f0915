"""One result or one row of results from each row: a block or a warp a row, the row in registers."""

from __future__ import annotations

from collections.abc import Iterator

from evolve.agents.expert.shape import Shape, divisors_among, size_of
from evolve.agents.expert.text import choice, each, group, program
from evolve.ir.effects import Mode
from evolve.ir.expr import Var

WIDTHS = (4, 2, 1)
THREADS = (512, 256, 1024, 128)
REGISTERS_FOR_ROWS = 64
"""Elements a thread may hold: beyond, the row is read again instead."""


def sketches(shape: Shape, sizes: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Programs for one parallel loop over rows with sweeps over the columns inside."""
    sweeps = [x for x in shape.inner if x.depth == 0]
    if len(shape.parallel) != 1 or not sweeps or len(sweeps) != len(shape.inner):
        return
    if any(x.does == "mixed" or x.extent != sweeps[0].extent for x in sweeps):
        return
    row, columns = shape.parallel[0], shape.trips[sweeps[0].name]
    size = size_of(sweeps[0].extent)
    if size is None or not _walked_along(shape, row):
        return
    again = _read_more_than_once(shape, row)
    for width in divisors_among(columns, WIDTHS):
        for held in (True, False):
            threads = [
                t
                for t in divisors_among(columns // width, THREADS)
                if not held or columns // t * max(1, len(again)) <= REGISTERS_FOR_ROWS
            ]
            if not threads or (held and not again):
                continue
            yield (
                _block_a_row(shape, row, size, columns, width, threads, again if held else []),
                f"a block a row, {width} columns an access"
                + (f", {', '.join(again)} held in registers" if held else ""),
            )
    if columns <= 32 * REGISTERS_FOR_ROWS and columns % 32 == 0:
        for width in [w for w in divisors_among(columns, WIDTHS) if columns // w % 32 == 0]:
            yield (_warp_a_row(shape, row, size, columns, width, again), "a warp a row, no shared memory")


def _block_a_row(
    shape: Shape, row: str, size: str, columns: int, width: int, threads: list[int], held: list[str]
) -> str:
    reduces, maps = _sweeps(shape)
    copies = [f"{b}_row.1" for b in held]
    everything = [*copies, *reduces, *maps]
    rest = each("o", everything) if width > 1 else everything

    def thread_loops(names: list[str]) -> list[str]:
        return each("o.i" if width > 1 else "i", names)

    return program(
        f"specialize({size} == {columns})",
        f"bind({row}, grid.x)",
        *[f"{b}_row = stage({b}, at={row}, scope=register)" for b in held],
        f"split({group(everything)}, {width})" if width > 1 else None,
        f"split({group(rest)}, {choice(threads)})",
        f"block_reduce({group(thread_loops(reduces))})" if reduces else None,
        f"bind({group(thread_loops([*copies, *maps]))}, thread.x)" if copies or maps else None,
        f"vectorize({group(each('i', [*copies, *maps, *(() if held else reduces)]))}, {width})"
        if width > 1 and (copies or maps or not held)
        else None,
        f"unroll({group([f'{n}.o' for n in rest])})",
    )


def _warp_a_row(shape: Shape, row: str, size: str, columns: int, width: int, held: list[str]) -> str:
    reduces, maps = _sweeps(shape)
    copies = [f"{b}_row.1" for b in held]
    everything = [*copies, *reduces, *maps]
    rest = each("o", everything) if width > 1 else everything
    lanes = each("o.i" if width > 1 else "i", reduces)
    bound = each("o.i" if width > 1 else "i", [*copies, *maps])
    return program(
        f"specialize({size} == {columns})",
        f"split({row}, {choice([4, 8, 2, 16])})",
        f"bind({row}.o, grid.x)",
        f"bind({row}.i, thread.y)",
        *[f"{b}_row = stage({b}, at={row}.i, scope=register)" for b in held],
        f"split({group(everything)}, {width})" if width > 1 else None,
        f"split({group(rest)}, 32)",
        f"warp_reduce({group(lanes)})" if lanes else None,
        f"bind({group(bound)}, thread.x)" if bound else None,
        f"vectorize({group(each('i', [*copies, *maps]))}, {width})"
        if width > 1 and (copies or maps)
        else None,
        f"unroll({group([f'{n}.o' for n in rest])})",
    )


def _sweeps(shape: Shape) -> tuple[list[str], list[str]]:
    return (
        [x.name for x in shape.inner if x.does == "reduce"],
        [x.name for x in shape.inner if x.does == "map"],
    )


def _walked_along(shape: Shape, row: str) -> bool:
    """Whether some array is contiguous along the sweeps rather than along the parallel loop."""
    sweeps = {x.name for x in shape.inner}
    return any(w.contiguous_in & sweeps and row not in w.contiguous_in for w in shape.walks)


def _read_more_than_once(shape: Shape, row: str) -> list[str]:
    """Read-only matrices that more than one sweep reads along the row."""
    out = []
    for b in dict.fromkeys(w.buffer for w in shape.walks):
        reads = [w for w in shape.reads_of(b) if len(w.indices) == 2 and w.indices[0] == Var(row)]
        loops = {w.loops[-1] for w in reads}
        writes = [w for w in shape.walks if w.buffer == b and w.mode is not Mode.READ]
        if len(loops) > 1 and not writes:
            out.append(b)
    return out
