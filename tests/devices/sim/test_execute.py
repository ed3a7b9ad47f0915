"""Runs are right, defects of single accesses are found with kind, line, place and thread, limits hold."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, execute
from evolve.ir.errors import EvolveError
from evolve.toolchain.host_cxx import HostCompiler
from tests.devices.sim.kernels_for_tests import ALL, SOFTMAX, kernel, run


@pytest.mark.parametrize("orders", [ALL])
def test_softmax_is_clean_and_right(cache: Path, compiler: HostCompiler, orders: tuple[str, ...]) -> None:
    program = compile_host(SOFTMAX, ["softmax"], cache, compiler=compiler)
    x = np.random.default_rng(1).normal(size=(5, 333)).astype(np.float32)
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("rows", "i32", 5), ScalarArg("cols", "i32", 333))
    launch = ConcreteLaunch("softmax", args, (5, 1, 1), (128, 1, 1))
    done = execute(program, [launch], {"x": x, "y": np.zeros_like(x)}, {"y"}, ExecOptions(orders=orders))
    assert done.findings == ()
    want = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    want /= want.sum(1, keepdims=True)
    np.testing.assert_allclose(done.outputs["y"], want, rtol=1e-5)
    assert done.written["y"].all()
    assert done.order_sensitive == ()


@pytest.mark.parametrize(
    ("body", "index", "word"),
    [
        ("y[t] = x[t + 1];", 64, "reads"),
        ("y[t - 1] = x[t];", -1, "writes"),
        ("y[t + 4000] = x[t];", 4000, "writes"),
    ],
)
def test_out_of_bounds(cache: Path, compiler: HostCompiler, body: str, index: int, word: str) -> None:
    done = run(cache, compiler, kernel(body))
    found = [f for f in done.findings if f.kind == "out-of-bounds"]
    assert [(f.line, f.index) for f in found] == [(2, index)]
    assert found[0].buffer == ("x" if word == "reads" else "y")
    assert word in found[0].message
    thread = {64: 63, -1: 0, 4000: 0}[index]
    assert found[0].threads == (((0, 0, 0), (thread, 0, 0)),)


def test_shared_out_of_bounds_and_wild_pointer(cache: Path, compiler: HostCompiler) -> None:
    done = run(
        cache,
        compiler,
        kernel("__shared__ float s[64];\n__shared__ float r[64]; r[t] = 0;\ns[t + 1] = x[t]; y[t] = r[t];"),
    )
    assert [(f.kind, f.line, f.buffer, f.index) for f in done.findings] == [("out-of-bounds", 4, "s", 256)]
    wild = run(cache, compiler, kernel("y[t] = x[t] + *(const float*)((size_t)n * 1000000007ull);"))
    assert [(f.kind, f.line) for f in wild.findings] == [("out-of-bounds", 2)]


def test_uninitialised_shared_and_output_reads(cache: Path, compiler: HostCompiler) -> None:
    done = run(
        cache,
        compiler,
        kernel("__shared__ float s[64];\nif (t != 7) s[t] = x[t];\n__syncthreads();\ny[t] = s[t];"),
    )
    assert [(f.kind, f.line, f.buffer, f.index) for f in done.findings] == [("uninitialised", 5, "s", 28)]
    assert done.findings[0].threads[0][1] == (7, 0, 0)
    plus = run(cache, compiler, kernel("y[t] += x[t];"))
    assert {(f.kind, f.line, f.buffer) for f in plus.findings} == {("uninitialised", 2, "y")}
    assert run(cache, compiler, kernel("y[t] += x[t];"), options=ExecOptions(inout=frozenset({"y"}))).ok


def test_unwritten_outputs_show_in_the_mask(cache: Path, compiler: HostCompiler) -> None:
    done = run(cache, compiler, kernel("if (t % 3 == 0) y[t] = x[t];"))
    assert done.ok
    np.testing.assert_array_equal(done.written["y"], np.arange(64) % 3 == 0)
    assert np.isnan(done.outputs["y"][1])


def test_misaligned_vector_access(cache: Path, compiler: HostCompiler) -> None:
    body = "if (t < 8) {\nfloat4 v = *reinterpret_cast<const float4*>(x + 4 * t + 1);\ny[t] = v.x + v.w; }"
    done = run(cache, compiler, kernel(body))
    assert [(f.kind, f.line, f.buffer, f.index) for f in done.findings] == [("misaligned", 3, "x", 1)]
    assert run(cache, compiler, kernel(body.replace("+ 1)", ")"))).ok


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("int i = 0;\nwhile (n) { i += n;\nif (i == 12345 - n * 3) n = n + i; }\ny[t] = i;", {3, 4}),
        ("while (x[t] > 0)\n;\ny[t] = 1;", {2, 3}),
    ],
)
def test_infinite_loops_end_with_their_line(
    cache: Path, compiler: HostCompiler, body: str, line: set[int]
) -> None:
    done = run(cache, compiler, kernel(body), options=ExecOptions(time_limit_s=0.5, quantum=100_000))
    assert [f.kind for f in done.findings] == ["timeout"]
    assert done.findings[0].line in line
    assert done.findings[0].threads == (((0, 0, 0), (0, 0, 0)),)


def test_crash_is_a_finding(cache: Path, compiler: HostCompiler) -> None:
    done = run(cache, compiler, kernel("int z = (int)x[0] - 1;\ny[t] = 7 / z;"))
    assert [(f.kind, f.line) for f in done.findings] == [("crash", 3)]
    deep = (
        "__device__ __noinline__ int f(int n) {\n"
        "volatile int a[64]; a[n & 63] = n; return n ? f(n + 1) + a[0] : 0; }\n"
    )
    done = run(cache, compiler, deep + kernel("y[t] = f(n);"))
    assert [f.kind for f in done.findings] == ["stack"]
    assert "stack" in done.findings[0].message


def test_writing_through_a_read_only_buffer(cache: Path, compiler: HostCompiler) -> None:
    done = run(cache, compiler, kernel("((float*)x)[t] = 0; y[t] = 1;"))
    assert [(f.kind, f.buffer, f.line) for f in done.findings] == [("out-of-bounds", "x", 2)]
    assert "read-only" in done.findings[0].message


def test_scalars_take_the_parameter_type(cache: Path, compiler: HostCompiler) -> None:
    text = (
        'extern "C" __global__ void k(float* y, size_t n, unsigned u, double d, float f, '
        "long long l, bool b) {\n"
        "y[0] = n; y[1] = u; y[2] = d; y[3] = f; y[4] = l; y[5] = b; }\n"
    )
    program = compile_host(text, ["k"], cache, compiler=compiler)
    args = (
        BufferArg("y"), ScalarArg("n", "u64", 2**40), ScalarArg("u", "u32", 2**31),
        ScalarArg("d", "f64", 0.5),
        ScalarArg("f", "f32", 0.25), ScalarArg("l", "i64", -3), ScalarArg("b", "i32", 1),
    )  # fmt: skip
    launch = ConcreteLaunch("k", args, (1, 1, 1), (1, 1, 1))
    done = execute(program, [launch], {"y": np.zeros(6, np.float32)}, {"y"})
    np.testing.assert_array_equal(done.outputs["y"], np.float32([2**40, 2**31, 0.5, 0.25, -3, 1]))
    with pytest.raises(EvolveError, match="arguments do not fit"):
        execute(
            program,
            [ConcreteLaunch("k", args[:3], (1, 1, 1), (1, 1, 1))],
            {"y": np.zeros(6, np.float32)},
            {"y"},
        )


def test_dynamic_shared_memory(cache: Path, compiler: HostCompiler) -> None:
    text = "extern __shared__ float dyn[];\n" + kernel(
        "dyn[t] = x[t];\n__syncthreads();\ny[t] = dyn[63 - t];"
    )
    program = compile_host(text, ["k"], cache, compiler=compiler)
    x = np.arange(64, dtype=np.float32)
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", 64))
    arrays = {"x": x, "y": np.zeros_like(x)}
    done = execute(program, [ConcreteLaunch("k", args, (1, 1, 1), (64, 1, 1), 256)], arrays, {"y"})
    assert done.ok
    np.testing.assert_array_equal(done.outputs["y"], x[::-1])
    short = execute(program, [ConcreteLaunch("k", args, (1, 1, 1), (64, 1, 1), 252)], arrays, {"y"})
    assert ("out-of-bounds", "dyn") in {(f.kind, f.buffer) for f in short.findings}


LAID = """extern __shared__ __align__(16) unsigned char memory[];
float (&a)[64] = *reinterpret_cast<float (*)[64]>(memory + {a});
float (&b)[64] = *reinterpret_cast<float (*)[64]>(memory + {b});
a[t] = x[t];
b[t] = -x[t];
__syncthreads();
y[t] = a[63 - t] + 2 * b[{at}];"""


@pytest.mark.parametrize(
    ("a", "b", "at", "found"),
    [
        (0, 256, "t", set()),
        (0, 256, "t - 1", {("out-of-bounds", "b")}),
        (256, 0, "t + 1", {("out-of-bounds", "b")}),
        (0, 252, "t", {("crash", None)}),
        (0, 260, "t", {("crash", None)}),
    ],
    ids=["apart", "into a", "beyond both", "over one another", "outside"],
)
def test_arrays_laid_into_dynamic_shared_memory_are_checked_one_by_one(
    cache: Path, compiler: HostCompiler, a: int, b: int, at: str, found: set[tuple[str, str | None]]
) -> None:
    program = compile_host(kernel(LAID.format(a=a, b=b, at=at)), ["k"], cache, compiler=compiler)
    x = np.arange(64, dtype=np.float32)
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", 64))
    launch = ConcreteLaunch("k", args, (1, 1, 1), (64, 1, 1), 512)
    done = execute(program, [launch], {"x": x, "y": np.zeros_like(x)}, {"y"})
    assert {(f.kind, f.buffer) for f in done.findings} == found
    if not found:
        np.testing.assert_array_equal(done.outputs["y"], x[::-1] - 2 * x)


def test_vectors_in_an_array_laid_at_no_multiple_of_their_size(cache: Path, compiler: HostCompiler) -> None:
    text = kernel("""extern __shared__ __align__(16) unsigned char memory[];
float (&a)[256] = *reinterpret_cast<float (*)[256]>(memory + 8);
*reinterpret_cast<float4*>(&a[4 * t]) = make_float4(x[t], 0, 0, 0);
y[t] = a[4 * t];""")
    program = compile_host(text, ["k"], cache, compiler=compiler)
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", 64))
    arrays = {"x": np.ones(64, np.float32), "y": np.zeros(64, np.float32)}
    done = execute(program, [ConcreteLaunch("k", args, (1, 1, 1), (64, 1, 1), 2048)], arrays, {"y"})
    assert {(f.kind, f.buffer) for f in done.findings} == {("misaligned", "a")}


def test_a_dynamic_array_used_as_one_stays_one(cache: Path, compiler: HostCompiler) -> None:
    text = kernel("""extern __shared__ unsigned char memory[];
float (&a)[64] = *reinterpret_cast<float (*)[64]>(memory + 0);
float (&b)[64] = *reinterpret_cast<float (*)[64]>(memory + 0);
float* all = (float*)memory;
a[t] = x[t];
y[t] = b[t] + all[t];""")
    program = compile_host(text, ["k"], cache, compiler=compiler)
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", 64))
    arrays = {"x": np.ones(64, np.float32), "y": np.zeros(64, np.float32)}
    done = execute(program, [ConcreteLaunch("k", args, (1, 1, 1), (64, 1, 1), 256)], arrays, {"y"})
    assert done.ok
    np.testing.assert_array_equal(done.outputs["y"], np.full(64, 2, np.float32))


def test_order_sensitive_results_are_named(cache: Path, compiler: HostCompiler) -> None:
    text = kernel("atomicExch(&y[0], x[t]);\nif (t < 63) y[1 + t] = 0;")
    done = run(cache, compiler, text, options=ExecOptions(inout=frozenset({"y"}), orders=ALL))
    assert done.ok
    assert done.order_sensitive == ("y",)
    assert done.outputs["y"][0] == 64


def test_runs_side_by_side(cache: Path, compiler: HostCompiler) -> None:
    text = kernel("y[t] = x[t] * n;")

    def one(i: int) -> float:
        return float(run(cache, compiler, text, n_in=64 + i).outputs["y"][1])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(8))) == [2.0 * (64 + i) for i in range(8)]


def test_limits_of_memory_and_launch(cache: Path) -> None:
    program = compile_host(kernel("y[t] = x[t];"), ["k"], cache)
    big = np.zeros(32 << 20, np.float32)
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", 1))
    launch = ConcreteLaunch("k", args, (1, 1, 1), (64, 1, 1))
    with pytest.raises(EvolveError) as caught:
        execute(program, [launch], {"x": big, "y": big}, {"y"}, ExecOptions(memory_limit_mb=64))
    assert caught.value.code == "sim.memory"
    small = {"x": big[:64], "y": big[:64]}
    for bad in (
        ConcreteLaunch("k", args, (1, 1, 1), (1025, 1, 1)),
        ConcreteLaunch("k", args, (0, 1, 1), (64, 1, 1)),
        ConcreteLaunch("other", args, (1, 1, 1), (64, 1, 1)),
        ConcreteLaunch("k", (BufferArg("z"), *args[1:]), (1, 1, 1), (64, 1, 1)),
        ConcreteLaunch("k", (args[2], *args[1:]), (1, 1, 1), (64, 1, 1)),
    ):
        with pytest.raises(EvolveError) as caught:
            execute(program, [bad], small, {"y"})
        assert caught.value.code == "sim.launch"


def test_the_callers_arrays_never_change(cache: Path) -> None:
    program = compile_host(kernel("y[t] += x[t];"), ["k"], cache)
    x, y = np.ones(64, np.float32), np.full(64, 2, np.float32)
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", 1))
    launch = ConcreteLaunch("k", args, (1, 1, 1), (64, 1, 1))
    options = ExecOptions(inout=frozenset({"y"}))
    done = execute(program, [launch, launch], {"x": x, "y": y}, {"y"}, options)
    assert (done.outputs["y"] == 4).all()
    assert (y == 2).all()


def test_three_dimensional_launches(cache: Path, compiler: HostCompiler) -> None:
    text = (
        'extern "C" __global__ void k(int* y) {\n'
        "int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
        "int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
        "y[b * 24 + t] = 100 * b + t; }\n"
    )
    program = compile_host(text, ["k"], cache, compiler=compiler)
    launch = ConcreteLaunch("k", (BufferArg("y"),), (3, 2, 2), (4, 3, 2))
    done = execute(program, [launch], {"y": np.zeros((12, 24), np.int32)}, {"y"}, ExecOptions(orders=ALL))
    assert done.ok
    want = 100 * np.arange(12)[:, None] + np.arange(24)
    np.testing.assert_array_equal(done.outputs["y"], want)
