"""Nothing is a template for a known kernel: renamed, reordered and extended variants of each example lift."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evolve.frontend.lift import Lifted
from evolve.ir.printer import print_kernel
from tests.frontend.differential import assert_same

Lift = Callable[..., Lifted]

VARIANTS = {
    "softmax, scaled and biased, other guard, pointers per row": """
        __global__ void probabilities(int width, float *__restrict__ out, const float *__restrict__ bias,
                                      const float *__restrict__ logits, float scale, int height) {
          const int line = threadIdx.x + blockDim.x * blockIdx.x;
          if (line >= height) return;
          const float *src = logits + (size_t)line * width;
          float *dst = &out[(size_t)line * width];
          float top = -3.0e38f;
          for (int p = 0; p < width; ++p) { float v = src[p] * scale + bias[p]; if (v > top) top = v; }
          float norm = 0;
          for (int p = 0; p != width; p++) norm = norm + __expf(src[p] * scale + bias[p] - top);
          const float inv = 1.0f / norm;
          for (int p = 0; p < width; p += 1) dst[p] = __expf(src[p] * scale + bias[p] - top) * inv;
        }""",
    "layernorm in one pass, with a residual input, unsigned indices": """
        #define AT(m, r, c) m[(r) * cols + (c)]
        __global__ void norm(const float *res, const float *x, float *y, const float *w, unsigned rows,
                             unsigned cols, float eps) {
          unsigned r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r < rows) {
            float s = 0.f, q = 0.f;
            for (unsigned c = 0; c < cols; ++c) {
              float v = AT(x, r, c) + AT(res, r, c);
              s += v;
              q += v * v;
            }
            float mean = s / cols, inv = rsqrtf(q / cols - mean * mean + eps);
            for (unsigned c = 0; c < cols; ++c)
              AT(y, r, c) = (AT(x, r, c) + AT(res, r, c) - mean) * inv * w[c];
          }
        }""",
    "vector add of three, grid-stride": """
        __global__ void sum3(float *out, const float *p, const float *q, const float *r, size_t len) {
          for (size_t k = blockIdx.x * (size_t)blockDim.x + threadIdx.x; k < len;
               k += (size_t)gridDim.x * blockDim.x)
            out[k] = p[k] + (q[k] - r[k]);
        }""",
    "saxpy out of place with a clamp, four elements a thread": """
        __device__ float clamped(float v, float low, float high) {
          if (v < low) return low;
          if (v > high) return high;
          return v;
        }
        __global__ void axpby(const float *u, const float *v, float *w, float a, float b, int count) {
          int first = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
          for (int e = 0; e < 4; ++e)
            if (first + e < count) w[first + e] = clamped(a * u[first + e] + b * v[first + e], -1.f, 1.f);
        }""",
    "gelu with erf, a bias by column and a flat index": """
        __global__ void gelu_bias(const float *in, const float *bias, float *out, int rows, int cols) {
          int flat = blockIdx.x * blockDim.x + threadIdx.x;
          if (flat >= rows * cols) return;
          float v = in[flat] + bias[flat % cols];
          out[flat] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
        }""",
    "transpose from the output's side, scaled, one-dimensional launch": """
        __global__ void flip(float *dst, const float *src, int h, int w, float k) {
          const int t = blockIdx.x * blockDim.x + threadIdx.x;
          const int row = t / h, col = t - row * h;
          if (row < w) dst[t] = k * src[col * w + row];
        }""",
    "matmul with bias and relu, x over rows, fused multiply-add": """
        __global__ void linear(const float *w, const float *x, const float *b, float *o, int m, int n,
                               int k) {
          size_t r = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
          size_t c = (size_t)blockIdx.y * blockDim.y + threadIdx.y;
          if (r < m && c < n) {
            float acc = b[c];
            for (int i = 0; i < k; i++) acc = fmaf(x[r * k + i], w[i * n + c], acc);
            o[r * n + c] = acc > 0.f ? acc : 0.f;
          }
        }""",
    "matmul accumulating in memory": """
        __global__ void gemm(float *C, const float *A, const float *B, int n) {
          int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
          if (!(i < n && j < n)) return;
          C[i * n + j] = 0;
          for (int k = 0; k < n; ++k) C[i * n + j] += A[i * n + k] * B[k * n + j];
        }""",
    "sums in the elements of an array": """
        __global__ void moments(const float *a, float *o, int n, int m) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r >= n) return;
          float acc[4];
          for (int d = 0; d < 4; d++) acc[d] = 1.0f;
          for (int c = 0; c < m; c++)
            for (int d = 0; d < 4; d++) acc[d] += a[r * m + c] * (d + 1);
          for (int d = 0; d < 4; d++) o[r * 4 + d] = acc[d];
        }""",
    "elements that add the one before": """
        __global__ void waves(const float *a, float *o, int n, int m) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r >= n) return;
          float t[4];
          for (int d = 0; d < 4; d++) t[d] = a[r * m] + d;
          for (int c = 0; c < m; c++)
            for (int d = 1; d < 4; d++) t[d] = t[d] + 0.25f * t[d - 1];
          for (int d = 0; d < 4; d++) o[r * 4 + d] = t[d];
        }""",
    "row maximum and sum, counting down": """
        __global__ void stats(const float *a, float *hi, float *total, int n, int m) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r >= n) return;
          float h = a[r * m], t = 0.0f;
          for (int c = m - 1; c >= 0; --c) {
            h = a[r * m + c] > h ? a[r * m + c] : h;
            t -= -a[r * m + c];
          }
          hi[r] = h;
          total[r] = t;
        }""",
    "column mean walking a pointer": """
        __global__ void mean(const float *p, float *q, int rows, int cols) {
          int c = blockIdx.x * blockDim.x + threadIdx.x;
          if (c < cols) {
            const float *at = p + c;
            double s = 0.0;
            for (int r = 0; r < rows; ++r, at += cols) s += *at;
            q[c] = s / rows;
          }
        }""",
    "column sum with a running index": """
        __global__ void colsum(const float *p, float *q, int rows, int cols) {
          int c = blockIdx.x * blockDim.x + threadIdx.x;
          if (c >= cols) return;
          float s = 0.0f;
          int at = c;
          for (int r = 0; r < rows; ++r) {
            s += p[at];
            at += cols;
          }
          q[c] = s;
        }""",
    "nine-point stencil with a coefficient array, two-dimensional, inclusive bounds": """
        __global__ void blur(const float *__restrict__ w, const float *__restrict__ img, float *res, int h,
                             int wd) {
          int c = blockIdx.x * blockDim.x + threadIdx.x;
          int r = blockIdx.y * blockDim.y + threadIdx.y;
          if (r < 1 || c < 1 || r > h - 2 || c > wd - 2) return;
          float s = 0.f;
          for (int dr = -1; dr <= 1; ++dr)
            for (int dc = -1; dc <= 1; ++dc) s += w[(dr + 1) * 3 + dc + 1] * img[(r + dr) * wd + c + dc];
          res[r * wd + c] = s;
        }""",
    "stencil with clamped borders and values selected by position": """
        __global__ void smooth(const float *x, float *y, int n, float edge) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) {
            int l = i > 0 ? i - 1 : 0;
            int r = min(i + 1, n - 1);
            float outside = (i == 0 || i == n - 1) ? edge : 0.0f;
            float before = i > 1 ? x[i - 2] : outside;
            y[i] = x[l] + x[r] - 2.0f * x[i] + before;
          }
        }""",
    "channels last from channels first": """
        __global__ void nhwc(const float *x, float *y, int B, int C, int H, int W) {
          int idx = blockIdx.x * blockDim.x + threadIdx.x;
          if (idx >= B * C * H * W) return;
          int w = idx % W, h = (idx / W) % H, c = (idx / (W * H)) % C, b = idx / (W * H * C);
          y[((b * H + h) * W + w) * C + c] = x[idx];
        }""",
    "literal sizes and block size": """
        #define COLS 64
        #define THREADS 128
        __global__ void fixed(const float *x, float *y, int rows) {
          int idx = blockIdx.x * THREADS + threadIdx.x;
          int r = idx / COLS, c = idx % COLS;
          if (r < rows) y[c + r * COLS] = x[r * COLS + (COLS - 1 - c)];
        }""",
    "a flag that switches an epilogue": """
        __global__ void affine(const float *x, float *y, int n, int negate, float a, float b) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i >= n) return;
          float v = a * x[i] + b;
          if (negate) v = -v;
          y[i] = v;
        }""",
    "online softmax statistics": """
        __global__ void online(const float *x, float *y, int rows, int cols) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r >= rows) return;
          float m = -INFINITY, d = 0.f;
          for (int c = 0; c < cols; ++c) {
            float v = x[r * cols + c];
            float next = fmaxf(m, v);
            d = d * expf(m - next) + expf(v - next);
            m = next;
          }
          y[r] = m + logf(d);
        }""",
    "lower triangle and a window": """
        __global__ void lower(const float *x, float *y, int rows, int cols) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r >= rows) return;
          float last = x[r * cols + cols - 1];
          for (int c = 0; c <= r && c < cols; c++) y[r * cols + c] = x[r * cols + c] - last;
        }""",
    "every second element, with continue": """
        __global__ void odd(const float *x, float *y, int rows, int cols) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r >= rows) return;
          float s = 0.f;
          for (int c = 0; c < cols; ++c) {
            if (c % 2 == 0) continue;
            s += x[r * cols + c];
          }
          for (int c = 1; c < cols; c += 2) s += x[r * cols + c];
          y[r] = s;
        }""",
    "a small array per thread": """
        __global__ void taps(const float *x, const float *w, float *y, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i >= n) return;
          float acc[3] = {0.f, 0.f, 0.f};
          for (int t = 0; t < 3; t++) acc[t] += x[i] * w[t];
          y[i] = acc[0] - acc[1] + acc[2];
        }""",
    "no guard, the launch fits": """
        __global__ void scale(float *x, const float *y, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          x[i] = 2.0f * y[i];
        }
        void call(float *x, float *y, int n) { scale<<<n / 32, 32>>>(x, y, n); }""",
    "flat over a product of sizes": """
        __global__ void relu(const float *x, float *y, int rows, int cols) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < rows * cols) y[i] = fmaxf(x[i], 0.f);
        }""",
    "rows counted by a product, the last size within the row": """
        __global__ void bias(float *out, const float *b, int B, int T, int C) {
          for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < B * T * C; i += gridDim.x * blockDim.x)
            out[i] += b[i % C];
        }""",
    "a block a row of a batch": """
        __global__ void scale(float *out, const float *x, int C, int B, int T) {
          int bt = blockIdx.x;
          if (bt >= B * T) return;
          for (int c = threadIdx.x; c < C; c += blockDim.x) out[bt * C + c] = 2.f * x[bt * C + c];
        }""",
    "four elements for each of a product": """
        __global__ void quads(float *y, const float *x, int n, int m) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < 4 * n * m) y[i] = x[i] + 1.f;
        }""",
    "a cursor stepped where it is used": """
        __global__ void spread(const float *x, float *y, int rows, int cols) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r >= rows) return;
          int at = r * cols;
          for (int c = 0; c < cols; ++c) y[at++] = x[c] + 1.f;
        }""",
    "pointers stepped where they are used": """
        __global__ void twice(const float *x, float *y, int rows, int cols) {
          int r = blockIdx.x * blockDim.x + threadIdx.x;
          if (r >= rows) return;
          const float *p = x + r * cols;
          float *q = y + r * cols;
          for (int c = 0; c < cols; ++c) *q++ = *p++ * 2.f;
        }""",
    "two grid-stride loops": """
        __global__ void copy2(const float *x, float *y, int rows, int cols) {
          for (int r = blockIdx.y * blockDim.y + threadIdx.y; r < rows; r += gridDim.y * blockDim.y)
            for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < cols; c += gridDim.x * blockDim.x)
              y[r * cols + c] = x[r * cols + c];
        }""",
}


@pytest.mark.parametrize("name", list(VARIANTS))
def test_variant_lifts_to_what_it_computes(name: str, lift_text: Lift, cache: Path) -> None:
    assert assert_same(lift_text(VARIANTS[name]), cache_dir=cache) >= 3


def test_flags_may_be_zero_and_are_data(lift_text: Lift, cache: Path) -> None:
    lifted = lift_text(VARIANTS["a flag that switches an epilogue"])
    assert not lifted.kernel.scalar("negate").is_size
    sizes = tuple({"n": 37, "negate": flag, "a": 1.5, "b": 0.25} for flag in (0, 1, -4))
    assert assert_same(lifted, sizes, cache_dir=cache) == 3


def test_division_of_a_flat_index_gives_two_loops(lift_text: Lift) -> None:
    name = "transpose from the output's side, scaled, one-dimensional launch"
    text = print_kernel(lift_text(VARIANTS[name]).kernel)
    assert "for row in 0..w:   # parallel\n    for col in 0..h:   # parallel" in text
    assert "dst[row, col] = k * src[col, row]" in text


def test_four_digits(lift_text: Lift) -> None:
    text = print_kernel(lift_text(VARIANTS["channels last from channels first"]).kernel)
    assert "y[b, h, w, c] = x[b, c, h, w]" in text


def test_extents_stop_at_the_guard(lift_text: Lift) -> None:
    kernel = lift_text(VARIANTS["saxpy out of place with a clamp, four elements a thread"]).kernel
    assert "w: global f32[count]" in print_kernel(kernel)


def test_a_ternary_maximum_is_a_reduction_and_says_so(lift_text: Lift) -> None:
    lifted = lift_text(VARIANTS["row maximum and sum, counting down"])
    text = print_kernel(lifted.kernel)
    assert "h[] max= " in text
    assert "t[] sum= " in text
    assert any("NaN" in note for note in lifted.notes)


def test_an_unguarded_kernel_covers_what_its_launch_covers(lift_text: Lift) -> None:
    lifted = lift_text(VARIANTS["no guard, the launch fits"])
    assert "for i in 0..n // 32 * 32:   # parallel" in print_kernel(lifted.kernel)


def test_unnamed_digits_are_called_row_and_col(lift_text: Lift) -> None:
    text = print_kernel(lift_text(VARIANTS["gelu with erf, a bias by column and a flat index"]).kernel)
    assert "out[row, col] = 0.5:f32 * (in[row, col] + bias[col])" in text


def test_a_product_of_sizes_is_a_loop_for_each(lift_text: Lift) -> None:
    text = print_kernel(lift_text(VARIANTS["flat over a product of sizes"]).kernel)
    assert "y[row, col] = max(x[row, col], 0.0:f32)" in text
    text = print_kernel(lift_text(VARIANTS["four elements for each of a product"]).kernel)
    assert "for row in 0..n:   # parallel\n    for col in 0..m * 4:   # parallel" in text


def test_maxima_of_integers_assume_nothing_of_nans(lift_text: Lift) -> None:
    text = """__global__ void k(const %s *x, %s *y, int n) {
      int r = blockIdx.x * blockDim.x + threadIdx.x; if (r >= n) return;
      %s m = x[r * 8]; for (int c = 1; c < 8; c++) if (x[r * 8 + c] > m) m = x[r * 8 + c];
      y[r] = m; }"""
    for kind, told in (("int", False), ("float", True)):
        notes = lift_text(text.replace("%s", kind)).notes
        assert any("NaN" in note for note in notes) == told
