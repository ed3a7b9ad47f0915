"""Requests, sectors, footprints and wavefronts of known access patterns, at sizes far beyond memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.tracing import TraceBuffer, TraceStats, sample_blocks, trace
from evolve.ir.errors import EvolveError
from evolve.toolchain.host_cxx import HostCompiler, find_host_compiler

N = 8192
SQUARE = {"x": TraceBuffer("float32", N * N), "y": TraceBuffer("float32", N * N)}
HEAD = 'extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, int n) {\n'


def go(
    cache: Path, compiler: HostCompiler, body: str, grid: tuple[int, int, int], block: tuple[int, int, int],
    blocks: list[int] | None = None, buffers: dict[str, TraceBuffer] | None = None,
) -> TraceStats:  # fmt: skip
    program = compile_host(HEAD + body + "\n}\n", ["k"], cache, compiler=compiler)
    launch = ConcreteLaunch("k", (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", N)), grid, block)
    return trace(program, [launch], buffers or SQUARE, None if blocks is None else [blocks])[0]


@pytest.mark.parametrize(("pad", "conflict"), [(32, 32), (33, 1), (34, 2)])
def test_transpose_through_a_tile(cache: Path, compiler: HostCompiler, pad: int, conflict: int) -> None:
    body = (
        f"__shared__ float t[32][{pad}];\nint c = threadIdx.x, bx = blockIdx.x * 32, by = blockIdx.y * 32;\n"
        "for (int r = threadIdx.y; r < 32; r += 8) t[r][c] = x[(size_t)(by + r) * n + bx + c];\n"
        "__syncthreads();\n"
        "for (int r = threadIdx.y; r < 32; r += 8) y[(size_t)(bx + r) * n + by + c] = t[c][r];"
    )
    s = go(cache, compiler, body, (256, 256, 1), (32, 8, 1))
    assert (s.load_requests, s.store_requests) == (32, 32)
    assert (s.sectors_per_load, s.sectors_per_store) == (4, 4)
    assert (s.unique_bytes_read, s.unique_bytes_written) == (4096, 4096)
    assert (s.shared_store_wavefronts, s.shared_load_wavefronts) == (32, 32 * conflict)
    assert s.bank_conflict == pytest.approx((32 + 32 * conflict) / 64)
    assert s.barriers == 1
    assert {t.line for t in s.sites} == {4, 6}


def test_naive_transpose_strays(cache: Path, compiler: HostCompiler) -> None:
    body = (
        "int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;\n"
        "y[(size_t)c * n + r] = x[(size_t)r * n + c];"
    )
    s = go(cache, compiler, body, (256, 1024, 1), (32, 8, 1), [0])
    assert (s.sectors_per_load, s.sectors_per_store) == (4, 32)
    # The 8 rows of the block meet in the sectors that they write.
    assert (s.store_sectors, s.unique_sectors_written, s.unique_bytes_written) == (256, 32, 1024)


@pytest.mark.parametrize(
    ("store", "lines", "partial"),
    [
        ("t", 1, 0),  # a whole line
        ("t + 1", 2, 2),  # shifted by a float: both ends in part
        ("t + 8", 2, 0),  # by a whole sector
        ("2 * t", 2, 2),  # every second float
        ("8 * t", 8, 8),  # a float in each sector, four sectors a line
        ("t * n", 32, 32),
    ],
)
def test_lines_of_a_store(cache: Path, compiler: HostCompiler, store: str, lines: int, partial: int) -> None:
    s = go(cache, compiler, f"int t = threadIdx.x;\ny[(size_t){store}] = x[t];", (1, 1, 1), (32, 1, 1))
    (written,) = [x for x in s.sites if x.write]
    (read,) = [x for x in s.sites if not x.write]
    assert (written.lines, written.partial_lines) == (lines, partial)
    assert (read.lines, read.partial_lines) == (1, 0)


def test_one_row_per_thread(cache: Path, compiler: HostCompiler) -> None:
    body = (
        "size_t r = blockIdx.x * 64 + threadIdx.x;\n"
        "float m = 0;\n"
        "for (int c = 0; c < 64; c++) m += x[r * n + c];\n"
        "y[r] = m;"
    )
    s = go(cache, compiler, body, (128, 1, 1), (64, 1, 1))
    assert (s.load_requests, s.sectors_per_load, s.unique_sectors_read) == (128, 32, 64 * 8)
    assert (s.store_requests, s.sectors_per_store) == (2, 4)


def test_vectors_shuffles_and_wide_shared_accesses(cache: Path, compiler: HostCompiler) -> None:
    body = (
        "__shared__ float4 s[64];\nint t = threadIdx.x;\n"
        "float4 v = reinterpret_cast<const float4*>(x + (size_t)blockIdx.x * n)[t];\n"
        "float a = v.x + v.y + v.z + v.w;\nfor (int o = 16; o; o >>= 1) a += __shfl_xor_sync(~0u, a, o);\n"
        "s[t] = make_float4(a, v.y, v.z, v.w);\n__syncthreads();\nfloat4 w = s[63 - t];\n"
        "reinterpret_cast<float4*>(y + (size_t)blockIdx.x * n)[t] = w;"
    )
    s = go(cache, compiler, body, (N, 1, 1), (64, 1, 1))
    assert (s.load_requests, s.sectors_per_load, s.sectors_per_store) == (2, 16, 16)
    assert (s.shared_store_wavefronts, s.shared_load_wavefronts, s.bank_conflict) == (8, 8, 1.0)
    assert (s.shuffles, s.barriers) == (10, 1)


def test_broadcast_and_reuse_between_blocks(cache: Path, compiler: HostCompiler) -> None:
    body = "int t = threadIdx.x;\ny[blockIdx.x * 32 + t] = x[t] + x[0];"
    s = go(cache, compiler, body, (64, 1, 1), (32, 1, 1), [8, 9, 10, 11])
    assert (s.load_requests, s.load_sectors, s.unique_sectors_read, s.set_sectors_read) == (2, 5, 4, 4)
    assert s.set_sectors_written == 16


def test_shared_broadcasts_are_free_and_strides_are_not(cache: Path) -> None:
    body = (
        "__shared__ float s[1024];\nfor (int i = threadIdx.x; i < 1024; i += 32) s[i] = 0;\n__syncwarp();\n"
        "float a = s[7];\nfloat b = s[threadIdx.x / 2];\nfloat c = s[threadIdx.x * 4];\n"
        "y[blockIdx.x * 32 + threadIdx.x] = a + b + c;"
    )
    s = go(cache, find_host_compiler(), body, (64, 1, 1), (32, 1, 1), [3])
    by_line = {t.line: t.wavefronts for t in s.sites if t.space == "shared"}
    assert by_line == {3: 32, 5: 1, 6: 1, 7: 4}


def test_each_launch_counts_its_own_footprint(cache: Path) -> None:
    text = HEAD + "y[blockIdx.x * 32 + threadIdx.x] = x[threadIdx.x];\n}\n"
    program = compile_host(text, ["k"], cache)
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", N))
    launch = ConcreteLaunch("k", args, (64, 1, 1), (32, 1, 1))
    first, second = trace(program, [launch, launch], SQUARE, [[1, 2], [1]])
    assert (first.set_sectors_read, first.set_sectors_written) == (4, 8)
    assert (second.set_sectors_read, second.set_sectors_written) == (4, 4)
    assert (first.unique_sectors_read, second.unique_sectors_read) == (4, 4)


def test_indices_come_from_the_stated_range(cache: Path, compiler: HostCompiler) -> None:
    program = compile_host(
        'extern "C" __global__ void k(const int* i, float* y) { y[i[threadIdx.x]] = 1; }', ["k"], cache,
        compiler=compiler,
    )  # fmt: skip
    launch = ConcreteLaunch("k", (BufferArg("i"), BufferArg("y")), (1, 1, 1), (32, 1, 1))
    y = TraceBuffer("float32", 100)
    s = trace(program, [launch], {"i": TraceBuffer("int32", 32, 90, 99), "y": y})[0]
    assert 1 <= s.store_sectors <= 2
    with pytest.raises(EvolveError, match=r"y\[") as caught:
        trace(program, [launch], {"i": TraceBuffer("int32", 32, 100, 100), "y": y})
    assert caught.value.line == 1


def test_sampled_blocks_are_neighbours() -> None:
    assert sample_blocks((256, 256, 1), 4) == [32764, 32765, 32766, 32767]
    assert sample_blocks((2, 1, 1), 4) == [0, 1]
    assert sample_blocks((1, 100, 1), 3) == [48, 49, 50]
    got = sample_blocks((6, 5, 1), 4)
    assert len({b // 6 for b in got}) == 1


def test_touched_pages_stay_inside_the_memory_limit(cache: Path) -> None:
    text = (
        'extern "C" __global__ void k(const float* x, float* y, int n) { float s = 0;\n'
        "for (int r = 0; r < n; r++) for (int i = 0; i < 8; i++)\n"
        "s += x[(size_t)r * n + 1024 * i + threadIdx.x];\ny[threadIdx.x] = s; }\n"
    )
    program = compile_host(text, ["k"], cache)
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", N))
    launch = ConcreteLaunch("k", args, (1, 1, 1), (32, 1, 1))
    with pytest.raises(EvolveError) as caught:
        trace(program, [launch], SQUARE, memory_limit_mb=64)
    assert caught.value.code == "sim.memory"


def test_a_buffer_with_content_is_read_as_it_is(cache: Path, compiler: HostCompiler) -> None:
    """Subscripts decide what a gather touches: neighbours, or an element of its own sector each."""
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[((const int*)x)[i]];"

    def sectors(step: int) -> float:
        subscripts = np.arange(1 << 12, dtype=np.int32) * step % (1 << 12)
        buffers = {
            "x": TraceBuffer("int32", 1 << 12, data=subscripts),
            "y": TraceBuffer("float32", 1 << 12),
        }
        s = go(cache, compiler, body, (32, 1, 1), (128, 1, 1), [3], buffers)
        assert s.load_requests == 8
        return s.load_sectors

    assert sectors(1) == 8 * 4
    assert sectors(8) == 4 * 4 + 4 * 32


def test_content_of_another_size_is_refused(cache: Path, compiler: HostCompiler) -> None:
    buffers = {**SQUARE, "x": TraceBuffer("int32", 8, data=np.zeros(7, np.int32))}
    with pytest.raises(EvolveError, match="28 are given"):
        go(cache, compiler, "y[0] = x[0];", (1, 1, 1), (32, 1, 1), [0], buffers)
