"""More kernels that were timed on an H200: naive forms and common rewrites of them.

The times are in `h200_times.json`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evolve.codegen.launch import BufferArg, ConcreteLaunch, Dim3, ScalarArg

N = 8192
SQUARE = N * N
LONG = 1 << 27


@dataclass(frozen=True)
class Held:
    """A kernel, its launch, the elements (float32) of its buffers, bytes read and written in all."""

    text: str
    launch: ConcreteLaunch
    elements: dict[str, int]
    footprint: tuple[int, int]


_HEAD = 'extern "C" __global__ void '


def _make(
    name: str,
    body: str,
    buffers: dict[str, int],
    sizes: dict[str, int],
    grid: Dim3,
    block: Dim3,
    moved: tuple[int, int],
    before: str = "",
    bounds: str = "",
) -> Held:
    """`moved`: elements read and written. Buffers that are only read come first; the last one is written."""
    names = list(buffers)
    params = [f"const float* __restrict__ {n}" for n in names[:-1]] + [f"float* __restrict__ {names[-1]}"]
    params += [f"int {n}" for n in sizes]
    text = f"{before}\n{_HEAD}{bounds}{name}({', '.join(params)}) {{\n{body}\n}}\n"
    args = (*(BufferArg(n) for n in names), *(ScalarArg(n, "i32", v) for n, v in sizes.items()))
    launch = ConcreteLaunch(name, args, grid, block)
    return Held(text, launch, buffers, (4 * moved[0], 4 * moved[1]))


_XY = {"x": SQUARE, "y": SQUARE}
_RC = {"rows": N, "cols": N}
_I = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
_GELU = """__device__ __forceinline__ float gelu_of(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}"""

_WARP_SUM = """__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
    return v;
}"""


def _tiled_matmul(name: str, tile: int, per: int) -> Held:
    """Square tiles in shared memory, `per` x `per` results a thread, n = 2048."""
    n, t = 2048, tile // per
    body = f"""    __shared__ float a[{tile}][{tile} + 1], b[{tile}][{tile}];
    float sum[{per}][{per}];
#pragma unroll
    for (int i = 0; i < {per}; ++i)
#pragma unroll
        for (int j = 0; j < {per}; ++j) sum[i][j] = 0.0f;
    int row = blockIdx.y * {tile}, col = blockIdx.x * {tile};
    for (int k0 = 0; k0 < n; k0 += {tile}) {{
#pragma unroll
        for (int i = 0; i < {per}; ++i)
#pragma unroll
            for (int j = 0; j < {per}; ++j) {{
                int r = threadIdx.y + i * {t}, c = threadIdx.x + j * {t};
                a[r][c] = x[(row + r) * n + k0 + c];
                b[r][c] = w[(k0 + r) * n + col + c];
            }}
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < {tile}; ++k)
#pragma unroll
            for (int i = 0; i < {per}; ++i)
#pragma unroll
                for (int j = 0; j < {per}; ++j)
                    sum[i][j] += a[threadIdx.y + i * {t}][k] * b[k][threadIdx.x + j * {t}];
        __syncthreads();
    }}
#pragma unroll
    for (int i = 0; i < {per}; ++i)
#pragma unroll
        for (int j = 0; j < {per}; ++j)
            y[(row + threadIdx.y + i * {t}) * n + col + threadIdx.x + j * {t}] = sum[i][j];"""
    return _make(
        name,
        body,
        {"x": n * n, "w": n * n, "y": n * n},
        {"n": n},
        (n // tile, n // tile, 1),
        (t, t, 1),
        (2 * n * n, n * n),
    )


def _block_softmax(name: str, threads: int) -> Held:
    """One block a row, the row read from global memory in each of three passes."""
    body = f"""    __shared__ float part[32];
    const float* in = x + blockIdx.x * cols;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float m = in[threadIdx.x];
    for (int c = threadIdx.x; c < cols; c += {threads}) m = fmaxf(m, in[c]);
    m = warp_max(m);
    if (lane == 0) part[warp] = m;
    __syncthreads();
    m = warp_max(part[lane % {threads // 32}]);
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += {threads}) s += expf(in[c] - m);
    s = warp_sum(s);
    __syncthreads();
    if (lane == 0) part[warp] = s;
    __syncthreads();
    s = warp_sum(lane < {threads // 32} ? part[lane] : 0.0f);
    for (int c = threadIdx.x; c < cols; c += {threads}) y[blockIdx.x * cols + c] = expf(in[c] - m) / s;"""
    return _make(name, body, _XY, {"cols": N}, (N, 1, 1), (threads, 1, 1), (SQUARE, SQUARE), before=_WARP_SUM)


HELD: dict[str, Callable[[], Held]] = {
    "add_scalar": lambda: _make(
        "add_scalar",
        f"    {_I}\n    if (i < n) c[i] = a[i] + b[i];",
        {"a": LONG, "b": LONG, "c": LONG},
        {"n": LONG},
        (LONG // 256, 1, 1),
        (256, 1, 1),
        (2 * LONG, LONG),
    ),
    "add_wide": lambda: _make(
        "add_wide",
        f"""    {_I}
    if (4 * i < n) {{
        float4 p = reinterpret_cast<const float4*>(a)[i], q = reinterpret_cast<const float4*>(b)[i];
        p.x += q.x; p.y += q.y; p.z += q.z; p.w += q.w;
        reinterpret_cast<float4*>(c)[i] = p;
    }}""",
        {"a": LONG, "b": LONG, "c": LONG},
        {"n": LONG},
        (LONG // 1024, 1, 1),
        (256, 1, 1),
        (2 * LONG, LONG),
    ),
    "gelu_scalar": lambda: _make(
        "gelu_scalar",
        f"    {_I}\n    if (i < n) y[i] = gelu_of(x[i]);",
        {"x": LONG, "y": LONG},
        {"n": LONG},
        (LONG // 256, 1, 1),
        (256, 1, 1),
        (LONG, LONG),
        before=_GELU,
    ),
    "gelu_wide": lambda: _make(
        "gelu_wide",
        f"""    {_I}
    if (4 * i < n) {{
        float4 p = reinterpret_cast<const float4*>(x)[i];
        p.x = gelu_of(p.x); p.y = gelu_of(p.y); p.z = gelu_of(p.z); p.w = gelu_of(p.w);
        reinterpret_cast<float4*>(y)[i] = p;
    }}""",
        {"x": LONG, "y": LONG},
        {"n": LONG},
        (LONG // 1024, 1, 1),
        (256, 1, 1),
        (LONG, LONG),
        before=_GELU,
    ),
    "transpose_naive": lambda: _make(
        "transpose_naive",
        """    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < rows && j < cols) y[j * rows + i] = x[i * cols + j];""",
        _XY,
        _RC,
        (N // 16, N // 16, 1),
        (16, 16, 1),
        (SQUARE, SQUARE),
    ),
    "transpose_wide_block": lambda: _make(
        "transpose_wide_block",
        """    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < rows && j < cols) y[i * cols + j] = x[j * rows + i];""",
        _XY,
        _RC,
        (N // 32, N // 8, 1),
        (32, 8, 1),
        (SQUARE, SQUARE),
    ),
    "transpose_conflicts": lambda: _make(
        "transpose_conflicts",
        """    __shared__ float tile[32][32];
    int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 32; k += 8) tile[threadIdx.y + k][threadIdx.x] = x[(row + k) * n + col];
    __syncthreads();
    row = blockIdx.x * 32 + threadIdx.y;
    col = blockIdx.y * 32 + threadIdx.x;
#pragma unroll
    for (int k = 0; k < 32; k += 8) y[(row + k) * n + col] = tile[threadIdx.x][threadIdx.y + k];""",
        _XY,
        {"n": N},
        (N // 32, N // 32, 1),
        (32, 8, 1),
        (SQUARE, SQUARE),
    ),
    "transpose_split": lambda: _make(
        "transpose_split",
        # Unsigned subscripts make the compiler split the wide stores.
        """    __shared__ float tile[64][65];
    int c = threadIdx.x % 16 * 4, r = threadIdx.x / 16;
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
        float4 q = *reinterpret_cast<const float4*>(x + (blockIdx.y * 64 + r + k) * n + blockIdx.x * 64 + c);
        tile[r + k][c] = q.x; tile[r + k][c + 1] = q.y; tile[r + k][c + 2] = q.z; tile[r + k][c + 3] = q.w;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
        float4 q;
        q.x = tile[c][r + k]; q.y = tile[c + 1][r + k]; q.z = tile[c + 2][r + k]; q.w = tile[c + 3][r + k];
        *reinterpret_cast<float4*>(y + (blockIdx.x * 64 + r + k) * n + blockIdx.y * 64 + c) = q;
    }""",
        _XY,
        {"n": N},
        (N // 64, N // 64, 1),
        (256, 1, 1),
        (SQUARE, SQUARE),
        bounds="__launch_bounds__(256) ",
    ),
    "row_sum_naive": lambda: _make(
        "row_sum_naive",
        f"""    {_I}
    if (i < rows) {{
        float t = 0.0f;
        for (int c = 0; c < cols; ++c) t += x[i * cols + c];
        y[i] = t;
    }}""",
        {"x": SQUARE, "y": N},
        _RC,
        (N // 256, 1, 1),
        (256, 1, 1),
        (SQUARE, N),
    ),
    "column_sum_naive": lambda: _make(
        "column_sum_naive",
        f"""    {_I}
    if (i < cols) {{
        float t = 0.0f;
        for (int r = 0; r < rows; ++r) t += x[r * cols + i];
        y[i] = t;
    }}""",
        {"x": SQUARE, "y": N},
        _RC,
        (N // 256, 1, 1),
        (256, 1, 1),
        (SQUARE, N),
    ),
    "row_sum_block": lambda: _make(
        "row_sum_block",
        """    __shared__ float part[8];
    const float4* in = reinterpret_cast<const float4*>(x + blockIdx.x * 8192);
    float t = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        float4 p = in[k * 256 + threadIdx.x];
        t += p.x + p.y + p.z + p.w;
    }
    t = warp_sum(t);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = t;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < 8; ++k) t += part[k];
        y[blockIdx.x] = t;
    }""",
        {"x": SQUARE, "y": N},
        {"rows": N},
        (N, 1, 1),
        (256, 1, 1),
        (SQUARE, N),
        before=_WARP_SUM,
    ),
    "layernorm_naive": lambda: _make(
        "layernorm_naive",
        f"""    {_I}
    if (i >= rows) return;
    const float* in = x + i * cols;
    float sum = 0.0f;
    for (int c = 0; c < cols; ++c) sum += in[c];
    float mean = sum / cols, var = 0.0f;
    for (int c = 0; c < cols; ++c) {{
        float d = in[c] - mean;
        var += d * d;
    }}
    float scale = rsqrtf(var / cols + 1e-5f);
    for (int c = 0; c < cols; ++c) y[i * cols + c] = (in[c] - mean) * scale * g[c] + b[c];""",
        {"x": SQUARE, "g": N, "b": N, "y": SQUARE},
        _RC,
        (N // 256, 1, 1),
        (256, 1, 1),
        (SQUARE + 2 * N, SQUARE),
    ),
    "stencil_naive": lambda: _make(
        "stencil_naive",
        f"""    {_I}
    if (i >= rows * cols) return;
    int r = i / cols, c = i % cols;
    if (r > 0 && r < rows - 1 && c > 0 && c < cols - 1)
        y[i] = 0.2f * (x[i] + x[i - cols] + x[i + cols] + x[i - 1] + x[i + 1]);""",
        _XY,
        _RC,
        (SQUARE // 256, 1, 1),
        (256, 1, 1),
        (SQUARE, SQUARE),
    ),
    "softmax_block": lambda: _block_softmax("softmax_block", 256),
    "softmax_block_wide": lambda: _block_softmax("softmax_block_wide", 1024),
    "softmax_warp": lambda: _make(
        "softmax_warp",
        """    const float* in = x + (blockIdx.x * 8 + threadIdx.y) * cols;
    float* out = y + (blockIdx.x * 8 + threadIdx.y) * cols;
    float m = in[threadIdx.x];
    for (int c = threadIdx.x; c < cols; c += 32) m = fmaxf(m, in[c]);
    m = warp_max(m);
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) s += __expf(in[c] - m);
    s = 1.0f / warp_sum(s);
    for (int c = threadIdx.x; c < cols; c += 32) out[c] = __expf(in[c] - m) * s;""",
        _XY,
        {"cols": N},
        (N // 8, 1, 1),
        (32, 8, 1),
        (SQUARE, SQUARE),
        before=_WARP_SUM,
    ),
    "matmul_naive": lambda: _make(
        "matmul_naive",
        """    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || j >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) sum += x[i * n + k] * w[k * n + j];
    y[i * n + j] = sum;""",
        {"x": 2048**2, "w": 2048**2, "y": 2048**2},
        {"n": 2048},
        (128, 128, 1),
        (16, 16, 1),
        (2 * 2048**2, 2048**2),
    ),
    "matmul_tile32": lambda: _tiled_matmul("matmul_tile32", 32, 1),
    "matmul_tile64": lambda: _tiled_matmul("matmul_tile64", 64, 4),
    "polynomial": lambda: _make(
        "polynomial",
        f"""    {_I}
    if (4 * i >= n) return;
    float4 p = reinterpret_cast<const float4*>(x)[i], q = p;
#pragma unroll
    for (int k = 0; k < 64; ++k) {{
        q.x = q.x * p.x + 0.5f; q.y = q.y * p.y + 0.5f; q.z = q.z * p.z + 0.5f; q.w = q.w * p.w + 0.5f;
    }}
    reinterpret_cast<float4*>(y)[i] = q;""",
        {"x": LONG, "y": LONG},
        {"n": LONG},
        (LONG // 1024, 1, 1),
        (256, 1, 1),
        (LONG, LONG),
    ),
    "strided_read": lambda: _make(
        "strided_read",
        f"    {_I}\n    if (i < n) y[i] = x[8 * i];",
        {"x": LONG, "y": LONG // 8},
        {"n": LONG // 8},
        (LONG // 8 // 256, 1, 1),
        (256, 1, 1),
        (LONG, LONG // 8),
    ),
}
