"""The statements that may come next: each one's precondition holds on the kernel as it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from evolve.dsl.diagnostic import RefusedError
from evolve.dsl.parser import parse_statement
from evolve.ir.affine import simplify
from evolve.ir.effects import effects
from evolve.ir.expr import Const
from evolve.ir.kernel import Kernel
from evolve.ir.scope import ranges_at
from evolve.ir.stmt import Alloc, Block, Buffer, For, If, Leaf, Reduce
from evolve.ir.types import LoopKind, Space
from evolve.ir.visit import Site, leaves, local_buffers, variables, walk
from evolve.target.limits import STATIC_SHARED_BYTES, THREADS_MOST
from evolve.transforms.call import TRANSFORMS, Call
from evolve.transforms.edit import sites
from evolve.transforms.mapping import FREE
from evolve.transforms.names import NameTable

SPLITS = (4, 8, 16, 32, 64, 128, 256)
TILES = (8, 16, 32, 64)
FIXED_SIZES = (1024, 4096, 8192)
DIVISORS = (4, 32, 128)
MOST_UNROLLED = 32
CLAIMING = frozenset(("bind", "stage", "set_layout", "multi_buffer", "warp_reduce", "block_reduce"))
"""Primitives that take threads or shared memory."""


@dataclass(frozen=True)
class MoveLimits:
    """What the device allows, threads and bytes of shared memory a block, and what the kernel is run on.

    `sizes` are the scalars of the timed launches by name: a size found there is specialized to those
    values and to divisors of them only, so that the variant is one that runs.
    """

    threads: int = THREADS_MOST
    shared_bytes: int = STATIC_SHARED_BYTES
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def legal_moves(kernel: Kernel, names: NameTable, limits: MoveLimits = MoveLimits()) -> list[str]:
    """Statement texts that `evolve.transforms.apply.apply` accepts, in a fixed order, without repetition.

    Numbers are drawn from short lists that fit the loop's extent. Accepted is not proved: a move may
    still be refused by the prover, as an order that a dependence forbids.
    """
    out: list[str] = []
    for texts in dict.fromkeys(_candidates(kernel, limits)):
        text = texts[0]
        try:
            # Preconditions are the transform's own; tidying the result afterwards refuses nothing.
            statement = parse_statement(text)
            result, _ = TRANSFORMS[statement.primitive](Call(kernel, names, statement))
        except RefusedError:
            continue
        if statement.primitive not in CLAIMING or _fits(result, limits):
            out.extend(texts)
    return out


def _fits(kernel: Kernel, limits: MoveLimits) -> bool:
    largest: dict[LoopKind, int] = {}
    shared = 0
    for site in walk(kernel.body):
        if isinstance(site.stmt, For) and site.stmt.kind.is_thread:
            extent = simplify(site.stmt.extent, ranges_at(kernel, site.path))
            if isinstance(extent, Const):
                largest[site.stmt.kind] = max(largest.get(site.stmt.kind, 1), int(extent.value))
        if isinstance(site.stmt, Alloc) and site.stmt.buffer.space is Space.SHARED:
            b = site.stmt.buffer
            size = b.dtype.size
            for n, pad in zip(b.extents, b.padding or (0,) * len(b.extents), strict=True):
                size *= (int(n.value) if isinstance(n, Const) else 0) + pad
            shared += size
    threads = 1
    for extent_of_axis in largest.values():
        threads *= extent_of_axis
    return threads <= limits.threads and shared <= limits.shared_bytes


def _candidates(kernel: Kernel, limits: MoveLimits) -> Iterator[tuple[str, ...]]:
    """Statements to try, those together whose preconditions are the same."""
    loops = sites(kernel)
    extents = {name: _extent(kernel, site) for name, site in loops.items()}
    yield from _knowledge(kernel, limits.sizes)
    for name, site in loops.items():
        assert isinstance(site.stmt, For)
        if site.stmt.kind in FREE:
            yield from _of_loop(site, site.stmt, extents[name], limits)
    yield from _of_nests(kernel, loops, extents)
    yield from _of_buffers(kernel, loops)


def _extent(kernel: Kernel, site: Site) -> int | None:
    assert isinstance(site.stmt, For)
    extent = simplify(site.stmt.extent, ranges_at(kernel, site.path))
    return int(extent.value) if isinstance(extent, Const) else None


def _cuts(extent: int | None, factor: int) -> bool:
    """Whether a split into whole, smaller parts; of an unknown extent always."""
    return extent is None or (factor < extent and extent % factor == 0)


def _knowledge(kernel: Kernel, sizes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, ...]]:
    ranges = ranges_at(kernel)
    for s in kernel.scalars:
        low, high = ranges.of(s.name)
        if not s.is_size or s.implied or (low is not None and low == high):
            continue
        known = ranges.divisors.get(s.name, 1)
        used = sizes.get(s.name, ())
        for value in used or FIXED_SIZES:
            yield (f"specialize({s.name} == {value})",)
        for divisor in DIVISORS:
            if known % divisor and all(value % divisor == 0 for value in used):
                yield (f"specialize({s.name} % {divisor} == 0)",)


def _of_loop(site: Site, loop: For, extent: int | None, limits: MoveLimits) -> Iterator[tuple[str, ...]]:
    name = loop.var
    factors = [f for f in SPLITS if _cuts(extent, f)]
    if factors:
        yield tuple(f"split({name}, {f})" for f in factors)
    if all(isinstance(p, For) and p.kind.is_grid for p in site.path):
        used = {p.kind for p in site.path if isinstance(p, For)}
        for axis in (LoopKind.GRID_X, LoopKind.GRID_Y):
            if axis not in used:
                yield (f"bind({name}, {axis.value})",)
    if extent is None:
        return
    if loop.kind is not LoopKind.UNROLL and extent <= MOST_UNROLLED:
        yield (f"unroll({name})",)
    if 1 < extent <= limits.threads:
        yield (f"bind({name}, thread.x)",)
        yield (f"bind({name}, thread.y)",)
    if any(isinstance(s.stmt, Reduce) for s in walk(loop.body)):
        if extent in (4, 8, 16, 32):
            yield (f"warp_reduce({name})",)
        if extent % 32 == 0 and 32 < extent <= limits.threads:
            yield (f"block_reduce({name})",)
    innermost = not any(isinstance(s.stmt, For) for s in walk(loop.body))
    for width in (2, 4):
        if innermost and extent % width == 0:
            yield (f"vectorize({name}, {width})",)


def _of_nests(
    kernel: Kernel, loops: Mapping[str, Site], extents: Mapping[str, int | None]
) -> Iterator[tuple[str, ...]]:
    for name, site in loops.items():
        outer = site.stmt
        assert isinstance(outer, For)
        inner = _only_loop(outer.body)
        if outer.kind in FREE:
            yield (f"distribute({name})",)
        if inner is None:
            continue
        if not outer.kind.is_grid and inner.kind is not LoopKind.VECTOR:
            yield (f"reorder([{inner.var}, {name}])",)
        if outer.kind in FREE and inner.kind in FREE:
            sizes = [n for n in TILES if all(_cuts(extents[x], n) for x in (name, inner.var))]
            if sizes:
                yield tuple(f"tile([{name}, {inner.var}], [{n}, {n}])" for n in sizes)
            yield (f"distribute([{name}, {inner.var}])",)
    blocks = [kernel.body, *(b for s in walk(kernel.body) for b in _bodies(s.stmt))]
    for block in blocks:
        siblings = [s for s in block.stmts if isinstance(s, For) and s.kind in FREE]
        for first, second in pairwise(siblings):
            yield (f"jam({first.var}, {second.var})",)


def _bodies(s: object) -> tuple[Block, ...]:
    return (s.body,) if isinstance(s, For | If) else ()


def _only_loop(body: Block) -> For | None:
    while len(body.stmts) == 1:
        (only,) = body.stmts
        if isinstance(only, For):
            return only
        if not isinstance(only, If) or only.orelse.stmts:
            return None
        body = only.body
    return None


def _of_buffers(kernel: Kernel, loops: Mapping[str, Site]) -> Iterator[tuple[str, ...]]:
    local = local_buffers(kernel.body)
    for name, site in loops.items():
        loop = site.stmt
        assert isinstance(loop, For)
        if loop.kind is LoopKind.VECTOR or loop.kind.is_combine:
            continue
        accesses = [a for s in walk(loop.body) for a in effects(s.stmt).accesses]
        read = dict.fromkeys(a.buffer for a in accesses if a.mode.value == "read")
        for buffer in read:
            space = local[buffer].space if buffer in local else Space.GLOBAL
            if space is Space.GLOBAL:
                yield (f"stage({buffer}, at={name}, scope=shared)",)
            if space is not Space.REGISTER:
                yield (f"stage({buffer}, at={name}, scope=register)",)
        for buffer in dict.fromkeys(a.buffer for a in accesses if a.mode.value == "reduce"):
            if buffer not in local or local[buffer].space is not Space.REGISTER:
                yield (f"accumulate_in_register({name}, {buffer})",)
    for buffer, declared in local.items():
        if declared.space is Space.SHARED and declared.extents:
            pad = [0] * (len(declared.extents) - 1) + [1]
            yield (f"set_layout({buffer}, pad={pad})",)
            yield (f"multi_buffer({buffer})",)
    for name, site in loops.items():
        assert isinstance(site.stmt, For)
        if any(_takes_turns(leaf, name, local) for leaf, _ in leaves(site.stmt.body)):
            yield (f"pipeline({name})",)


def _takes_turns(leaf: Leaf, loop: str, local: Mapping[str, Buffer]) -> bool:
    """Whether a statement writes a part of a shared buffer that the loop's iteration chooses."""
    shared = leaf.buffer in local and local[leaf.buffer].space is Space.SHARED
    return shared and loop in variables(leaf.indices[0])
