"""Modules around scheduled kernels, each with its plain kernel as the original."""

from __future__ import annotations

import re

from evolve.ir.expr import TRUE, Expr, ceildiv, index, var
from evolve.ir.kernel import Kernel, Module, Original, Variant
from evolve.ir.stmt import Block, Buffer, Stmt
from tests.codegen.scheduled_ir import sizes
from tests.kernels_ir import checked

ONE = index(1)

TEXTS = {
    "vecadd": """
__global__ void vecadd(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
""",
    "saxpy": """
// y = a * x + y { not a brace }
static __global__ void saxpy(int n, float alpha, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = alpha * x[i] + y[i];
}
""",
    "softmax": """
#define LOG2E 1.4426950408889634f
__global__ void softmax(const float* x, float* y, int rows, int cols);
__global__ void softmax(const float* x, float* y, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        float m = -3.402823466e+38f, s = 0.0f;
        for (int c = 0; c < cols; ++c) m = fmaxf(m, x[r * cols + c]);
        for (int c = 0; c < cols; ++c) s += expf(x[r * cols + c] - m);
        for (int c = 0; c < cols; ++c) y[r * cols + c] = expf(x[r * cols + c] - m) / s;
    }
}
""",
    "transpose": """
extern "C" __global__ void transpose(const float* x, float* y, int rows, int cols) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < rows && j < cols) y[j * rows + i] = x[i * cols + j];
}
""",
    "matmul": """
template <int N> struct Unused { float v[N]; };
__device__ float fetch(const float* p, int i) { return p[i]; }
__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < M && j < N) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += fetch(A, i * K + k) * fetch(B, k * N + j);
        C[i * N + j] = sum;
    }
}
""",
}

Dims = tuple[Expr, Expr, Expr]

LAUNCHES: dict[str, tuple[Dims, Dims]] = {
    "vecadd": ((ceildiv(var("n"), 64), ONE, ONE), (index(64), ONE, ONE)),
    "saxpy": ((ceildiv(var("n"), 64), ONE, ONE), (index(64), ONE, ONE)),
    "softmax": ((ceildiv(var("rows"), 32), ONE, ONE), (index(32), ONE, ONE)),
    "transpose": (
        (ceildiv(var("cols"), 16), ceildiv(var("rows"), 8), ONE),
        (index(16), index(8), ONE),
    ),
    "matmul": ((ceildiv(var("N"), 16), ceildiv(var("M"), 16), ONE), (index(16), index(16), ONE)),
}


def module_of(*kernels: Kernel) -> Module:
    """Each kernel is a variant; the plain kernel of the same name is the original."""
    k = kernels[0]
    grid, block = LAUNCHES[k.name]
    read_only = tuple(re.findall(r"const float\* (\w+)", TEXTS[k.name]))
    original = Original(TEXTS[k.name], k.name, grid, block, read_only=read_only)
    return Module(tuple(Variant(TRUE, (x,)) for x in kernels), original, k.params, k.buffers, k.scalars)


def kernel_of(params: str, buffers: tuple[Buffer, ...], body: Stmt, *facts: Expr) -> Kernel:
    """A kernel named k; of the names in `params`, those without a buffer are sizes."""
    names = params.split()
    held = {b.name for b in buffers}
    scalars = sizes(*(n for n in names if n not in held))
    return checked(Kernel("k", tuple(names), buffers, scalars, Block((body,)), facts))


def bare_module(k: Kernel) -> Module:
    """The kernel as the only variant, before an original that does nothing."""
    one = (index(1), index(1), index(1))
    pointers = {b.name: f"{b.dtype.c_name}* {b.name}" for b in k.buffers}
    params = ", ".join(pointers.get(p, f"int {p}") for p in k.params)
    return Module(
        (Variant(TRUE, (k,)),),
        Original(f"__global__ void plain({params}) {{}}\n", "plain", one, one),
        k.params,
        k.buffers,
        k.scalars,
    )
