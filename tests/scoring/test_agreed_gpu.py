"""The driver of a real GPU sees what images of all kinds say, so that no honest kernel is set aside."""

from __future__ import annotations

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import Execute, SetArrays
from evolve.scoring.agreed import seen_otherwise
from evolve.search.devices import choose_device, has_gpu
from evolve.toolchain.nvrtc import compile_cuda

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_gpu(), reason="needs a CUDA GPU and PyCUDA")]

TEXT = """
#define KERNEL(name) extern "C" __global__ void name(float* x)
#define I (blockIdx.x * blockDim.x + threadIdx.x)
__constant__ float table[40];
extern __shared__ float dynamic[];
__device__ __noinline__ float apart(float a, const float* x) { return a + sinf(x[(int)a]); }
KERNEL(plain) { x[I] += 1.0f; }
KERNEL(slow_path) { x[I] = sinf(x[I]) + cosf(x[I]) + tanf(x[I]); }
KERNEL(special) { x[I] = expf(x[I]) + tanhf(x[I]) + powf(x[I], 1.7f) + erff(x[I]); }
KERNEL(doubles) { double a = x[I]; x[I] = (float)(a / (a + 3.0) + sqrt(a) + exp(a) + sin(a) + pow(a, 0.3)); }
KERNEL(integers) { unsigned a = x[I]; x[I] = (float)(a % 7919u + a / (a + 3u)) + (long long)x[I] % 103ll; }
KERNEL(calls) { float a[3] = {x[1], x[2], x[I]}; x[I] = apart(apart(x[I], a), x); }
KERNEL(local) { float a[200]; for (int i = 0; i < 200; ++i) a[i] = x[i]; x[I] = a[(int)x[I] % 200]; }
KERNEL(constants) { x[I] = table[threadIdx.x % 40]; }
KERNEL(shared) { __shared__ float s[999]; s[threadIdx.x] = x[I]; __syncthreads(); x[I] = s[threadIdx.x / 2]; }
KERNEL(opted_in) { dynamic[threadIdx.x] = x[I]; __syncthreads(); x[I] = dynamic[threadIdx.x ^ 1]; }
extern "C" __global__ void __launch_bounds__(96) bounded(float* x) { x[I] = sinf(x[I]); }
extern "C" __global__ void __launch_bounds__(1024, 2) squeezed(float* x) {
    float a[60];
#pragma unroll
    for (int i = 0; i < 60; ++i) a[i] = x[I + i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 60; ++i) x[I + i] = a[i] * a[59 - i];
}
"""
NAMES = (
    *("plain", "slow_path", "special", "doubles", "integers", "calls", "local", "constants", "shared"),
    *("bounded", "squeezed"),
)
SHARED = (0, 40_000, 49_152, 49_153, 100_000, 200_000)


def launch(kernel: str, threads: int, shared_bytes: int = 0) -> ConcreteLaunch:
    return ConcreteLaunch(kernel, (BufferArg("x"),), (2, 1, 1), (threads, 1, 1), shared_bytes)


def test_every_kind_of_kernel_is_seen_alike() -> None:
    profile = choose_device("cuda")[1]
    worker = CudaWorker(0)
    try:
        built = compile_cuda(TEXT, worker.info.arch)
        assert built.cubin is not None, built.log
        launches = [launch(name, threads) for name in NAMES for threads in (1, 32, 96)]
        launches += [launch(name, 1024) for name in ("plain", "shared", "squeezed")]
        launches += [launch("opted_in", threads, n) for n in SHARED for threads in (32, 256)]
        said = {str(one): seen_otherwise(worker, built.cubin, (one,), profile) for one in launches}
        assert {one: what for one, what in said.items() if what} == {}
        worker.set_arrays(SetArrays("x", {"x": np.ones(4096, np.float32)}))
        for bytes_ in SHARED[1:]:
            one = (launch("opted_in", 32, bytes_),)
            done = worker.execute(Execute(built.cubin, one, "x", ("x",), ("x",)))
            assert done.error is None, (bytes_, done.error)
    finally:
        worker.close()
