"""The functions of kernels/ as somebody would write them in PyTorch, to be run eagerly and by torch.compile.

torch is handed in, never imported here, so that the names are known where it is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Tensor = Any
Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Work:
    """One kernel's function.

    eager      takes the arrays that the kernel reads, in the order of its parameters; gives the result
    compiled   what is handed to torch.compile, where another way of writing it is faster there
    interior   the kernel leaves the border of its output alone, and the result has only the interior
    """

    eager: Function
    compiled: Function
    interior: bool = False


def works(torch: Any, scalars: Mapping[str, float]) -> dict[str, Work]:
    """By name of the kernel. `torch` may be None if nothing is called; `scalars` as the kernel is timed."""

    def softmax(x: Tensor) -> Tensor:
        return torch.softmax(x, 1)

    def rmsnorm(x: Tensor, weight: Tensor) -> Tensor:
        return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-6)

    def layernorm(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        return torch.nn.functional.layer_norm(x, gamma.shape, gamma, beta, 1e-5)

    def gelu(x: Tensor) -> Tensor:
        return torch.nn.functional.gelu(x, approximate="tanh")

    def add(a: Tensor, b: Tensor) -> Tensor:
        return a + b

    def saxpy(x: Tensor, y: Tensor) -> Tensor:
        return y.add_(x, alpha=scalars["alpha"])

    def transpose(x: Tensor) -> Tensor:
        return x.t().contiguous()

    def cumsum(x: Tensor) -> Tensor:
        return torch.cumsum(x, 1)

    def row_sum(x: Tensor) -> Tensor:
        return x.sum(1)

    def total(x: Tensor, out: Tensor) -> Tensor:
        return out.add_(x.sum())

    def column_sum(x: Tensor) -> Tensor:
        return x.sum(0)

    def matvec(a: Tensor, x: Tensor) -> Tensor:
        return torch.mv(a, x)

    def matmul(a: Tensor, b: Tensor) -> Tensor:
        return torch.mm(a, b)

    def stencil(x: Tensor) -> Tensor:
        around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        return 0.2 * (x[1:-1, 1:-1] + around)

    def convolution(x: Tensor, w: Tensor) -> Tensor:
        return torch.nn.functional.conv2d(x[None, None], w.view(1, 1, 3, 3))[0, 0]

    def nine_terms(x: Tensor, w: Tensor) -> Tensor:
        rows, cols = x.shape
        terms = [w[3 * a + b] * x[a : rows - 2 + a, b : cols - 2 + b] for a in range(3) for b in range(3)]
        return sum(terms[1:], terms[0])

    def bmm(a: Tensor, b: Tensor) -> Tensor:
        return torch.bmm(a, b)

    def rows_convolved(signal: Tensor, taps: Tensor) -> Tensor:
        return torch.nn.functional.conv1d(signal[:, None], taps[None, None])[:, 0]

    def shifted_terms(signal: Tensor, taps: Tensor) -> Tensor:
        valid = signal.shape[1] - taps.shape[0] + 1
        terms = [taps[k] * signal[:, k : k + valid] for k in range(taps.shape[0])]
        return sum(terms[1:], terms[0])

    def blur(x: Tensor) -> Tensor:
        h = 0.0625 * (x[:, :-4] + x[:, 4:]) + 0.25 * (x[:, 1:-3] + x[:, 3:-1]) + 0.375 * x[:, 2:-2]
        y = 0.0625 * (h[:-4] + h[4:]) + 0.25 * (h[1:-3] + h[3:-1]) + 0.375 * h[2:-2]
        return y.reshape(-1, 64, y.shape[1])

    def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(torch.where(mask != 0, scores * scalars["scale"], -10000.0), -1)

    def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(logits, target.long(), reduction="none")

    def rope(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        c, s = cosines[:, None], sines[:, None]
        return torch.cat((first * c - second * s, second * c + first * s), -1)

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.nn.functional.scaled_dot_product_attention(
            q[None], k[None], v[None], scale=scalars["scale"]
        )[0]

    def softmax_of_products(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.transpose(1, 2) * scalars["scale"], -1) @ v

    def histogram(x: Tensor, hist: Tensor) -> Tensor:
        return hist + torch.bincount(x, minlength=hist.shape[0])

    def spmv(rowptr: Tensor, col: Tensor, val: Tensor, x: Tensor) -> Tensor:
        shape = (rowptr.shape[0] - 1, x.shape[0])
        return torch.sparse_csr_tensor(rowptr, col, val, shape, check_invariants=False) @ x

    plain = {
        "softmax": softmax,
        "rmsnorm": rmsnorm,
        "layernorm": layernorm,
        "transpose": transpose,
        "matmul": matmul,
        "cumsum": cumsum,
        "row_sum": row_sum,
        "column_sum": column_sum,
        "total": total,
        "matvec": matvec,
        "gelu": gelu,
        "vecadd": add,
        "saxpy": saxpy,
        "batched_matmul": bmm,
        "masked_softmax": masked_softmax,
        "cross_entropy": cross_entropy,
        "rope": rope,
        "blur": blur,
        "histogram": histogram,
        "spmv": spmv,
    }
    return {
        "stencil": Work(stencil, stencil, interior=True),
        "stencil3x3": Work(convolution, nine_terms, interior=True),
        "conv1d": Work(rows_convolved, shifted_terms),
        "attention": Work(attention, softmax_of_products),
    } | {name: Work(f, f) for name, f in plain.items()}
