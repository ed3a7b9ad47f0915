"""Each planted defect is found, with its kind, line, place and threads; clean kernels stay clean."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, Execution, execute
from evolve.ir.errors import EvolveError
from evolve.toolchain.host_cxx import HostCompiler, find_host_compiler
from tests.devices.sim.kernels_for_tests import SOFTMAX

ALL = ("forward", "reversed", "permuted")


def run(
    cache: Path, compiler: HostCompiler, text: str, n_out: int = 64, block: int = 64, grid: int = 1,
    n_in: int = 64, options: ExecOptions | None = None,
) -> Execution:  # fmt: skip
    """Runs `k(const float* x, float* y, int n)`; x counts up from 1."""
    program = compile_host(text, ["k"], cache, compiler=compiler)
    x = np.arange(1, n_in + 1, dtype=np.float32)
    y = np.zeros(n_out, np.float32)
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", n_in))
    launch = ConcreteLaunch("k", args, (grid, 1, 1), (block, 1, 1))
    return execute(program, [launch], {"x": x, "y": y}, {"y"}, options or ExecOptions())


def kernel(body: str) -> str:
    """Line 1 is the head, so that body lines count from 2."""
    return (
        f'extern "C" __global__ void k(const float* x, float* y, int n) {{ int t = threadIdx.x;\n{body}\n}}\n'
    )


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


def test_missing_barrier_is_a_race_in_shared_memory(cache: Path, compiler: HostCompiler) -> None:
    done = run(cache, compiler, kernel("__shared__ float s[64];\ns[t] = x[t];\ny[t] = s[t ^ 1];"))
    races = [f for f in done.findings if f.kind == "race"]
    assert races, done.findings
    race = races[0]
    assert (race.buffer, {race.line, race.other_line}) == ("s", {3, 4})
    a, b = race.threads
    assert a[0] == b[0] == (0, 0, 0)
    assert abs(a[1][0] - b[1][0]) == 1
    assert run(
        cache, compiler, kernel("__shared__ float s[64];\ns[t] = x[t]; __syncthreads();\ny[t] = s[t ^ 1];")
    ).ok


def test_barrier_before_reuse_is_needed(cache: Path, compiler: HostCompiler) -> None:
    body = (
        "__shared__ float s[64];\nfor (int i = 0; i < 2; i++) {\ns[t] = x[t] + i;\n__syncthreads();\n"
        "y[t] = s[63 - t];\nBARRIER }"
    )
    done = run(cache, compiler, kernel(body.replace("BARRIER", "")))
    assert {(f.kind, f.buffer) for f in done.findings} == {("race", "s")}
    assert run(cache, compiler, kernel(body.replace("BARRIER", "__syncthreads();"))).ok


def test_race_between_blocks(cache: Path, compiler: HostCompiler) -> None:
    done = run(cache, compiler, kernel("y[t] = x[t] + blockIdx.x;"), grid=2)
    assert [(f.kind, f.line, f.buffer) for f in done.findings] == [("race", 2, "y")]
    a, b = done.findings[0].threads
    assert {a[0], b[0]} == {(0, 0, 0), (1, 0, 0)}


def test_read_of_what_another_block_writes(cache: Path, compiler: HostCompiler) -> None:
    text = kernel("if (blockIdx.x == 0) y[t] = x[t]; else y[t + 64] = y[t];")
    done = run(cache, compiler, text, grid=2, n_out=128)
    assert ("race", "y") in {(f.kind, f.buffer) for f in done.findings}
    reverse = run(cache, compiler, text, grid=2, n_out=128, options=ExecOptions(orders=("reversed",)))
    assert "race" in {f.kind for f in reverse.findings}


def test_write_after_many_blocks_read(cache: Path, compiler: HostCompiler) -> None:
    text = kernel("if (blockIdx.x < 3) y[1 + blockIdx.x * 64 + t] = y[0]; else if (t == 5) y[0] = 1;")
    program = compile_host(text, ["k"], cache, compiler=compiler)
    y = np.zeros(256, np.float32)
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", 0))
    launch = ConcreteLaunch("k", args, (4, 1, 1), (64, 1, 1))
    done = execute(
        program, [launch], {"x": np.zeros(1, np.float32), "y": y}, {"y"}, ExecOptions(inout=frozenset({"y"}))
    )
    assert {(f.kind, f.index) for f in done.findings} == {("race", 0)}


def test_launches_are_ordered(cache: Path, compiler: HostCompiler) -> None:
    program = compile_host(kernel("y[blockIdx.x * 64 + t] = x[63 - t];"), ["k"], cache, compiler=compiler)
    x, y, z = (np.arange(64, dtype=np.float32) for _ in range(3))
    n = ScalarArg("n", "i32", 64)
    launches = [
        ConcreteLaunch("k", (BufferArg("x"), BufferArg("y"), n), (1, 1, 1), (64, 1, 1)),
        ConcreteLaunch("k", (BufferArg("y"), BufferArg("z"), n), (1, 1, 1), (64, 1, 1)),
    ]
    done = execute(program, launches, {"x": x, "y": y, "z": z}, {"y", "z"})
    assert done.ok
    np.testing.assert_array_equal(done.outputs["z"], x)


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


def test_shared_memory_is_fresh_in_every_block(cache: Path, compiler: HostCompiler) -> None:
    body = (
        "__shared__ float s[64];\n"
        "if (blockIdx.x == 0) s[t] = x[t];\n"
        "__syncthreads();\n"
        "if (blockIdx.x) y[t] = s[t];"
    )
    done = run(cache, compiler, kernel(body), grid=2)
    assert {f.kind for f in done.findings} == {"uninitialised"}


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


def test_divergent_barriers(cache: Path, compiler: HostCompiler) -> None:
    done = run(cache, compiler, kernel("if (t < 32)\n__syncthreads();\nelse\n__syncthreads();\ny[t] = x[t];"))
    assert [(f.kind, f.line, f.other_line) for f in done.findings] == [("divergent-barrier", 3, 5)]
    assert [t[1][0] for t in done.findings[0].threads] == [0, 32]
    left = run(cache, compiler, kernel("if (t == 63) return;\n__syncthreads();\ny[t] = x[t];"))
    assert [(f.kind, f.line) for f in left.findings] == [("divergent-barrier", 3)]
    assert left.findings[0].threads[1][1] == (63, 0, 0)


def test_shuffles(cache: Path, compiler: HostCompiler) -> None:
    good = run(
        cache, compiler,
        kernel(
"float v = x[t];\n"
"for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);\n"
"y[t] = v;"
),
    )  # fmt: skip
    assert good.ok
    assert good.outputs["y"][0] == np.arange(1, 33).sum()
    assert good.outputs["y"][63] == np.arange(33, 65).sum()
    half = run(
        cache,
        compiler,
        kernel(
            "float v = x[t];\n"
            "if (t % 32 < 16)\n"
            "v = __shfl_down_sync(0xffffffffu, v, 1);\n"
            "__syncthreads();\n"
            "y[t] = v;"
        ),
    )
    assert [(f.kind, f.line, f.other_line) for f in half.findings] == [("shuffle", 4, 5)]
    assert half.findings[0].threads[1][1][0] % 32 >= 16
    gone = run(
        cache, compiler, kernel("if (t % 32 == 31) return;\ny[t] = __shfl_down_sync(0xffffffffu, x[t], 1);")
    )
    assert [(f.kind, f.line) for f in gone.findings] == [("shuffle", 3)]
    assert [t[1][0] for t in gone.findings[0].threads] == [30, 31]
    own = run(cache, compiler, kernel("y[t] = __shfl_sync(0xffffu, x[t], 0);"))
    assert [(f.kind, f.line) for f in own.findings] == [("shuffle", 2)]
    assert own.findings[0].threads[0][1] == (16, 0, 0)


def test_shuffle_widths_and_collectives(cache: Path, compiler: HostCompiler) -> None:
    body = (
        "float a = __shfl_down_sync(~0u, x[t], 3, 8), b = __shfl_up_sync(~0u, x[t], 2, 16);\n"
        "float c = __shfl_sync(~0u, x[t], 5, 8);\n"
        "unsigned m = __ballot_sync(~0u, t & 1);\n"
        "int s = __reduce_add_sync(~0u, t);\n"
        "y[t] = a; y[64 + t] = b; y[128 + t] = c; y[192 + t] = m; y[256 + t] = s;\n"
        "y[320 + t] = __syncthreads_count(t < 10);"
    )
    done = run(cache, compiler, kernel(body), n_out=384)
    assert done.ok
    t = np.arange(64)
    y = done.outputs["y"].reshape(6, 64)
    np.testing.assert_array_equal(y[0], np.where(t % 8 + 3 < 8, t + 4, t + 1))
    np.testing.assert_array_equal(y[1], np.where(t % 16 >= 2, t - 1, t + 1))
    np.testing.assert_array_equal(y[2], t // 8 * 8 + 6)
    np.testing.assert_array_equal(y[3], np.full(64, np.float32(0xAAAAAAAA)))
    np.testing.assert_array_equal(y[4], np.where(t < 32, 496, 1520))
    np.testing.assert_array_equal(y[5], 10)


def test_syncwarp_orders_lanes_of_its_mask_only(cache: Path, compiler: HostCompiler) -> None:
    body = "__shared__ float s[64];\ns[t] = x[t];\nSYNC;\ny[t] = s[t ^ XOR];"

    def kinds(sync: str, xor: int) -> set[str]:
        text = kernel(body.replace("SYNC", sync).replace("XOR", str(xor)))
        return {
            f.kind
            for order in ALL
            for f in run(cache, compiler, text, options=ExecOptions(orders=(order,))).findings
        }

    assert kinds("__syncwarp()", 1) == set()
    assert kinds("__syncwarp()", 32) >= {"race"}
    assert kinds("__syncwarp(t & 16 ? 0xffff0000u : 0xffffu)", 8) == set()
    assert kinds("__syncwarp(t & 16 ? 0xffff0000u : 0xffffu)", 16) >= {"race"}
    assert kinds("__shfl_sync(~0u, x[t], 0)", 1) >= {"race"}


def test_atomics_do_not_race_among_themselves(cache: Path, compiler: HostCompiler) -> None:
    text = kernel("if (t == 0 && n < 0) y[1] = 0;\natomicAdd(&y[0], x[t]);")
    done = run(cache, compiler, text, grid=4, options=ExecOptions(inout=frozenset({"y"}), orders=ALL))
    assert done.findings == ()
    assert done.outputs["y"][0] == 4 * np.arange(1, 65).sum()
    mixed = run(
        cache,
        compiler,
        kernel("atomicAdd(&y[0], x[t]);\nif (t == 9) y[0] = 0;"),
        options=ExecOptions(inout=frozenset({"y"})),
    )
    assert {f.kind for f in mixed.findings} == {"race"}


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
    assert [f.kind for f in done.findings] == ["crash"]
    assert "stack" in done.findings[0].message


def test_bytes_share_words_without_racing(cache: Path, compiler: HostCompiler) -> None:
    text = (
        'extern "C" __global__ void k(unsigned char* y, int n) { int t = threadIdx.x;\ny[t + SHIFT] = t; }\n'
    )

    def go(shift: str, grid: int) -> Execution:
        program = compile_host(text.replace("SHIFT", shift), ["k"], cache, compiler=compiler)
        launch = ConcreteLaunch("k", (BufferArg("y"), ScalarArg("n", "i32", 1)), (grid, 1, 1), (64, 1, 1))
        return execute(program, [launch], {"y": np.zeros(128, np.uint8)}, {"y"})

    assert go("0", 1).ok
    assert {f.kind for f in go("blockIdx.x * 63", 2).findings} == {"race"}
    shared = kernel("__shared__ char s[64];\ns[t] = t;\ny[t] = s[t];")
    assert run(cache, compiler, shared).ok


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


LAST_BLOCK = """\
__device__ unsigned int none;
extern "C" __global__ void k(const float* x, float* part, unsigned int* ticket, float* y) {
  __shared__ bool last;
  __shared__ float s[32];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 32 + t];
  __syncthreads();
  if (t == 0) {
    float a = 0;
    for (int i = 0; i < 32; i++) a += s[i];
    part[blockIdx.x] = a;
    FENCE;
    last = atomicInc(TICKET, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && t == 0) {
    float a = 0;
    for (int i = 0; i < gridDim.x; i++) a += part[i];
    y[0] = a;
  }
}
"""


@pytest.mark.parametrize(
    ("fence", "ticket", "clean"),
    [("__threadfence()", "ticket", True), ("", "ticket", False), ("__threadfence_block()", "ticket", False)],
)
def test_fenced_atomics_order_blocks(
    cache: Path, compiler: HostCompiler, fence: str, ticket: str, clean: bool
) -> None:
    text = LAST_BLOCK.replace("FENCE", fence).replace("TICKET", ticket)
    program = compile_host(text, ["k"], cache, compiler=compiler)
    x = np.arange(128, dtype=np.float32)
    arrays = {"x": x, "part": np.zeros(4, np.float32), "ticket": np.zeros(1, np.uint32), "y": x[:1]}
    launch = ConcreteLaunch("k", tuple(BufferArg(n) for n in arrays), (4, 1, 1), (32, 1, 1))
    options = ExecOptions(inout=frozenset({"ticket"}), orders=ALL)
    done = execute(program, [launch], arrays, {"part", "ticket", "y"}, options)
    assert done.outputs["y"][0] == x.sum()
    if clean:
        assert done.findings == ()
    else:
        assert {(f.kind, f.buffer, f.line) for f in done.findings} == {("race", "part", 18)}


def test_a_fence_covers_only_what_came_before_it(cache: Path) -> None:
    late = "FENCE;\n    last = atomicInc(TICKET, gridDim.x - 1) == gridDim.x - 1;"
    text = LAST_BLOCK.replace(late, "__threadfence();\n" + late).replace("    part[blockIdx.x] = a;\n", "")
    text = text.replace("== gridDim.x - 1;", "== gridDim.x - 1; part[blockIdx.x] = a;").replace("FENCE", "")
    program = compile_host(text.replace("TICKET", "ticket"), ["k"], cache)
    x = np.arange(128, dtype=np.float32)
    arrays = {"x": x, "part": np.zeros(4, np.float32), "ticket": np.zeros(1, np.uint32), "y": x[:1]}
    launch = ConcreteLaunch("k", tuple(BufferArg(n) for n in arrays), (4, 1, 1), (32, 1, 1))
    options = ExecOptions(inout=frozenset({"ticket"}))
    done = execute(program, [launch], arrays, {"part", "ticket", "y"}, options)
    assert {(f.kind, f.buffer) for f in done.findings} == {("race", "part")}


def test_a_lock_between_threads_of_a_block_makes_progress(cache: Path, compiler: HostCompiler) -> None:
    text = (
        'extern "C" __global__ void k(int* flag, float* y) {\n'
        "if (threadIdx.x == 0) { while (atomicAdd(flag, 0) == 0) {} y[0] = 1; }\n"
        "if (threadIdx.x == 32) atomicExch(flag, 1);\n}\n"
    )
    program = compile_host(text, ["k"], cache, compiler=compiler)
    arrays = {"flag": np.zeros(1, np.int32), "y": np.zeros(1, np.float32)}
    launch = ConcreteLaunch("k", (BufferArg("flag"), BufferArg("y")), (1, 1, 1), (64, 1, 1))
    done = execute(
        program, [launch], arrays, {"flag", "y"}, ExecOptions(inout=frozenset({"flag"}), orders=ALL)
    )
    assert done.ok


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


def test_race_threads_are_named_in_three_dimensions(cache: Path) -> None:
    text = (
        'extern "C" __global__ void k(int* y) {\n'
        "if (threadIdx.y == 1 && threadIdx.x == 2) y[blockIdx.y] = threadIdx.z; }\n"
    )
    program = compile_host(text, ["k"], cache)
    launch = ConcreteLaunch("k", (BufferArg("y"),), (1, 2, 1), (4, 3, 2))
    done = execute(program, [launch], {"y": np.zeros(2, np.int32)}, {"y"})
    assert done.findings[0].threads == (((0, 0, 0), (2, 1, 1)), ((0, 0, 0), (2, 1, 0)))
    assert done.findings[0].kind == "race"


def test_second_reader_is_remembered(cache: Path) -> None:
    """The writer was the first reader; another lane read since, and shuffles order nothing."""
    body = (
        "__shared__ float s[1];\nif (t == 0) s[0] = x[0];\n__syncthreads();\nfloat v = s[0];\n"
        "v += __shfl_sync(~0u, v, 0);\nif (t == 0) s[0] = v;\n__syncthreads();\ny[t] = s[0];"
    )
    done = run(cache, find_host_compiler(), kernel(body))
    assert {(f.kind, f.buffer, f.line, f.other_line) for f in done.findings} == {("race", "s", 7, 5)}


def test_readers_of_other_warps_are_remembered(cache: Path) -> None:
    """Two lanes of warp 0 and one of warp 1 read; a warp sync orders the writer after the first two only."""
    body = (
        "__shared__ float s[1];\nif (t == 0) s[0] = x[0];\n__syncthreads();\nfloat v = 0;\n"
        "if (t < 2 || t == 32) v = s[0];\n__syncwarp();\nif (t == 0) s[0] = v;\ny[t] = v;"
    )
    done = run(cache, find_host_compiler(), kernel(body))
    assert [(f.kind, f.threads[1][1][0]) for f in done.findings] == [("race", 32)]


def test_warp_syncs_carry_order_onward(cache: Path) -> None:
    body = (
        "__shared__ float s[1];\nif (t == 0) s[0] = x[0];\nif (t < 2) __syncwarp(3u);\n"
        "if (t == 1 || t == 2) __syncwarp(6u);\nif (t == READER) y[0] = s[0];"
    )
    assert run(cache, find_host_compiler(), kernel(body.replace("READER", "2"))).ok
    assert run(cache, find_host_compiler(), kernel(body.replace("READER", "1"))).ok
    done = run(cache, find_host_compiler(), kernel(body.replace("READER", "3")))
    assert "race" in {f.kind for f in done.findings}
