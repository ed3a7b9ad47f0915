"""Trips of machine loops from executed accesses per source line."""

from __future__ import annotations

import pytest

from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import Sass, disassemble
from evolve.toolchain.trips import loop_trips


def of(text: str, *options: str) -> Sass:
    result = compile_cuda(text, options=[LINE_INFO, *options])
    assert result.cubin is not None, result.log
    (found,) = disassemble([result.cubin])[0].values()
    return found


SUM = """
extern "C" __global__ void k(const float *x, float *y, int n) {
    float s = 0;
    for (int i = 0; i < n; i++)
        s += x[i];
    y[0] = s;
}
"""

NEST = """
extern "C" __global__ void k(const float *x, float *y, int n, int m) {
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        float s = 0;
#pragma unroll 4
        for (int j = 0; j < m; j++)
            s += x[i * m + j];
        y[i] = s;
    }
}
"""

COPY_NEST = """
extern "C" __global__ void k(const float *x, float *y, int n, int m) {
#pragma unroll 1
    for (int i = 0; i < n; i++)
#pragma unroll 1
        for (int j = 0; j < m; j++)
            y[i * m + j] = x[j];
}
"""


@pytest.mark.parametrize("n", [1, 2, 3, 5, 17, 100, 1023, 8192])
def test_an_unrolled_loop_and_its_remainder_share_the_iterations(n: int) -> None:
    kernel = of(SUM)
    assert len(kernel.loops) > 1  # the compiler did split it
    trips = loop_trips(kernel, {(5, "ldg"): n, (6, "stg"): 1})
    in_loops = sum(loop.mix["ldg_32"] * trips[i] for i, loop in enumerate(kernel.loops))
    assert in_loops == pytest.approx(n)
    most = max(range(len(kernel.loops)), key=lambda i: kernel.loops[i].mix["ldg_32"])
    assert trips[most] == n // int(kernel.loops[most].mix["ldg_32"])
    assert all(t == int(t) for t in trips.values())


@pytest.mark.parametrize(("n", "m"), [(3, 8), (10, 7), (5, 4096)])
def test_a_nest_multiplies(n: int, m: int) -> None:
    kernel = of(NEST)
    trips = loop_trips(kernel, {(8, "ldg"): n * m, (9, "stg"): n})
    executed = kernel.weigh(trips)
    assert executed["stg_32"] == n
    assert executed["ldg_32"] == pytest.approx(n * m)
    inner = next(i for i, loop in enumerate(kernel.loops) if loop.depth == 2)
    outer = kernel.loops[inner].parent
    assert outer is not None
    assert trips[outer] == n
    assert trips[inner] == pytest.approx(m / 4, abs=1)


def test_an_outer_loop_without_accesses_leaves_the_product_right() -> None:
    kernel = of(COPY_NEST)
    executed = kernel.weigh(loop_trips(kernel, {(7, "ldg"): 600, (7, "stg"): 600}))
    assert executed["stg_32"] == pytest.approx(600)


def test_fractions_and_unknown_lines() -> None:
    kernel = of(SUM)
    trips = loop_trips(kernel, {(5, "ldg"): 10.5, (999, "ldg"): 7})
    in_loops = sum(loop.mix["ldg_32"] * trips[i] for i, loop in enumerate(kernel.loops))
    assert in_loops == pytest.approx(10.5)
    assert loop_trips(kernel, {}) == dict.fromkeys(range(len(kernel.loops)), 1.0)


def test_without_line_information_every_loop_runs_once() -> None:
    result = compile_cuda(SUM)
    assert result.cubin is not None
    (kernel,) = disassemble([result.cubin])[0].values()
    assert set(loop_trips(kernel, {(5, "ldg"): 100}).values()) == {1.0}
