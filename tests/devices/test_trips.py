"""How often loops run, where the accesses alone mislead."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.compiled import as_compiled
from evolve.devices.estimate import Estimate
from evolve.devices.sampled import estimate_at, sampled_traffic
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.tracing import TraceBuffer
from evolve.devices.traffic import Traffic
from evolve.devices.trips import Counts, trip_counts
from evolve.devices.work import conserved, executed
from evolve.target.profile import load_profile
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import Sass, disassemble
from tests.devices.test_chain import code
from tests.devices.tiled_matmul import text

SIZE, STEPS = 256, 512


def launch(tile: int, block: tuple[int, int], sizes: tuple[int, int, int]) -> ConcreteLaunch:
    scalars = (ScalarArg(n, "i32", v) for n, v in zip("MNK", sizes, strict=True))
    grid = (sizes[1] // tile, sizes[0] // tile, 1)
    return ConcreteLaunch("tiled", (*map(BufferArg, "ABC"), *scalars), grid, (*block, 1))


def buffers(sizes: tuple[int, int, int]) -> dict[str, TraceBuffer]:
    m, n, k = sizes
    return {name: TraceBuffer("float32", count) for name, count in (("A", m * k), ("B", k * n), ("C", m * n))}


@cache
def tiled(tile: int, depth: int, block: tuple[int, int]) -> tuple[Sass, Traffic]:
    source = text(tile, depth, block)
    compiled = compile_cuda(source, "sm_90", [LINE_INFO])
    assert compiled.cubin is not None, compiled.log
    sizes = (SIZE, SIZE, STEPS)
    program = compile_host(source, ["tiled"])
    traffic = sampled_traffic(program, launch(tile, block, sizes), buffers(sizes), in_flight=1)
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


MEASURED: dict[str, float] = json.loads(Path(__file__).with_name("h200_times.json").read_text())[
    "tiled_matmul_4096"
]


@cache
def at_full_size(name: str) -> Estimate:
    tile, depth = (int(x) for x in name.split("x"))
    source = text(tile, depth)
    compiled = compile_cuda(source, "sm_90", [LINE_INFO])
    assert compiled.cubin is not None
    n = 4096
    (estimate,) = estimate_at(
        load_profile("h200-sxm"),
        compile_host(source, ["tiled"]),
        {"K": n},
        lambda sizes: (0, [launch(tile, (16, 16), (n, n, int(sizes["K"])))]),
        lambda sizes: buffers((n, n, int(sizes["K"]))),
        read_cubin(compiled.cubin).kernels,
        disassemble([compiled.cubin])[0],
        footprint=(8 * n * n, 4 * n * n),
        work=float(n**3),
    )
    return estimate


@pytest.mark.parametrize("name", MEASURED)
def test_products_through_tiles_take_what_was_measured(name: str) -> None:
    e = at_full_size(name)
    assert e.time_s == pytest.approx(MEASURED[name], rel=0.25)
    assert e.facts["trips_scaled"] == 1 and e.facts["arithmetic_share"] == pytest.approx(1, rel=0.01)


def test_products_through_tiles_rank_as_measured() -> None:
    times = [at_full_size(name).time_s for name in sorted(MEASURED, key=lambda n: MEASURED[n])]
    assert times == sorted(times)


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
