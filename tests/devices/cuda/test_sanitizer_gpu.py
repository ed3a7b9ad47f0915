"""compute-sanitizer on a GPU: one planted fault a kernel is found by its tool, a clean kernel by none."""

from __future__ import annotations

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.cuda.alone import Run, find
from evolve.devices.cuda.sanitizer import TOOLS, sanitize
from evolve.search.devices import has_gpu
from tests.devices.cuda.on_gpu import image

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu(), reason="needs a CUDA GPU and PyCUDA"),
    pytest.mark.skipif(find("compute-sanitizer") is None, reason="needs compute-sanitizer"),
]

N = 1000
TEXT = """
#define KERNEL(name) extern "C" __global__ void name(const float* x, float* y, int n)
#define I (blockIdx.x * blockDim.x + threadIdx.x)
KERNEL(clean) {
    __shared__ float s[128];
    s[threadIdx.x] = I < n ? x[I] : 0.0f;
    __syncthreads();
    if (I < n) y[I] = s[127 - threadIdx.x];
}
KERNEL(racy) {
    __shared__ float s[128];
    s[threadIdx.x] = I < n ? x[I] : 0.0f;
    if (I < n) y[I] = s[127 - threadIdx.x];
}
KERNEL(out_of_bounds) { if (I < n + 3) y[I] = 1.0f; }
KERNEL(reads_past_the_end) { if (I < n) y[I] = x[I] + 0.0f * x[I + 1]; }
KERNEL(uninitialised) { if (I < n) y[I] += x[I]; }
KERNEL(diverges) {
    if (threadIdx.x & 1) __syncthreads();
    if (I < n) y[I] = x[I];
}
"""
EXPECTED = {
    "clean": None,
    "racy": "racecheck",
    "out_of_bounds": "memcheck",
    "reads_past_the_end": "memcheck",
    "uninitialised": "initcheck",
    "diverges": "synccheck",
}
LINES = {
    "racy": (12, 13),
    "out_of_bounds": (15,),
    "reads_past_the_end": (16,),
    "uninitialised": (17,),
    "diverges": (19,),
}


@pytest.mark.parametrize("kernel", EXPECTED)
def test_planted_faults_are_found_and_a_clean_kernel_is_clean(kernel: str) -> None:
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", N))
    one = ConcreteLaunch(kernel, args, (8, 1, 1), (128, 1, 1))
    x = np.arange(N, dtype=np.float32)
    tool = EXPECTED[kernel]
    tools = TOOLS if tool is None else (tool,)
    got = sanitize(image(TEXT), [Run((one,), {"x": x, "y": 4 * N})], tools=tools)
    print(got)
    assert not got.unjudged or got.findings
    if tool is None:
        assert got.state == "clean"
        return
    assert got.state == "found" and got.findings[0].kernel == kernel
    if kernel in LINES:
        assert got.findings[0].line in LINES[kernel]
