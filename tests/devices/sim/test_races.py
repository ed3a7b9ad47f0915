"""What orders two accesses and what does not: barriers, warp syncs, launches, fenced atomics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, Execution, execute
from evolve.toolchain.host_cxx import HostCompiler, find_host_compiler
from tests.devices.sim.kernels_for_tests import ALL, kernel, run


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


def test_shared_memory_is_fresh_in_every_block(cache: Path, compiler: HostCompiler) -> None:
    body = (
        "__shared__ float s[64];\n"
        "if (blockIdx.x == 0) s[t] = x[t];\n"
        "__syncthreads();\n"
        "if (blockIdx.x) y[t] = s[t];"
    )
    done = run(cache, compiler, kernel(body), grid=2)
    assert {f.kind for f in done.findings} == {"uninitialised"}


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
