"""How often loops run, where the accesses alone mislead."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.compiled import as_compiled
from evolve.devices.sampled import sampled_traffic
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.tracing import TraceBuffer
from evolve.devices.traffic import Traffic
from evolve.devices.trips import Counts, trip_counts
from evolve.devices.work import conserved, executed
from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import Sass, disassemble
from tests.devices.test_chain import code
from tests.devices.tiled_matmul import text

SIZE, STEPS = 256, 512


@cache
def tiled(tile: int, depth: int, block: tuple[int, int]) -> tuple[Sass, Traffic]:
    source = text(tile, depth, block)
    compiled = compile_cuda(source, "sm_90", [LINE_INFO])
    assert compiled.cubin is not None, compiled.log
    arguments = (
        [BufferArg(n) for n in "ABC"],
        [ScalarArg(n, "i32", v) for n, v in zip("MNK", (SIZE, SIZE, STEPS), strict=True)],
    )
    launch = ConcreteLaunch(
        "tiled", (*arguments[0], *arguments[1]), (SIZE // tile, SIZE // tile, 1), (*block, 1)
    )
    counts = {"A": SIZE * STEPS, "B": STEPS * SIZE, "C": SIZE * SIZE}
    buffers = {n: TraceBuffer("float32", c) for n, c in counts.items()}
    traffic = sampled_traffic(compile_host(source, ["tiled"]), launch, buffers, in_flight=1)
    return disassemble([compiled.cubin])[0]["tiled"], traffic


SHAPES = [(128, 8), (128, 16), (128, 32), (64, 8), (64, 16), (64, 32)]


@pytest.mark.parametrize("block", [(16, 16), (8, 32)])
@pytest.mark.parametrize(("tile", "depth"), SHAPES)
def test_a_tile_that_half_the_block_fills_does_not_shorten_the_product(
    tile: int, depth: int, block: tuple[int, int]
) -> None:
    if tile // block[0] > 8 and tile // block[1] < 4:
        block = (block[1], block[0])
    sass, traffic = tiled(tile, depth, block)
    mix = executed(sass, trip_counts(sass, traffic))
    each = tile * tile // (block[0] * block[1])
    assert mix["fp32_fma"] == pytest.approx(STEPS * each, rel=0.01)
    assert mix["bar"] == pytest.approx(2 * STEPS / depth, rel=0.01)


def test_guarded_blocks_run_as_often_as_their_accesses() -> None:
    sass, traffic = tiled(128, 8, (16, 16))
    moved = as_compiled(traffic, sass, trip_counts(sass, traffic))
    for space, write in (("global", False), ("shared", True)):
        seen, asked = moved.total(space, write=write), traffic.total(space, write=write)
        assert seen.bytes == pytest.approx(asked.bytes, rel=0.01)


@pytest.mark.parametrize("depth", [8, 16, 32])
def test_merged_loads_keep_the_pattern_of_their_operand(depth: int) -> None:
    """Whichever line the compiler gives a merged load: A's is one address a row of threads, one pass; B's
    sixteen addresses of 16 bytes, four passes on an H200 (measured)."""
    sass, traffic = tiled(128, depth, (16, 16))
    loads = as_compiled(traffic, sass, trip_counts(sass, traffic)).total("shared", write=False)
    in_code = sum(i.kind.startswith("lds") for i in sass.instructions) * 8 * STEPS / depth
    assert loads.requests == pytest.approx(in_code, rel=0.02)
    a = b = 8 * STEPS * 2  # requests of 8 warps for 8 values of A and 8 of B in each step
    assert loads.wavefronts == pytest.approx(a + 4 * b, rel=0.1)


POLYNOMIAL = ("MOV R1, c[0x0][0x210]", "FFMA R2, R2, R3, R4", "FFMA R2, R2, R3, R4", "@P0 BRA 0x10", "EXIT")


def test_a_loop_without_accesses_makes_up_for_missing_arithmetic() -> None:
    sass = code(*POLYNOMIAL)
    counts = Counts({0: 1.0}, (1.0,) * len(sass.blocks))
    work = conserved(sass, counts, needed=64.0)
    assert work.counts.loops == {0: 32.0} and work.scaled == 32 and work.share == 1
    assert executed(sass, work.counts)["fp32_fma"] == 64


def test_enough_arithmetic_is_left_alone() -> None:
    sass = code(*POLYNOMIAL)
    counts = Counts({0: 40.0}, (1.0, 40.0, 1.0)[: len(sass.blocks)])
    work = conserved(sass, counts, needed=64.0)
    assert work.counts is counts and work.scaled == 1 and work.share > 1


def test_straight_code_that_falls_short_is_reported() -> None:
    sass = code("FADD R1, R1, R2", "EXIT")
    work = conserved(sass, Counts({}, (1.0,)), needed=4.0)
    assert work.scaled == 1 and work.share == pytest.approx(0.25)


def test_a_shortened_product_is_repaired() -> None:
    sass, traffic = tiled(64, 16, (16, 16))
    right = trip_counts(sass, traffic)
    (main,) = (i for i, x in enumerate(sass.loops) if x.mix["fp32_fma"] > 100)
    inside = set(sass.loops[main].blocks)
    halved = replace(
        right,
        loops={main: right.loops[main] / 2},
        blocks=tuple(t / 2 if n in inside else t for n, t in enumerate(right.blocks)),
    )
    work = conserved(sass, halved, needed=STEPS * 16)
    assert work.scaled == pytest.approx(2, rel=0.01)
    assert work.counts.loops[main] == pytest.approx(right.loops[main], rel=0.01)
