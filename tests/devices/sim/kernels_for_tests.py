"""Device text and runs that the execution tests share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, Execution, execute
from evolve.toolchain.host_cxx import HostCompiler

ALL = ("forward", "reversed", "permuted")

SOFTMAX = """\
#include <cuda_runtime.h>
#define B 128
extern "C" __global__ void __launch_bounds__(B)
softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  __shared__ float s[B];
  int r = blockIdx.x, t = threadIdx.x;
  float m = -INFINITY;
  for (int c = t; c < cols; c += blockDim.x) m = fmaxf(m, x[r * cols + c]);
  s[t] = m;
  __syncthreads();
  for (int o = B / 2; o > 0; o >>= 1) {
    if (t < o) s[t] = fmaxf(s[t], s[t + o]);
    __syncthreads();
  }
  m = s[0];
  __syncthreads();
  float a = 0;
  for (int c = t; c < cols; c += blockDim.x) a += __expf(x[r * cols + c] - m);
  s[t] = a;
  __syncthreads();
  for (int o = B / 2; o > 0; o >>= 1) {
    if (t < o) s[t] += s[t + o];
    __syncthreads();
  }
  a = s[0];
  for (int c = t; c < cols; c += blockDim.x) y[r * cols + c] = __expf(x[r * cols + c] - m) / a;
}
"""


def run(
    cache: Path, compiler: HostCompiler, text: str, n_out: int = 64, block: int = 64, grid: int = 1,
    n_in: int = 64, options: ExecOptions | None = None,
) -> Execution:  # fmt: skip
    """Runs `k(const float* x, float* y, int n)`; x counts up from 1."""
    program = compile_host(text, ["k"], cache, compiler=compiler)
    x = np.arange(1, n_in + 1, dtype=np.float32)
    y = np.zeros(n_out, np.float32)
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", n_in))
    launch = ConcreteLaunch("k", args, (grid, 1, 1), (block, 1, 1))
    return execute(program, [launch], {"x": x, "y": y}, {"y"}, options or ExecOptions())


def kernel(body: str) -> str:
    """Line 1 is the head, so that body lines count from 2."""
    return (
        f'extern "C" __global__ void k(const float* x, float* y, int n) {{ int t = threadIdx.x;\n{body}\n}}\n'
    )
