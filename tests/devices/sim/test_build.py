"""What may be compiled: device code only, and errors with their place."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch
from evolve.devices.sim.build import compile_host, default_cache_dir
from evolve.devices.sim.execute import execute
from evolve.devices.sim.source import mask, prepare
from evolve.ir.errors import EvolveError
from evolve.toolchain.host_cxx import HostCompiler, find_host_compiler

WITH_HOST = """\
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>
#define N 64  // the size
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) exit(1); } while (0)
typedef float real;
constexpr int twice(int v) { return 2 * v; }
struct Pair { real a, b; };
static __device__ __forceinline__ real add(real a, real b) { return a + b; }
template <typename T>
__device__ T same(T v) { return v; }
__constant__ real scale[2] = {2.0f, 3.0f};
template <typename T> void host_only(std::vector<T>& v) { v.push_back(T()); }
__global__ void k(const real *x, real *y /* out } */) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) y[i] = same(add(x[i], (real)twice(1))) * scale[1];
}
int main(int argc, char **argv) {
  std::vector<float> h(N, 1.0f);
  float *x, *y;
  CHECK(cudaMalloc(&x, N * sizeof(float)));
  k<<<(N + 31) / 32, 32>>>(x, y);
  printf("} done {\\n");
  return 0;
}
"""


def test_host_code_is_left_out(cache: Path, compiler: HostCompiler) -> None:
    program = compile_host(WITH_HOST, ["k"], cache, compiler=compiler)
    x = np.arange(64, dtype=np.float32)
    launch = ConcreteLaunch("k", (BufferArg("x"), BufferArg("y")), (2, 1, 1), (32, 1, 1))
    done = execute(program, [launch], {"x": x, "y": np.zeros_like(x)}, {"y"})
    assert done.ok
    np.testing.assert_array_equal(done.outputs["y"], (x + 2) * 3)


def test_lines_are_kept() -> None:
    prepared = prepare(WITH_HOST, ("k",)).text.splitlines()
    for i, line in enumerate(WITH_HOST.splitlines()):
        assert prepared[i] in (line, "") or not prepared[i].strip()
    assert "main" not in "\n".join(prepared)


def test_shared_declarations_in_all_their_forms() -> None:
    text = (
        "extern __shared__ float dyn[];\n"
        "__global__ void k(float* y) {\n"
        "  __shared__ float a[4][8], b;\n"
        "  __shared__ __align__(16) double\n    c[2];\n"
        "  volatile __shared__ int d[3]; // __shared__ float no[1];\n"
        "}\n"
    )
    prepared = prepare(text, ("k",))
    assert [(d.id, d.name, d.line) for d in prepared.shared] == [
        (0, "dyn", 1), (2, "a", 3), (3, "b", 3), (4, "c", 4), (5, "d", 6),
    ]  # fmt: skip
    assert prepared.text.count("\n") == text.count("\n")
    assert "__shared__" not in mask(prepared.text)


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("\n#include <cub/cub.cuh>\n__global__ void k() {}\n", "sim.include", 2),
        ('\n\n__global__ void k() { asm("nop"); }\n', "sim.asm", 3),
        ("__global__ void other() {}\n", "sim.entry", None),
        ("__global__ void k() {\n", "sim.syntax", 1),
        ("__global__ void k(float* y) {\n  y[0] = undeclared;\n}\n", "sim.compile", 2),
        ("__global__ void k(float* y) {\n  __shared__ float s[] = {1};\n}\n", "sim.shared", 2),
        (
            'extern "C" __device__ int system(const char*);\n__global__ void k() { system("id"); }\n',
            "sim.symbol", None,
        ),
        (
            "__device__ float start() { return 2; }\n__device__ float g = expf(start());\n"
            "__global__ void k(float* y) { y[0] = g; }\n",
            "sim.static", None,
        ),
    ],
)  # fmt: skip
def test_refusals(cache: Path, compiler: HostCompiler, text: str, code: str, line: int | None) -> None:
    with pytest.raises(EvolveError) as caught:
        compile_host(text, ["k"], cache, compiler=compiler)
    assert (caught.value.code, caught.value.line) == (code, line)


def test_system_calls_end_the_process(cache: Path, compiler: HostCompiler) -> None:
    """The asm keyword made by token pasting slips through the scan; the kernel's filter does not let it."""
    if os.uname().machine != "x86_64":
        pytest.skip("the assembly is for x86-64")
    text = (
        "#define CAT(a, b) a##b\n"
        "__global__ void k(long* y) { long r;\n"
        'CAT(as, m) volatile("syscall" : "=a"(r) : "a"(39L) : "rcx", "r11", "memory"); y[0] = r; }\n'
    )
    program = compile_host(text, ["k"], cache, compiler=compiler)
    done = execute(
        program,
        [ConcreteLaunch("k", (BufferArg("y"),), (1, 1, 1), (1, 1, 1))],
        {"y": np.zeros(1, np.int64)},
        {"y"},
    )
    assert [f.kind for f in done.findings] == ["crash"]
    assert "system call" in done.findings[0].message


def test_programs_are_cached(tmp_path: Path, compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "__global__ void k(float* y) { y[0] = 1; }\n"
    first = compile_host(text, ["k"], tmp_path, compiler=compiler)
    monkeypatch.setattr("evolve.devices.sim.build._call", None)
    assert compile_host(text, ["k"], tmp_path, compiler=compiler) == first
    with pytest.raises(TypeError):
        compile_host(text.replace("1", "2"), ["k"], tmp_path, compiler=compiler)


def test_without_any_compiler_installed(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    empty = tmp_path / "bin"
    empty.mkdir()
    found = find_host_compiler({"PATH": str(empty)})
    assert found.kind == "zig"
    text = "__global__ void k(float* y) { y[threadIdx.x] = rsqrtf(4.0f); }\n"
    program = compile_host(text, ["k"], tmp_path, compiler=found)
    launch = ConcreteLaunch("k", (BufferArg("y"),), (1, 1, 1), (8, 1, 1))
    done = execute(program, [launch], {"y": np.zeros(8, np.float32)}, {"y"})
    assert done.ok
    np.testing.assert_array_equal(done.outputs["y"], 0.5)


def test_the_runtime_compiles_for_arm(tmp_path: Path) -> None:
    """Cross-compiled only: the switch for aarch64 must at least assemble and link."""
    pytest.importorskip("ziglang")
    import subprocess

    from evolve.devices.sim.build import NATIVE

    args = [
        sys.executable,
        "-m",
        "ziglang",
        "c++",
        "-target",
        "aarch64-linux-gnu",
        "-std=gnu++17",
        "-O2",
        "-fPIC",
    ]
    args += ["-ffreestanding", "-fno-builtin", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden"]
    args += ["-c", str(NATIVE / "runtime.cpp"), "-o", str(tmp_path / "runtime.o")]
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_cache_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_cache_dir() == tmp_path / "cache" / "evolve" / "host"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/proc/none")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    assert default_cache_dir().parent == tmp_path
