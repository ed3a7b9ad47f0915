"""More kernels that are near an example but none of them: operands turned, loops turned, batches, epilogues,
other monoids, sizes that nothing divides. `like` names the example whose fitness they are held against."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

KERNELS = Path(__file__).parents[3] / "kernels"


@dataclass(frozen=True)
class Extended:
    """A kernel's text, the example that it resembles, its workload (None: inferred)."""

    text: str
    like: str
    workload: str | None = None


def _example(name: str) -> str:
    return (KERNELS / f"{name}.cu").read_text()


EXTENDED = {
    "product with the second operand turned, scaled and added": Extended(
        """
        __global__ void gemm_nt(const float *A, const float *B, float *C, int m, int n, int k, float alpha,
                                float beta) {
          int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
          if (i >= m || j >= n) return;
          float s = 0.f;
          for (int t = 0; t < k; ++t) s += A[i * k + t] * B[j * k + t];
          C[i * n + j] = alpha * s + beta * C[i * n + j];
        }""",
        "matmul",
    ),
    "product with the first operand turned": Extended(
        """
        __global__ void gemm_tn(const float *A, const float *B, float *C, int m, int n, int k) {
          int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
          if (i >= m || j >= n) return;
          float s = 0.f;
          for (int t = 0; t < k; ++t) s += A[t * m + i] * B[t * n + j];
          C[i * n + j] = s;
        }""",
        "matmul",
    ),
    "products in a batch": Extended(
        """
        __global__ void bmm(const float *A, const float *B, float *C, int b, int n) {
          int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
          int z = blockIdx.z * blockDim.z + threadIdx.z;
          if (i >= n || j >= n || z >= b) return;
          float s = 0.f;
          for (int t = 0; t < n; ++t) s += A[(z * n + i) * n + t] * B[(z * n + t) * n + j];
          C[(z * n + i) * n + j] = s;
        }""",
        "matmul",
        "[[timed]]\nb = 8\nn = 2048\n",
    ),
    "minimum and product of rows in a batch": Extended(
        """
        __global__ void extremes(const float *x, float *y, int b, int rows, int cols) {
          int r = blockIdx.x * blockDim.x + threadIdx.x, z = blockIdx.y * blockDim.y + threadIdx.y;
          if (r >= rows || z >= b) return;
          float m = INFINITY, p = 1.f;
          for (int c = 0; c < cols; ++c) {
            m = fminf(m, x[(z * rows + r) * cols + c]);
            p *= x[(z * rows + r) * cols + c];
          }
          y[z * rows + r] = m * p;
        }""",
        "row_sum",
        "[[timed]]\nb = 8\nrows = 1024\ncols = 8192\n",
    ),
    "a sum and a store in one sweep": Extended(
        """
        __global__ void doubled(const float *x, float *y, float *z, int rows, int cols) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r >= rows) return;
          float s = 0.f;
          for (int c = 0; c < cols; ++c) {
            float v = x[r * cols + c];
            s += v * v;
            y[r * cols + c] = 2.f * v;
          }
          z[r] = s;
        }""",
        "row_sum",
    ),
    "transposes in a batch": Extended(
        """
        __global__ void turned(const float *x, float *y, int b, int rows, int cols) {
          int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
          int z = blockIdx.z * blockDim.z + threadIdx.z;
          if (i >= rows || j >= cols || z >= b) return;
          y[(z * cols + j) * rows + i] = x[(z * rows + i) * cols + j] + 1.f;
        }""",
        "transpose",
        "[[timed]]\nb = 16\nrows = 2048\ncols = 2048\n",
    ),
    "columns outermost": Extended(
        """
        __global__ void gained(const float *x, const float *g, float *y, int rows, int cols) {
          int r = blockIdx.x * blockDim.x + threadIdx.x, c = blockIdx.y * blockDim.y + threadIdx.y;
          if (r < rows && c < cols) y[r * cols + c] = x[r * cols + c] * g[c];
        }""",
        "saxpy",
    ),
    "maximum of columns": Extended(
        """
        __global__ void highest(const float *x, float *y, int rows, int cols) {
          int c = blockIdx.x * blockDim.x + threadIdx.x;
          if (c >= cols) return;
          float m = x[c];
          for (int r = 1; r < rows; ++r) m = fmaxf(m, x[r * cols + c]);
          y[c] = m;
        }""",
        "column_sum",
    ),
    "rows of a length that is no multiple of a warp, with an epilogue": Extended(
        """
        __global__ void rmsnorm(const float *x, const float *w, float *y, int rows, int cols, float eps) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r >= rows) return;
          float s = 0.f;
          for (int c = 0; c < cols; ++c) s += x[r * cols + c] * x[r * cols + c];
          float k = rsqrtf(s / cols + eps);
          for (int c = 0; c < cols; ++c) y[r * cols + c] = fmaxf(x[r * cols + c] * k * w[c], 0.f);
        }""",
        "layernorm",
        "[[timed]]\nrows = 65536\ncols = 1000\n",
    ),
    "columns that nothing divides": Extended(
        _example("column_sum"), "column_sum", "[[timed]]\nrows = 8191\ncols = 8190\n"
    ),
    "elements that nothing divides": Extended(_example("vecadd"), "vecadd", "[[timed]]\nn = 134217727\n"),
}
