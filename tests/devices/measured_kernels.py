"""Kernels with known times on an H200 (boost clocks, cold L2), in our own words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evolve.codegen.launch import BufferArg, ConcreteLaunch, Dim3, ScalarArg

N = 8192
MATRIX = N * N * 4


@dataclass(frozen=True)
class Case:
    """`low` and `high`: measured seconds. `footprint`: bytes read and written by the whole launch."""

    name: str
    text: str
    launch: ConcreteLaunch
    elements: dict[str, int]
    footprint: tuple[int, int]
    low: float
    high: float


def _launch(kernel: str, buffers: str, sizes: dict[str, int], grid: Dim3, block: Dim3) -> ConcreteLaunch:
    args = tuple(BufferArg(b) for b in buffers.split())
    return ConcreteLaunch(kernel, (*args, *(ScalarArg(n, "i32", v) for n, v in sizes.items())), grid, block)


COPY = """
extern "C" __global__ void copy4(const float* __restrict__ x, float* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
extern "C" __global__ void copy16(const float* __restrict__ x, float* __restrict__ y, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i < n) {
        float4 v = *reinterpret_cast<const float4*>(x + i);
        *reinterpret_cast<float4*>(y + i) = v;
    }
}
"""

NAIVE_SOFTMAX = """
extern "C" __global__ void naive_softmax(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float m = x[row * cols];
        for (int c = 1; c < cols; ++c)
            m = fmaxf(m, x[row * cols + c]);
        float s = 0.0f;
        for (int c = 0; c < cols; ++c)
            s += expf(x[row * cols + c] - m);
        for (int c = 0; c < cols; ++c)
            y[row * cols + c] = expf(x[row * cols + c] - m) / s;
    }
}
"""


def row_softmax(threads: int, vectors: int) -> str:
    """One block a row of threads * vectors * 4 columns; each thread keeps its part in registers."""
    return f"""
#define T {threads}
#define V {vectors}
extern "C" __global__ void __launch_bounds__(T) row_softmax(const float* __restrict__ x,
                                                            float* __restrict__ y, int rows) {{
    __shared__ float part[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float* from = x + blockIdx.x * (T * V * 4);
    float* to = y + blockIdx.x * (T * V * 4);
    float v[V * 4];
#pragma unroll
    for (int k = 0; k < V; ++k) {{
        float4 q = *reinterpret_cast<const float4*>(from + (k * T + threadIdx.x) * 4);
        v[4 * k] = q.x; v[4 * k + 1] = q.y; v[4 * k + 2] = q.z; v[4 * k + 3] = q.w;
    }}
    float m = v[0];
#pragma unroll
    for (int i = 1; i < V * 4; ++i) m = fmaxf(m, v[i]);
#pragma unroll
    for (int d = 16; d > 0; d /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
    if (lane == 0) part[warp] = m;
    __syncthreads();
    m = part[lane % (T / 32)];
#pragma unroll
    for (int d = 16; d > 0; d /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
    float s = 0.0f;
#pragma unroll
    for (int i = 0; i < V * 4; ++i) {{
        v[i] = __expf(v[i] - m);
        s += v[i];
    }}
#pragma unroll
    for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
    __syncthreads();
    if (lane == 0) part[warp] = s;
    __syncthreads();
    s = lane < T / 32 ? part[lane] : 0.0f;
#pragma unroll
    for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
    float r = 1.0f / s;
#pragma unroll
    for (int k = 0; k < V; ++k) {{
        float4 q;
        q.x = v[4 * k] * r; q.y = v[4 * k + 1] * r; q.z = v[4 * k + 2] * r; q.w = v[4 * k + 3] * r;
        *reinterpret_cast<float4*>(to + (k * T + threadIdx.x) * 4) = q;
    }}
}}
"""


TRANSPOSE = """
extern "C" __global__ void transpose32(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ float tile[32][33];
    int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 32; k += 8)
        tile[threadIdx.y + k][threadIdx.x] = x[(row + k) * n + col];
    __syncthreads();
    row = blockIdx.x * 32 + threadIdx.y;
    col = blockIdx.y * 32 + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 32; k += 8)
        y[(row + k) * n + col] = tile[threadIdx.x][threadIdx.y + k];
}
extern "C" __global__ void __launch_bounds__(256) transpose64(const float* __restrict__ x,
                                                              float* __restrict__ y, int n) {
    __shared__ float tile[64][65];
    int c = (int)threadIdx.x % 16 * 4, r = (int)threadIdx.x / 16;
    int bx = (int)blockIdx.x, by = (int)blockIdx.y;
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
        float4 q = *reinterpret_cast<const float4*>(x + (by * 64 + r + k) * n + bx * 64 + c);
        tile[r + k][c] = q.x; tile[r + k][c + 1] = q.y; tile[r + k][c + 2] = q.z; tile[r + k][c + 3] = q.w;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
        float4 q;
        q.x = tile[c][r + k]; q.y = tile[c + 1][r + k]; q.z = tile[c + 2][r + k]; q.w = tile[c + 3][r + k];
        *reinterpret_cast<float4*>(y + (bx * 64 + r + k) * n + by * 64 + c) = q;
    }
}
"""

SGEMM = """
extern "C" __global__ void __launch_bounds__(256, 2) sgemm(const float* __restrict__ A,
                                                           const float* __restrict__ B,
                                                           float* __restrict__ C, int n) {
    __shared__ float as[2][16][132];
    __shared__ float bs[2][16][128];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    int ar = threadIdx.x / 4, ak = threadIdx.x % 4 * 4, bk = threadIdx.x / 32, bc = threadIdx.x % 32 * 4;
    const float* a = A + (blockIdx.y * 128 + ar) * n + ak;
    const float* b = B + bk * n + blockIdx.x * 128 + bc;
    float sum[8][8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] = 0.0f;
    float4 a0 = *reinterpret_cast<const float4*>(a), a1 = *reinterpret_cast<const float4*>(a + 64 * n);
    float4 b0 = *reinterpret_cast<const float4*>(b), b1 = *reinterpret_cast<const float4*>(b + 8 * n);
    int at = 0;
    for (int k = 0; k < n; k += 16) {
        as[at][ak][ar] = a0.x; as[at][ak + 1][ar] = a0.y;
        as[at][ak + 2][ar] = a0.z; as[at][ak + 3][ar] = a0.w;
        as[at][ak][ar + 64] = a1.x; as[at][ak + 1][ar + 64] = a1.y;
        as[at][ak + 2][ar + 64] = a1.z; as[at][ak + 3][ar + 64] = a1.w;
        *reinterpret_cast<float4*>(&bs[at][bk][bc]) = b0;
        *reinterpret_cast<float4*>(&bs[at][bk + 8][bc]) = b1;
        __syncthreads();
        if (k + 16 < n) {
            a += 16;
            b += 16 * n;
            a0 = *reinterpret_cast<const float4*>(a);
            a1 = *reinterpret_cast<const float4*>(a + 64 * n);
            b0 = *reinterpret_cast<const float4*>(b);
            b1 = *reinterpret_cast<const float4*>(b + 8 * n);
        }
#pragma unroll
        for (int q = 0; q < 16; ++q) {
            float4 u0 = *reinterpret_cast<float4*>(&as[at][q][ty * 4]);
            float4 u1 = *reinterpret_cast<float4*>(&as[at][q][64 + ty * 4]);
            float4 w0 = *reinterpret_cast<float4*>(&bs[at][q][tx * 4]);
            float4 w1 = *reinterpret_cast<float4*>(&bs[at][q][64 + tx * 4]);
            float u[8] = {u0.x, u0.y, u0.z, u0.w, u1.x, u1.y, u1.z, u1.w};
            float w[8] = {w0.x, w0.y, w0.z, w0.w, w1.x, w1.y, w1.z, w1.w};
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) sum[i][j] += u[i] * w[j];
        }
        at = 1 - at;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int row = blockIdx.y * 128 + (i < 4 ? ty * 4 + i : 60 + ty * 4 + i);
        float4 q0, q1;
        q0.x = sum[i][0]; q0.y = sum[i][1]; q0.z = sum[i][2]; q0.w = sum[i][3];
        q1.x = sum[i][4]; q1.y = sum[i][5]; q1.z = sum[i][6]; q1.w = sum[i][7];
        *reinterpret_cast<float4*>(C + row * n + blockIdx.x * 128 + tx * 4) = q0;
        *reinterpret_cast<float4*>(C + row * n + blockIdx.x * 128 + 64 + tx * 4) = q1;
    }
}
"""

GIB = 1 << 28
"""Elements of the copies: 1 GiB each way."""


def _copy(name: str, lane: int, rate: float) -> Case:
    return Case(
        name,
        COPY,
        _launch(name, "x y", {"n": GIB}, (GIB // lane // 256, 1, 1), (256, 1, 1)),
        {"x": GIB, "y": GIB},
        (4 * GIB, 4 * GIB),
        8 * GIB / rate,
        8 * GIB / rate,
    )


def _square(
    name: str,
    text: str,
    sizes: dict[str, int],
    grid: Dim3,
    block: Dim3,
    low: float,
    high: float,
) -> Case:
    launch = _launch(name, "x y", sizes, grid, block)
    return Case(name, text, launch, {"x": N * N, "y": N * N}, (MATRIX, MATRIX), low, high)


CASES: dict[str, Callable[[], Case]] = {
    "naive_softmax": lambda: _square(
        "naive_softmax", NAIVE_SOFTMAX, {"rows": N, "cols": N}, (32, 1, 1), (256, 1, 1), 5.24e-3, 5.24e-3
    ),
    "row_softmax": lambda: _square(
        "row_softmax", row_softmax(512, 4), {"rows": N}, (N, 1, 1), (512, 1, 1), 0.133e-3, 0.133e-3
    ),
    "transpose32": lambda: _square(
        "transpose32", TRANSPOSE, {"n": N}, (256, 256, 1), (32, 8, 1), 0.146e-3, 0.151e-3
    ),
    "transpose64": lambda: _square(
        "transpose64", TRANSPOSE, {"n": N}, (128, 128, 1), (256, 1, 1), 0.136e-3, 0.136e-3
    ),
    "copy4": lambda: _copy("copy4", 1, 2.69e12),
    "copy16": lambda: _copy("copy16", 4, 4.04e12),
    "sgemm": lambda: Case(
        "sgemm",
        SGEMM,
        _launch("sgemm", "A B C", {"n": 4096}, (32, 32, 1), (256, 1, 1)),
        {"A": 4096**2, "B": 4096**2, "C": 4096**2},
        (8 * 4096**2, 4 * 4096**2),
        3.21e-3,
        3.21e-3,
    ),
}
