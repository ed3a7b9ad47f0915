"""Barriers that not all threads reach, and warp collectives: values and misuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evolve.toolchain.host_cxx import HostCompiler
from tests.devices.sim.kernels_for_tests import kernel, run


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


def test_lanes_that_are_together(cache: Path, compiler: HostCompiler) -> None:
    """Each lane is in its own mask, with lanes that ask at the same place only."""
    body = (
        "unsigned m = 0, other = 0;\n"
        "if (t % 4 == 0) m = __activemask();\n"
        "else other = __activemask();\n"
        "if (t % 32 == 3) return;\n"
        "unsigned all = m | other, alike = __match_any_sync(all, t % 8);\n"
        "y[t] = (all >> (t % 32)) & 1;\n"
        "y[64 + t] = (m & ~0x11111111u) | (other & 0x11111111u);\n"
        "y[128 + t] = alike & ~(0x01010101u << (t % 8));\n"
    )
    done = run(cache, compiler, kernel(body), n_out=192)
    assert done.findings == (), "lane 3 has left, and nobody waits for it"
    y = done.outputs["y"].reshape(3, 64)[:, np.arange(64) % 32 != 3]
    np.testing.assert_array_equal(y, np.repeat([[1], [0], [0]], 62, 1))


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
