"""What cannot be lifted is refused with file, line, construct and reason; bad files with their own codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evolve.frontend.lift import Lifted, lift, list_kernels
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.errors import EvolveError

Lift = Callable[..., Lifted]

HEAD = """__global__ void k(float *y, const float *x, const int *idx, int n, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
"""

BODIES = {
    "shared memory": ("  __shared__ float s[32];\n  y[i] = s[0];", 4, "shared memory array s"),
    "barrier": ("  y[i] = x[i];\n  __syncthreads();", 5, "call of __syncthreads"),
    "shuffle": ("  y[i] = __shfl_xor_sync(0xffffffffu, x[i], 1);", 4, "call of __shfl_xor_sync"),
    "atomic": ("  atomicExch(&y[0], x[i]);", 4, "call of atomicExch"),
    "while": ("  int j = 0;\n  while (j < m) ++j;\n  y[i] = j;", 5, "while loop"),
    "do": ("  int j = 0;\n  do { ++j; } while (j < m);\n  y[i] = j;", 5, "do loop"),
    "switch": ("  switch (m) { case 1: y[i] = 1.f; }", 4, "switch"),
    "break": ("  for (int j = 0; j < m; ++j) { if (x[j] > 0) break; y[i] += x[j]; }", 4, "break"),
    "goto": ("  goto end;\nend: y[i] = 1.f;", 4, "goto"),
    "assembly": ('  asm volatile("membar.gl;");\n  y[i] = 1.f;', 4, "inline assembly"),
    "scatter": ("  y[idx[i]] = x[i];", 4, "store"),
    "scattered sum": ("  y[idx[i]] += x[i];", 4, "store"),
    "chase": ("  int c = 0;\n  for (int j = 0; j < m; ++j) { y[i] += x[c]; c = idx[c]; }", 5, "subscript"),
    "float as subscript": ("  y[i] = x[(int)x[i]];", 4, "subscript"),
    "chosen subscript": ("  y[i] = x[idx[i] > 3 ? idx[i] : 3];", 4, "subscript"),
    "local array by data": (
        "  float t[4] = {1, 2, 3, 4};\n  y[i] = t[idx[i]];", 5, "subscript of a local array"
    ),
    "last of a row": ("  for (int j = 0; j < idx[i]; ++j) y[i] = x[j];", 4, "assignment"),
    "elements of a row": ("  for (int j = idx[i]; j < idx[i + 1]; ++j) y[j] = x[i];", 4, "store"),
    "store under data": ("  if (x[i] > 0.f) y[i] = x[i];", 4, "store"),
    "loop under data": ("  if (x[i] > 0.f) for (int j = 0; j < m; ++j) y[i] += x[j];", 4, "if"),
    "return in a loop": ("  for (int j = 0; j < m; ++j) { if (j == i) return; y[i] += 1.f; }", 4, "return"),
    "doubling loop": ("  for (int j = 1; j < m; j *= 2) y[i] += x[j];", 4, "for loop"),
    "body changes bound": ("  int e = m;\n  for (int j = 0; j < e; ++j) { y[i] += 1; --e; }", 5, "for loop"),
    "body changes variable": ("  for (int j = 0; j < m; ++j) { y[i] += x[j]; j += 1; }", 4, "for loop"),
    "wrong direction": ("  for (int j = 0; j > m; ++j) y[i] += x[j];", 4, "for loop"),
    "unsigned down": ("  for (unsigned j = 5; j >= 1; --j) y[i] += x[j];", 4, "for loop"),
    "printf": ('  printf("%f", x[i]);', 4, "printf"),
    "vector type": ("  float4 v = ((const float4 *)x)[i];\n  y[i] = v.x;", 4, "type float4"),
    "reinterpreting": ("  const int *p = (const int *)x;\n  y[i] = p[i];", 4, "cast to const int *"),
    "short": ("  short s = 1;\n  y[i] = s;", 4, "type short"),
    "unknown function": ("  y[i] = lgammaf(x[i]);", None, ""),
    "wraps below zero": ("  unsigned u = i;\n  y[i] = x[u - 1];", 5, "operator -"),
    "negative division": ("  y[i] = x[(i - m) / 2 + m];", 4, "operator /"),
    "non-multiple": ("  y[i / m * m + i % m + m] = 1.f;", 1, "division of a thread index"),
    "out of a local array": ("  float t[4];\n  t[m] = 1.f;\n  y[i] = 0;", 5, "subscript of a local array"),
    "modified pointer": (
        "  const float *p = x;\n  for (int j = 0; j < m; ++j) { if (j % 2) p += m; y[i] += *p; }",
        5, "pointer p"
    ),
    "static variable": ("  static int s = 0;\n  y[i] = s;", 4, "static variable s"),
    "lambda": ("  auto f = [](float v) { return v; };\n  y[i] = f(x[i]);", 4, "type"),
    "thread index alone": ("  y[threadIdx.x] = x[i];", 1, "threadIdx.x"),
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in BODIES if n != "unknown function"])
def test_refused_with_place_and_reason(name: str, lift_text: Lift) -> None:
    body, line, construct = BODIES[name]
    with pytest.raises(CannotLiftError) as caught:
        lift_text(HEAD + body + "\n}\n")
    error = caught.value
    assert error.code == "cannot-lift"
    assert error.file is not None
    assert error.file.endswith("kernel.cu")
    assert error.line == line
    assert error.construct.startswith(construct)
    assert len(error.reason) > 8


KERNELS = {
    "template": ("template <typename T> __global__ void k(T *y) { y[0] = 1; }", "template kernel k"),
    "namespace": ("namespace a { __global__ void k(float *y) { y[0] = 1; } }", "kernel in a namespace k"),
    "no guard": ("__global__ void k(float *y) { y[blockIdx.x * blockDim.x + threadIdx.x] = 1; }", "kernel"),
    "writes nothing": ("__global__ void k(float *y, int n) { float v = y[0]; v += n; }", "kernel"),
    "recursion": (
        "__device__ float f(float x, int n) { return n == 0 ? x : f(x, n - 1); }\n"
        "__global__ void k(float *y, int n) { y[0] = f(1.f, n); }",
        "function f",
    ),
    "constant memory": (
        "__constant__ float c[4];\n__global__ void k(float *y) { y[0] = c[1]; }",
        "device variable c",
    ),
    "device variable": (
        "__device__ float c;\n__global__ void k(float *y) { y[0] = c; }",
        "device variable c",
    ),
    "struct parameter": (
        "struct P { int n; };\n__global__ void k(float *y, P p) { y[0] = p.n; }",
        "type P",
    ),
    "declared only": (
        "__device__ float f(float);\n__global__ void k(float *y) { y[0] = f(1.f); }",
        "call of f",
    ),
    "template helper": (
        "template <int N> __device__ float f(float x) { return N * x; }\n"
        "__global__ void k(float *y) { y[0] = f<3>(1.f); }",
        "call of f",
    ),
    "block size differs": (
        "__global__ void k(float *y, int n) { for (int c = threadIdx.x; c < n; c += 128) y[c]++; }\n"
        "void go(float *y, int n) { k<<<1, 64>>>(y, n); }",
        "thread index",
    ),
}


@pytest.mark.parametrize("name", list(KERNELS))
def test_whole_kernels_refused(name: str, lift_text: Lift) -> None:
    text, construct = KERNELS[name]
    with pytest.raises(CannotLiftError) as caught:
        lift_text(text + "\n")
    assert caught.value.construct.startswith(construct), caught.value.construct


GOOD = (
    "__global__ void a(float *y, int n) { "
    "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 1; }\n"
)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(EvolveError, match="does not exist") as caught:
        lift(tmp_path / "no.cu")
    assert caught.value.code == "no-file"


def test_folder_binary_and_latin1(tmp_path: Path) -> None:
    for make in (b"\x00\x01", "é".encode("latin-1")):
        path = tmp_path / "k.cu"
        path.write_bytes(make)
        with pytest.raises(EvolveError) as caught:
            lift(path)
        assert caught.value.code == "no-file"
    with pytest.raises(EvolveError, match="folder") as caught:
        lift(tmp_path)
    assert caught.value.code == "no-file"


def test_no_kernel(lift_text: Lift) -> None:
    with pytest.raises(EvolveError) as caught:
        lift_text("int main() { return 0; }\n")
    assert caught.value.code == "no-kernel"
    with pytest.raises(EvolveError) as caught:
        lift_text('#include <cstdio>\nint main() { printf("host code only"); }\n')
    assert caught.value.code == "no-kernel"
    with pytest.raises(EvolveError) as caught:
        lift_text("__global__ oops\n")
    assert caught.value.code == "syntax-error"


def test_names_from_headers_say_that_headers_are_not_read(lift_text: Lift) -> None:
    text = (
        "#include <cuda_fp16.h>\n__global__ void k(__half *y, int n) { if (threadIdx.x < n) y[0] = y[1]; }\n"
    )
    with pytest.raises(EvolveError) as caught:
        lift_text(text)
    assert (caught.value.code, caught.value.line) == ("syntax-error", 2)
    assert "__half" in caught.value.message and "16-bit" in (caught.value.hint or "")
    with pytest.raises(EvolveError) as caught:
        lift_text("__global__ void k(float *y) { y[0] = 1.f }\n")
    assert caught.value.hint is None


def test_several_kernels_are_listed_with_signatures(lift_text: Lift, tmp_path: Path) -> None:
    text = GOOD + GOOD.replace("void a", "void b").replace("int n", "long n")
    with pytest.raises(EvolveError) as caught:
        lift_text(text)
    assert caught.value.code == "several-kernels"
    assert "a(float *y, int n) at line 1" in caught.value.message
    assert "b(float *y, long n) at line 2" in caught.value.message
    assert lift_text(text, "b").kernel.name == "b"
    assert [k.name for k in list_kernels(tmp_path / "kernel.cu")] == ["a", "b"]


def test_unknown_entry(lift_text: Lift) -> None:
    with pytest.raises(EvolveError, match="a\\(float") as caught:
        lift_text(GOOD, "c")
    assert caught.value.code == "unknown-entry"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GOOD.replace("y[i] = 1;", "y[i] = 1\n"), 1),
        ("\n" + GOOD.replace("y[i] = 1", "y[i] = undeclared"), 2),
        ("__device__ float f() { return oops; }\n" + GOOD.replace("y[i] = 1", "y[i] = f()"), 1),
        ("__global__ void a(half *y) { y[0] = 1; }\n", 1),
        (GOOD.rstrip().rstrip("}") + "\n", 1),
        ("#include <nowhere.h>\n\n" + GOOD.replace("y[i] = 1", "y[i] = FROM_NOWHERE"), 3),
    ],
)
def test_errors_in_the_kernel_or_its_helpers(text: str, line: int, lift_text: Lift) -> None:
    with pytest.raises(EvolveError) as caught:
        lift_text(text)
    assert caught.value.code == "syntax-error"
    assert caught.value.line == line


def test_errors_in_host_code_do_not_matter(lift_text: Lift) -> None:
    host = """#include <iostream>
#include <thrust/device_vector.h>
#include "helper_cuda.h"
int main() { thrust::device_vector<float> v(10); std::cout << v[0] << std::endl; checkCudaErrors(0); }
"""
    lifted = lift_text(host + GOOD)
    assert lifted.original.text.strip() == GOOD.strip()


def test_unused_errors_elsewhere_do_not_matter(lift_text: Lift) -> None:
    assert lift_text("__device__ float f() { return oops; }\n" + GOOD).kernel.name == "a"


def test_deep_nesting_is_refused_not_a_crash(lift_text: Lift) -> None:
    deep = GOOD.replace("y[i] = 1", "y[i] = " + "(" * 230 + "1.f" + " + 1.f)" * 230)
    with pytest.raises(EvolveError):
        lift_text(deep)


def test_exponential_inlining_is_bounded(lift_text: Lift) -> None:
    steps = "".join(f"float v{k + 1} = v{k} * v{k} + v{k};" for k in range(40))
    lifted = lift_text(GOOD.replace("y[i] = 1;", f"{{ float v0 = y[i]; {steps} y[i] = v40; }}"))
    assert len(str(lifted.kernel)) < 500_000


def test_many_early_exits_are_refused_or_lifted_but_never_crash(lift_text: Lift) -> None:
    exits = "".join(f"if (i == n - {k}) return;\n" for k in range(2, 900))
    with pytest.raises(CannotLiftError, match="deeply"):
        lift_text(GOOD.replace("if (i < n)", f"if (i >= n) return; {exits}"))


def test_index_arithmetic_that_explodes_is_refused(lift_text: Lift) -> None:
    product = " * ".join(["(i + n + a + b + c)"] * 12)
    text = GOOD.replace("int n)", "int n, int a, int b, int c)").replace("y[i]", f"y[{product}]")
    with pytest.raises(CannotLiftError, match="terms"):
        lift_text(text)


CALLS = "".join(
    f"__device__ float f{k}(float a) {{ return f{k - 1}(a) + f{k - 1}(a + 1.f); }}\n" for k in range(1, 25)
)


@pytest.mark.parametrize(
    ("before", "body", "reason"),
    [
        (
            "__device__ float f0(float a) { return a; }\n" + CALLS,
            "y[i] = f24(1.f);",
            "more than 4000 statements",
        ),
        ("", "float t[1 << 28] = {1.f}; y[i] = t[5];", "more than 4000 elements"),
    ],
)
def test_what_grows_without_end_is_refused_at_once(
    before: str, body: str, reason: str, lift_text: Lift
) -> None:
    head = "__global__ void k(float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {"
    with pytest.raises(CannotLiftError, match=reason):
        lift_text(f"{before}{head} {body} }} }}\n")
