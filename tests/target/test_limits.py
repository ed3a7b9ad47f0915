"""Occupancy and launch limits, against values of NVIDIA's occupancy calculator."""

from __future__ import annotations

import pytest

from evolve.codegen.shared import SharedArray, offsets
from evolve.ir.errors import EvolveError
from evolve.ir.types import DType
from evolve.target.limits import occupancy, shared_bytes
from evolve.target.profile import load_profile


@pytest.mark.parametrize(
    ("stem", "registers", "shared", "threads", "blocks", "limiter"),
    [
        ("h200-sxm", 32, 0, 256, 8, "threads"),
        ("h200-sxm", 32, 0, 1024, 2, "threads"),
        ("h200-sxm", 33, 0, 1024, 1, "registers"),  # 33 rounds up to 40
        ("h200-sxm", 64, 0, 1024, 1, "registers"),
        ("h200-sxm", 65, 0, 1024, 0, "too-large"),
        ("h200-sxm", 128, 33280, 256, 2, "registers"),
        ("h200-sxm", 16, 0, 32, 32, "blocks"),
        ("h200-sxm", 16, 232448, 128, 1, "shared"),
        ("h200-sxm", 16, 232449, 128, 0, "too-large"),
        ("h200-sxm", 32, 48 * 1024, 128, 4, "shared"),  # 49 KB each with the system's
        ("h200-sxm", 255, 0, 256, 1, "registers"),
        ("h200-sxm", 256, 0, 32, 0, "too-large"),
        ("h200-sxm", 80, 0, 96, 8, "registers"),
        ("t4", 32, 32 * 1024, 256, 2, "shared"),
        ("t4", 64, 0, 1024, 1, "threads"),
        ("rtx-4090", 40, 0, 256, 6, "threads"),
        ("v100-sxm2", 16, 96 * 1024, 64, 1, "shared"),  # no kilobyte for the system before 8.0
        ("h200-sxm", 16, 0, 33, 32, "threads"),  # 33 threads take two warps; 32 blocks both ways
    ],
)
def test_occupancy(stem: str, registers: int, shared: int, threads: int, blocks: int, limiter: str) -> None:
    gpu = load_profile(stem)
    found = occupancy(gpu, registers, shared, threads)
    assert (found.blocks_per_sm, found.limiter) == (blocks, limiter)
    warps = -(-threads // 32)
    assert found.warps_per_sm == blocks * warps
    assert found.fraction == pytest.approx(blocks * warps * 32 / gpu.limits.threads_per_sm)


def test_more_of_anything_never_raises_occupancy() -> None:
    gpu = load_profile("h200-sxm")
    for threads in (32, 96, 128, 256, 384, 512, 1024):
        for shared in (0, 5000, 60000):
            counts = [occupancy(gpu, r, shared, threads).blocks_per_sm for r in range(16, 256)]
            assert counts == sorted(counts, reverse=True)
        counts = [occupancy(gpu, 32, s, threads).blocks_per_sm for s in range(0, 240_000, 1000)]
        assert counts == sorted(counts, reverse=True)


def test_another_vendor_has_no_occupancy_model() -> None:
    with pytest.raises(EvolveError) as caught:
        occupancy(load_profile("mi300x"), 32, 0, 256)
    assert caught.value.code == "no-occupancy-model"


@pytest.mark.parametrize(("registers", "shared", "threads"), [(-1, 0, 32), (1, -1, 32), (1, 0, 0)])
def test_impossible_needs_are_refused(registers: int, shared: int, threads: int) -> None:
    with pytest.raises(ValueError, match="at least"):
        occupancy(load_profile("t4"), registers, shared, threads)


def test_arrays_in_shared_memory_begin_where_a_vector_may() -> None:
    """As `codegen.shared` lays them out, but that the last one is rounded up too."""
    arrays = [
        SharedArray("a", DType.U8, (4,)),
        SharedArray("b", DType.F32, (5,)),
        SharedArray("c", DType.F32, (4,)),
    ]
    assert offsets(arrays) == ((0, 16, 48), 64)
    assert shared_bytes(a.nbytes for a in arrays) == 64
    assert shared_bytes([1]) == 16 and shared_bytes([]) == 0
