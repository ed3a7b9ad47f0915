"""Kernels with one planted defect each, and the same work done without it.

`planted_cases` has the pairs. `Work` says what the meaning needs, as the lifted IR would: bytes that must
move and arithmetic results by class. All are one CUDA text, so that they are compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evolve.codegen.launch import BufferArg, ConcreteLaunch, Dim3, ScalarArg
from evolve.devices.sim.tracing import TraceBuffer

N = 8192
LONG = 1 << 26
"""Elements of the one-dimensional arrays: 256 MiB of float32."""


@dataclass(frozen=True)
class Work:
    """Elements of four bytes that must be read and written, results by `<type>.<class>`."""

    read: int
    written: int
    operations: Mapping[str, float] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Kernel:
    """`buffers` name to (numpy type, elements); `body` goes between the braces."""

    name: str
    body: str
    buffers: Mapping[str, tuple[str, int]]
    sizes: Mapping[str, int]
    grid: Dim3
    block: Dim3
    work: Work
    bounds: str = ""
    restrict: bool = True

    @property
    def text(self) -> str:
        c_type = {"float32": "float", "int32": "int"}
        q = "__restrict__ " if self.restrict else ""
        *read, written = self.buffers
        params = [f"const {c_type[self.buffers[n][0]]}* {q}{n}" for n in read]
        params += [f"{c_type[self.buffers[written][0]]}* {q}{written}", *(f"int {n}" for n in self.sizes)]
        head = f'extern "C" __global__ void {self.bounds}{self.name}'
        return f"{head}({', '.join(params)}) {{\n{self.body}\n}}\n"

    @property
    def launch(self) -> ConcreteLaunch:
        scalars = [ScalarArg(n, "i32", v) for n, v in self.sizes.items()]
        args = (*(BufferArg(n) for n in self.buffers), *scalars)
        return ConcreteLaunch(self.name, args, self.grid, self.block)

    @property
    def trace_buffers(self) -> dict[str, TraceBuffer]:
        # Integers are links: they point anywhere in the array.
        return {n: TraceBuffer(t, count, 0, count - 1) for n, (t, count) in self.buffers.items()}


@dataclass(frozen=True)
class Pair:
    """`cause`: what was planted in `bad`, as the gap report calls it."""

    cause: str
    bad: Kernel
    good: Kernel


def f32(**counts: int) -> dict[str, tuple[str, int]]:
    return {n: ("float32", c) for n, c in counts.items()}


HELPERS = """
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}
__device__ __forceinline__ float horner(float p) {
    float q = 1.0f;
#pragma unroll
    for (int k = 0; k < 32; ++k) q = q * p + 0.1;
    return q;
}
__device__ __forceinline__ float horner_f(float p) {
    float q = 1.0f;
#pragma unroll
    for (int k = 0; k < 32; ++k) q = q * p + 0.1f;
    return q;
}
"""

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
ROW_COL = "int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;"
XY = f32(x=N * N, y=N * N)
LINE = f32(x=LONG, y=LONG)
COPY = Work(N * N, N * N)
LONG_COPY = Work(LONG, LONG)
TILES: Dim3 = (N // 32, N // 8, 1)


def square(name: str, body: str, *, grid: Dim3 = TILES, block: Dim3 = (32, 8, 1)) -> Kernel:
    return Kernel(name, body, XY, {"n": N}, grid, block, COPY)


def vectors(name: str, body: str, operations: Mapping[str, float] | None = None, *, lane: int = 4) -> Kernel:
    """Sixteen-byte accesses (or `lane` elements a thread), 256 threads a block."""
    work = Work(LONG, LONG, operations or {})
    return Kernel(name, body, LINE, {"n": LONG}, (LONG // lane // 256, 1, 1), (256, 1, 1), work)


def each4(expression: str) -> str:
    """`expression` with a place for each of the four floats of a vector."""
    parts = " ".join(f"q.{c} = {expression.format(f'v.{c}')};" for c in "xyzw")
    return f"""    {INDEX}
    if (4 * i < n) {{
        float4 v = reinterpret_cast<const float4*>(x)[i], q;
        {parts}
        reinterpret_cast<float4*>(y)[i] = q;
    }}"""


def tile(pad: int) -> str:
    return f"""    __shared__ float t[32][{32 + pad}];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
    for (int k = 0; k < 32; k += 8) t[threadIdx.y + k][threadIdx.x] = x[(r + k) * n + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
#pragma unroll
    for (int k = 0; k < 32; k += 8) y[(r + k) * n + c] = t[threadIdx.x][threadIdx.y + k];"""


def window(name: str, taps: int) -> Kernel:
    """Differences along columns; the last `taps` values stay in registers, none may be loaded ahead."""
    rows, cols = 640, 1 << 17
    body = f"""    {INDEX}
    float w[{taps}];
#pragma unroll
    for (int k = 0; k < {taps}; ++k) w[k] = 0.0f;
    for (int r = 0; r < rows; r += {taps}) {{
#pragma unroll
        for (int k = 0; k < {taps}; ++k) {{
            float v = x[(r + k) * cols + i];
            y[(r + k) * cols + i] = v - w[k];
            w[k] = v;
        }}
    }}"""
    sizes = {"rows": rows, "cols": cols}
    n = rows * cols
    work = Work(n, n, {"f32.add": n})
    return Kernel(name, body, f32(x=n, y=n), sizes, (cols // 256, 1, 1), (256, 1, 1), work, restrict=False)


def history(name: str, words: int) -> Kernel:
    """Each value is replaced by one seen before, kept in `words` floats of shared memory a block."""
    body = f"""    __shared__ float h[{words}];
    int base = blockIdx.x * 65536 + threadIdx.x;
    for (int k = threadIdx.x; k < {words}; k += 64) h[k] = 0.0f;
    for (int k = 0; k < 1024; ++k) {{
        float v = x[base + k * 64];
        int at = (k * 64) % {words} + threadIdx.x;
        y[base + k * 64] = v - h[at];
        h[at] = v;
    }}"""
    work = Work(LONG, LONG, {"f32.add": LONG})
    return Kernel(name, body, LINE, {"n": LONG}, (1024, 1, 1), (64, 1, 1), work, restrict=False)


def row_blocks(name: str, blocks: int, threads: int = 1024) -> Kernel:
    """`blocks` blocks share an array evenly, each walks through its part."""
    each = LONG // blocks // (threads * 4) * (threads * 4)
    body = f"""    const float4* a = reinterpret_cast<const float4*>(x + blockIdx.x * {each});
    float4* b = reinterpret_cast<float4*>(y + blockIdx.x * {each});
#pragma unroll 4
    for (int k = threadIdx.x; k < {each // 4}; k += {threads}) {{
        float4 v = a[k];
        v.x = v.x * v.x; v.y = v.y * v.y; v.z = v.z * v.z; v.w = v.w * v.w;
        b[k] = v;
    }}"""
    n = each * blocks
    work = Work(n, n, {"f32.mul": n})
    return Kernel(name, body, LINE, {"n": n}, (blocks, 1, 1), (threads, 1, 1), work)


def poly_blocks(name: str, blocks: int, steps: int) -> Kernel:
    """`blocks` blocks of 1024 threads with `steps` FMAs a thread in four chains, one element each way."""
    body = f"""    {INDEX}
    float p = x[i], a = p, b = p, c = p, d = p;
#pragma unroll 8
    for (int k = 0; k < {steps // 4}; ++k) {{
        a = a * p + 0.5f; b = b * p + 0.25f; c = c * p + 0.125f; d = d * p + 2.0f;
    }}
    y[i] = a + b + c + d;"""
    n = blocks * 1024
    work = Work(n, n, {"f32.fma": float(n) * steps})
    return Kernel(name, body, f32(x=n, y=n), {"n": n}, (blocks, 1, 1), (1024, 1, 1), work)


def columns(name: str, passes: int) -> Kernel:
    """A thread a column; the column is centred by a mean that takes `passes - 1` readings of it."""
    rows, cols = 512, 1 << 17
    sums = "".join(
        """
#pragma unroll 8
    for (int r = 0; r < rows; ++r) { float v = x[r * cols + i] - m; s += v * v; }
    m = s / rows; s = 0.0f;"""
        for _ in range(passes - 1)
    )
    body = f"""    {INDEX}
    float m = 0.0f, s = 0.0f;{sums}
#pragma unroll 8
    for (int r = 0; r < rows; ++r) y[r * cols + i] = x[r * cols + i] - m;"""
    n = rows * cols
    work = Work(n, n, {"f32.add": n * passes, "f32.fma": n * (passes - 1)})
    sizes = {"rows": rows, "cols": cols}
    return Kernel(name, body, f32(x=n, y=n), sizes, (cols // 256, 1, 1), (256, 1, 1), work)


def running_sums(name: str, bounds: str, sums: int = 96) -> Kernel:
    """Each thread keeps `sums` weighted sums of one column; the weights are the same for all threads."""
    rows = 256
    cols = 1 << 18
    body = f"""    {INDEX}
    float s[{sums}];
#pragma unroll
    for (int j = 0; j < {sums}; ++j) s[j] = 0.0f;
#pragma unroll 1
    for (int r = 0; r < rows; ++r) {{
        float v = x[r * cols + i];
#pragma unroll
        for (int j = 0; j < {sums}; ++j) s[j] = s[j] * 0.5f + v;
    }}
#pragma unroll
    for (int j = 0; j < {sums}; ++j) y[j * cols + i] = s[j];"""
    sizes = {"rows": rows, "cols": cols}
    read, written = rows * cols, sums * cols
    work = Work(read, written, {"f32.fma": float(read) * sums})
    return Kernel(name, body, f32(x=read, y=written), sizes, (cols // 256, 1, 1), (256, 1, 1), work, bounds)


def block_sum(name: str, body: str, blocks: int) -> Kernel:
    work = Work(LONG, blocks, {"f32.add": LONG})
    return Kernel(name, body, f32(x=LONG, y=blocks), {"n": LONG}, (4096, 1, 1), (256, 1, 1), work)


SLICE = f"const float* a = x + blockIdx.x * {LONG // 4096};"
