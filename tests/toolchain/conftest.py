"""Kernels that several tests compile, compiled once."""

from __future__ import annotations

import pytest

from evolve.toolchain.nvrtc import compile_cuda

SOURCE = """
extern "C" __global__ void __launch_bounds__(256, 2)
row(const float *__restrict__ x, float *__restrict__ y, int n) {
    __shared__ float part[32];
    const float4 v = reinterpret_cast<const float4 *>(x)[blockIdx.x * 256 + threadIdx.x];
    float m = v.x + v.y + v.z + v.w;
    for (int o = 16; o; o >>= 1) m += __shfl_xor_sync(~0u, m, o);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = expf(m);
    __syncthreads();
    reinterpret_cast<float4 *>(y)[blockIdx.x * 256 + threadIdx.x] =
        make_float4(v.x * part[0], v.y * part[1], v.z * part[2], v.w * part[3]);
}

extern "C" __global__ void nest(float *x, int n) {
    float s = 0.0f;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        s += x[i];
#pragma unroll 1
        for (int j = 0; j < i; j++) s = fmaf(s, x[j], 2.0f);
        x[i] = s;
    }
#pragma unroll 1
    for (int i = 0; i < n; i++) x[2 * i] = sqrtf(x[i]) / s;
}

extern "C" __global__ void spill(float *x, int n) {
    float a[100];
    for (int i = 0; i < 100; i++) a[i] = x[i];
    for (int i = 0; i < 100; i++) a[x[i] > 3.0f ? i : 0] += x[i];
    x[0] = a[n];
}

__global__ void dynamic(double *x, unsigned char *b, int n) {
    extern __shared__ double s[];
    s[threadIdx.x] = x[threadIdx.x] * 2.0 + 1.0;
    __syncthreads();
    x[n] = s[n];
    b[threadIdx.x] = (unsigned char)(int)x[1];
}
"""

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")


def built(arch: str) -> bytes:
    result = compile_cuda(SOURCE, arch)
    assert result.ok, result.log
    assert result.cubin is not None
    return result.cubin


@pytest.fixture(scope="session")
def cubins() -> dict[str, bytes]:
    """The source above for each architecture."""
    return {arch: built(arch) for arch in ARCHS}
