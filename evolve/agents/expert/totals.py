"""A few long reductions: each cut into parts, a block a part, and a second launch that combines them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from evolve.agents.expert.facts import Facts
from evolve.agents.expert.shape import Shape
from evolve.agents.expert.sketch import Sketch
from evolve.agents.expert.text import choice, program
from evolve.ir.effects import Mode

FEW = 256
"""Results: with more, a block for each keeps the GPU busy."""
LONG = 1 << 16
"""Elements of a reduction that is worth a second launch."""
PARTS = (131072, 65536, 262144, 32768)
LEAST_PARTS = 4
THREADS = (1024, 512, 256)
STRIDED = 2
STRIDING = 512
"""Blocks on each SM that go through the whole reduction together, and their threads."""
COMBINING = 1024


def sketches(shape: Shape, sizes: dict[str, int]) -> Iterator[Sketch]:
    """Programs for a single long reduction, of a thread or of all threads, inside at most one parallel loop
    with few iterations."""
    long = _reduction(shape)
    if long is None or shape.trips[long] < LONG or shape.varies(long):
        return
    around = tuple(x for x in shape.parallel if x != long)
    if len(around) > 1 or prod(shape.trips[x] for x in around) > FEW:
        return
    for width in (4, 2, 1):
        facts = Facts(shape, sizes)
        if width == 1 or (_straight(shape, long) and facts.multiple(long, width)):
            for make in (_atomic, _parts, _strided):
                made = make(shape, around, long, facts, width)
                if made is not None:
                    yield made


def _reduction(shape: Shape) -> str | None:
    """The loop whose iterations all contribute to the same cells."""
    if len(shape.inner) == 1:
        (sweep,) = shape.inner
        return sweep.name if sweep.does == "reduce" else None
    if shape.inner or not all(w.mode is Mode.REDUCE for w in shape.writes):
        return None
    common = [x for x in shape.parallel if not any(x in w.uses for w in shape.writes)]
    return common[0] if len(common) == 1 else None


def _straight(shape: Shape, k: str) -> bool:
    """Whether what it reads lies in a row."""
    strides = [w.stride(k) for w in shape.walks if k in w.uses]
    return not any(x.guarded for x in shape.inner) and bool(strides) and all(s == 1 for s in strides)


def _parts(shape: Shape, around: tuple[str, ...], k: str, facts: Facts, width: int) -> Sketch | None:
    parts = [p for p in PARTS if p * LEAST_PARTS <= shape.trips[k]] or [LONG // LEAST_PARTS]
    text = program(
        facts.statement(),
        f"split({k}, {choice(parts)})",
        *_launches(around, f"{k}.o"),
        *_spread(f"{k}.i", choice(THREADS), width),
        f"unroll({k}.i.o.o, 8)" if width > 1 else f"unroll({k}.i.o, 8)",
        f"split({k}.o.all, {COMBINING})",
        f"block_reduce({k}.o.all.i)",
    )
    return _sketch(text, f"a block a part of {k}, {width} elements an access")


def _strided(shape: Shape, around: tuple[str, ...], k: str, facts: Facts, width: int) -> Sketch | None:
    threads, blocks = STRIDING, STRIDED * shape.sms
    every = blocks * threads * width
    if shape.trips[k] < 2 * every:
        return None
    text = program(
        facts.statement(),
        f"split({k}, {every})",
        f"split({k}.i, {threads * width})",
        f"reorder([{k}.i.o, {k}.o])",
        *_launches(around, f"{k}.i.o"),
        *_spread(f"{k}.i.i", str(threads), width),
        f"unroll({k}.o, 8)",
        f"split({k}.i.o.all, 32)",
        f"warp_reduce({k}.i.o.all.i)",
    )
    return _sketch(text, f"{blocks} blocks stride over {k} together, {width} elements an access")


def _atomic(shape: Shape, around: tuple[str, ...], k: str, facts: Facts, width: int) -> Sketch | None:
    """What all threads contribute to takes what each block has: one launch."""
    if k not in shape.parallel or around:
        return None
    parts = [p for p in PARTS if p * LEAST_PARTS <= shape.trips[k]] or [LONG // LEAST_PARTS]
    text = program(
        facts.statement(),
        f"split({k}, {choice(parts)})",
        f"bind({k}.o, grid.x)",
        *_spread(f"{k}.i", choice(THREADS), width),
        f"unroll({k}.i.o.o, 8)" if width > 1 else f"unroll({k}.i.o, 8)",
    )
    return _sketch(text, f"an atomic update for each block's part of {k}, {width} elements an access")


def _launches(around: tuple[str, ...], part: str) -> Iterator[str]:
    yield f"grid_reduce({part})"
    for row in around:
        yield f"bind({row}.part, grid.y)"
        yield f"bind({row}, grid.x)"
    yield f"bind({part}, grid.x)"


def _spread(loop: str, threads: str, width: int) -> Iterator[str]:
    """The elements of a part over the threads of its block."""
    if width == 1:
        yield f"split({loop}, {threads})"
        yield f"block_reduce({loop}.i)"
        return
    yield f"split({loop}, {width})"
    yield f"split({loop}.o, {threads})"
    yield f"block_reduce({loop}.o.i)"
    yield f"vectorize({loop}.i, {width})"


def _sketch(text: str, why: str) -> Sketch:
    return Sketch(text, why, ("idle_sms", "latency", "atomics"))
