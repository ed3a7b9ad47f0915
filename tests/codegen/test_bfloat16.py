"""Copies in bfloat16: rounded to nearest, ties to even, widened exactly, in vectors and shared memory too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.legality.verdict import Limits
from evolve.toolchain.nvrtc import compile_cuda
from tests.codegen.conftest import Runner

COPY = """
__global__ void work(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
"""
REGISTERS = "specialize(n % 4 == 0)\nsplit(i, 4)\nmine = stage(x, at=i.o, scope=register)\n"
SHARED = (
    "specialize(n % 128 == 0)\nsplit(i, 128)\nsplit(i.i, 4)\nbind(i.o, grid.x)\nbind(i.i.o, thread.x)\n"
    "mine = stage(x, at=i.o, scope=shared)\nsplit(mine.0, 4)\nbind(mine.0.o, thread.x)\n"
    "vectorize(mine.0.i, 4)\nvectorize(i.i.i, 4)\n"
)
PROGRAMS = {
    "registers": REGISTERS + "set_precision(mine, bf16)\nbind(i.o, grid.x)",
    "vectors in shared memory": SHARED + "set_precision(mine, bf16)",
}


def rendered(program: str, folder: Path) -> Rendered:
    file = folder / "work.cu"
    file.write_text(COPY)
    lifted = lift(file)
    limits = Limits(numerics="mixed")
    made = compile_program(Source(lifted.kernel, lifted.original), parse(program), limits)
    assert made.module is not None, made.diagnostics
    return render(made.module)


def nearest(x: np.ndarray) -> np.ndarray:
    """float32 rounded to 8 bits of significand, ties to even: by what lies between, not by bits."""
    bits = x.view(np.uint32)
    below = (bits & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    above = ((bits & np.uint32(0xFFFF0000)) + np.uint32(0x10000)).view(np.float32).astype(np.float64)
    above = np.where(np.isinf(above), np.sign(below) * 2.0**128, above)
    even = (bits >> 16) % 2 == 0
    exact = x.astype(np.float64)
    up = np.abs(above - exact) < np.abs(exact - below)
    tie = np.abs(above - exact) == np.abs(exact - below)
    return np.where(up | (tie & ~even), above, below).astype(np.float32)


def values() -> np.ndarray:
    """Ties, neighbours of ties, subnormal, huge and random numbers: 1024 of them."""
    rng = np.random.default_rng(0)
    ties = (np.arange(128, dtype=np.uint32) * 0x10000 + 0x3F808000).view(np.float32)
    near = np.concatenate([np.nextafter(ties, np.float32(s)) for s in (0, 10)])
    odd = np.array([0.0, -0.0, 1e-45, -1e-45, 1e-40, 9e-41, 3.4e38, -3.4028235e38], np.float32)
    rest = 1024 - ties.size - near.size - odd.size
    scaled = rng.standard_normal(rest) * 10.0 ** rng.integers(-38, 38, rest)
    return np.concatenate([ties, near, odd, scaled.astype(np.float32)])


@pytest.mark.parametrize("program", PROGRAMS)
def test_elements_are_the_nearest_of_8_bits(program: str, run_rendered: Runner, tmp_path: Path) -> None:
    x = values()
    arrays = {"x": x, "y": np.zeros_like(x)}
    with np.errstate(over="ignore"):
        want = nearest(x)
    out = run_rendered(rendered(PROGRAMS[program], tmp_path), arrays, {"n": x.size}, {"y"})["y"]
    np.testing.assert_array_equal(out, want)
    assert (out != x).mean() > 0.5


def test_infinities_and_nan_stay(run_rendered: Runner, tmp_path: Path) -> None:
    x = np.array([np.inf, -np.inf, np.nan, -np.nan], np.float32)
    arrays = {"x": x, "y": np.zeros_like(x)}
    out = run_rendered(rendered(PROGRAMS["registers"], tmp_path), arrays, {"n": 4}, {"y"})["y"]
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_every_architecture_compiles_it(architecture: str, tmp_path: Path) -> None:
    done = compile_cuda(rendered(PROGRAMS["vectors in shared memory"], tmp_path).text, architecture)
    assert done.ok, done.log
