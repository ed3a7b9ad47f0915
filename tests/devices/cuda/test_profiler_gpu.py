"""Nsight Compute on a GPU: a copy is memory-bound, a chain of sines is not. Skips where it is not allowed."""

from __future__ import annotations

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.cuda.alone import Run, find
from evolve.devices.cuda.profiler import Unavailable, profile
from evolve.search.devices import has_gpu
from evolve.sol.counters import Counters
from tests.devices.cuda.on_gpu import image

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu(), reason="needs a CUDA GPU and PyCUDA"),
    pytest.mark.skipif(find("ncu") is None, reason="needs Nsight Compute"),
]

N = 1 << 25
TEXT = """
#define KERNEL(name) extern "C" __global__ void name(const float* x, float* y, int n)
#define I (blockIdx.x * blockDim.x + threadIdx.x)
KERNEL(copies) { if (I < n / 4) ((float4*)y)[I] = ((const float4*)x)[I]; }
KERNEL(computes) {
    float v = x[I];
    for (int k = 0; k < 500; k++) v = fmaf(v, 1.0001f, 0.5f);
    if (I < n) y[I] = v;
}
KERNEL(conflicts) {
    __shared__ float s[32 * 32];
    const int row = threadIdx.x % 32;
    float v = 0.0f;
    for (int k = 0; k < 32; k++) s[row * 32 + k] = x[I];
    __syncthreads();
    for (int k = 0; k < 32; k++) v += s[row * 32 + k];
    if (I < n) y[I] = v;
}
"""


def counters(kernel: str) -> Counters:
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", N))
    threads = N // 4 if kernel == "copies" else N
    one = ConcreteLaunch(kernel, args, (threads // 256, 1, 1), (256, 1, 1))
    got = profile(image(TEXT), Run((one,), {"x": np.ones(N, np.float32), "y": 4 * N}))
    print(kernel, got)
    if isinstance(got, Unavailable):
        assert got.kind == "not permitted", got.message
        pytest.skip(got.message)
    return got


def test_a_copy_is_memory_bound_and_moves_what_it_must() -> None:
    got = counters("copies")
    assert got.memory > 0.6 > got.compute
    assert got.dram_read == pytest.approx(4 * N, rel=0.1)
    assert got.waves is not None and got.waves > 10 and got.limited_by


def test_arithmetic_is_compute_bound() -> None:
    got = counters("computes")
    assert got.compute > 0.6 and got.compute > got.memory + 0.1


def test_bank_conflicts_are_counted() -> None:
    got = counters("conflicts")
    assert got.conflict_free is not None and got.conflict_free < 0.5
