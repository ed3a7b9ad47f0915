"""Sampling: neighbouring blocks, and counts extended from smaller sizes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices import sampled
from evolve.devices.estimate import Estimate
from evolve.devices.sampled import Sizes, estimate_at, sampled_traffic
from evolve.devices.sim.build import HostProgram, compile_host
from evolve.devices.sim.tracing import TraceBuffer
from evolve.target.profile import load_profile
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import disassemble

H200 = load_profile("h200-sxm")
ROWS = """
extern "C" __global__ void rows(const float* x, float* y, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float t = 0.0f;
    for (int c = 0; c < cols; ++c) t += x[r * cols + c];
    for (int c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] / t;
}
"""
SIZES = {"rows": 4096, "cols": 4096}


def launches(sizes: Sizes) -> tuple[int, Sequence[ConcreteLaunch]]:
    rows, cols = int(sizes["rows"]), int(sizes["cols"])
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("rows", "i32", rows), ScalarArg("cols", "i32", cols))
    return 0, [ConcreteLaunch("rows", args, (-(-rows // 128), 1, 1), (128, 1, 1))]


def fixed_columns(sizes: Sizes) -> tuple[int, Sequence[ConcreteLaunch]]:
    """As if the variant were only for these columns."""
    return (0 if sizes["cols"] == SIZES["cols"] else -1), launches(sizes)[1]


def buffers(sizes: Sizes) -> dict[str, TraceBuffer]:
    n = int(sizes["rows"]) * int(sizes["cols"])
    return {"x": TraceBuffer("float32", n), "y": TraceBuffer("float32", n)}


@pytest.fixture(scope="module")
def program() -> HostProgram:
    return compile_host(ROWS, ["rows"])


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The elements of the arrays of each trace that is made."""
    seen: list[int] = []
    real = sampled.trace

    def spy(program, launch_list, arrays, blocks):  # type: ignore[no-untyped-def]
        seen.append(arrays["x"].elements)
        return real(program, launch_list, arrays, blocks)

    monkeypatch.setattr(sampled, "trace", spy)
    return seen


def run(program: HostProgram, at: sampled.LaunchesAt) -> Estimate:
    compiled = compile_cuda(ROWS, "sm_90", [LINE_INFO])
    assert compiled.cubin is not None
    kernels, sass = read_cubin(compiled.cubin).kernels, disassemble([compiled.cubin])[0]
    (e,) = estimate_at(H200, program, SIZES, at, buffers, kernels, sass, (4096**2 * 4, 4096**2 * 4))
    return e


def test_smaller_sizes_tell_the_same(program: HostProgram, traced: list[int]) -> None:
    extended = run(program, launches)
    assert max(traced) == 4096 * 4096 // 16
    whole = run(program, fixed_columns)
    assert max(traced) == 4096 * 4096
    assert extended.time_s == pytest.approx(whole.time_s, rel=0.02)
    for name, t in whole.terms.items():
        assert extended.terms[name] == pytest.approx(t, rel=0.05, abs=1e-6), name


def test_a_size_that_sets_the_grid_is_not_made_smaller(program: HostProgram, traced: list[int]) -> None:
    run(program, launches)
    assert all(n % 4096 == 0 for n in traced)  # 4096 rows in each


def test_cheap_blocks_are_traced_together(program: HostProgram) -> None:
    small = {"rows": 4096, "cols": 16}
    launch = launches(small)[1][0]
    assert sampled_traffic(program, launch, buffers(small), 1000).sampled == 32
    assert sampled_traffic(program, launch, buffers(small), 5).sampled == 5
    assert sampled_traffic(program, launch, buffers(small), 1000, accesses=100).sampled == 1
