"""The device code of a file, and launches read off its host code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evolve.frontend.lift import Lifted
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.printer import print_expr

Lift = Callable[..., Lifted]

FILE = """/* evolve
[[timed]]
n = 4096
*/
#include <iostream>
#include <vector>
#include "helper_cuda.h"
using namespace std;

#define CUDA_CHECK(x) do { auto e = (x); \\
    if (e) { std::cerr << e; exit(1); } } while (0)
#ifndef THREADS
#define THREADS 256
#endif
constexpr int FACTOR = 3;
static const float BIAS = 0.5f;
enum Mode { PLAIN = 0, TWICE = 2 };
typedef float real;

template <typename T> struct Buffer { T *p; size_t n; Buffer(size_t n) : n(n) { cudaMalloc(&p, n); } };
class Timer { std::chrono::time_point<int> t; public: void start(); };

__device__ real scaled(real v);
__device__ real shifted(real v) { return v + BIAS; }
__device__ real unused(real v) { return v; }

static void fill(vector<float> &v) { for (auto &x : v) x = 1.f; }

__global__ void other(float *y) { __shared__ float s[32]; s[threadIdx.x] = 1; y[0] = s[0]; }

extern "C" {
__global__ void __launch_bounds__(THREADS) work(const real *x, real *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#if 1
  if (i < n) y[i] = fminf(scaled(x[i]), FLT_MAX) + (float)M_PI;
#else
  broken
#endif
}
}
__device__ real scaled(real v) { return shifted(v) * FACTOR * TWICE; }

int main() {
  const int n = 1 << 20;
  Buffer<float> a(n), b(n);
  LAUNCH
  CUDA_CHECK(cudaGetLastError());
}
"""


def file(launch: str) -> str:
    return FILE.replace("LAUNCH", launch)


def test_only_what_the_kernel_needs_stays(lift_text: Lift) -> None:
    from evolve.toolchain.nvrtc import compile_cuda

    lifted = lift_text(file(""), "work")
    text = lifted.original.text
    for gone in (
        "main",
        "Buffer",
        "Timer",
        "unused",
        "fill",
        "other",
        "CUDA_CHECK",
        "#include",
        "using",
        "evolve",
    ):
        assert gone not in text, gone
    for kept in (
        "THREADS",
        "FACTOR",
        "BIAS",
        "Mode",
        "typedef float real",
        "shifted",
        "#define M_PI",
        "#if 1",
    ):
        assert kept in text, kept
    assert compile_cuda(text).ok
    assert lifted.comment_block == "[[timed]]\nn = 4096\n"


def test_types_that_run_time_compilation_lacks_are_defined(lift_text: Lift) -> None:
    lifted = lift_text("""__global__ void k(const float *x, float *y, uint n) {
        const uint i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = 2.f * x[i];
    }""")
    from evolve.codegen.original import render_original
    from evolve.toolchain.nvrtc import compile_cuda

    assert compile_cuda(render_original(lifted.original)).ok


@pytest.mark.parametrize(
    ("launch", "grid", "block"),
    [
        ("work<<<(n + 127) / 128, 128>>>(a.p, b.p, n);", "(n + 127) // 128", 128),
        ("work<<<(n + THREADS - 1) / THREADS, dim3(THREADS)>>>(a.p, b.p, n);", "(n + 255) // 256", 256),
        ("int t = 64; int g = (n + t - 1) / t; work<<<g, t, 0>>>(a.p, b.p, n);", "(n + 63) // 64", 64),
        ("dim3 g((n + 31) / 32), t(32, 1); work<<<g, t>>>(a.p, b.p, n);", "(n + 31) // 32", 32),
        ("dim3 t(32); dim3 g = dim3((n + t.x - 1) / t.x); work<<<g, t, 0, 0>>>(a.p, b.p, n);",
         "(n + 31) // 32", 32),
        ("const unsigned N = 77; work<<<4, 512>>>(a.p, b.p, N);", "4", 512),
    ],
)  # fmt: skip
def test_launches_are_read_off(launch: str, grid: str, block: int, lift_text: Lift) -> None:
    lifted = lift_text(file(launch), "work")
    assert lifted.launch is not None
    assert print_expr(lifted.original.grid[0]) == grid
    assert [print_expr(e) for e in lifted.original.block] == [str(block), "1", "1"]


@pytest.mark.parametrize(
    "launch",
    [
        "work<<<blocks_for(n), 128>>>(a.p, b.p, n);",
        "work<<<n, 128, 64 * sizeof(float)>>>(a.p, b.p, n);",
        "int t = atoi(argv[1]); work<<<1, t>>>(a.p, b.p, n);",
    ],
)
def test_launches_that_cannot_be_read_fall_back_to_the_domain(launch: str, lift_text: Lift) -> None:
    lifted = lift_text(file(launch), "work")
    assert lifted.launch is None
    assert print_expr(lifted.original.grid[0]) == "(n + 255) // 256"


SCALED = """__global__ void k(float *y, const float *x, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * {factor};
}}
"""


@pytest.mark.parametrize(
    ("before", "factor", "macro"),
    [
        ("#ifdef __CUDA_ARCH__\n#define F 3\n#else\n#define F 5\n#endif\n", "F", "__CUDA_ARCH__"),
        ("#define F 5\n#if 0\n#elif defined(__clang__)\n#undef F\n#define F 3\n#endif\n", "F", "__clang__"),
        ("int host() { return 0; }\n", "__LINE__", "__LINE__"),
    ],
)
def test_what_only_one_compiler_sees_is_refused(
    before: str, factor: str, macro: str, lift_text: Lift
) -> None:
    with pytest.raises(CannotLiftError) as caught:
        lift_text(before + SCALED.format(factor=factor))
    assert caught.value.construct == f"macro {macro}"


def test_conditions_on_the_compiler_around_host_code_and_header_guards_are_no_matter(lift_text: Lift) -> None:
    before = (
        "#ifndef _OWN_H\n#define _OWN_H\n#define F 3\n#endif\n"
        "#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 600\n"
        "static int host(int a) { return a; }\n#else\n#endif\n"
    )
    text = lift_text(before + SCALED.format(factor="F")).original.text
    assert "__CUDA_ARCH__" not in text
    assert "_OWN_H" in text
