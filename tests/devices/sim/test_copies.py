"""Asynchronous copies on the host: there at the wait and not before, and touched by nobody in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evolve.devices.sim.execute import Execution
from evolve.ir.errors import EvolveError
from evolve.toolchain.host_cxx import HostCompiler
from tests.devices.sim.kernels_for_tests import kernel, run

HEAD = "__shared__ __align__(16) float s[2][64];\n"
START = "__pipeline_memcpy_async(&s[0][t], &x[t], 4);\n"


def kinds(done: Execution) -> set[tuple[str, str | None]]:
    return {(f.kind, f.buffer) for f in done.findings}


def test_a_copy_is_there_after_the_wait_and_a_barrier(cache: Path, compiler: HostCompiler) -> None:
    body = (
        HEAD
        + START
        + "__pipeline_commit();\n__pipeline_wait_prior(0);\n__syncthreads();\ny[t] = s[0][63 - t];"
    )
    done = run(cache, compiler, kernel(body))
    assert done.ok, done.findings
    np.testing.assert_array_equal(done.outputs["y"][:64], np.arange(1, 65, dtype=np.float32)[::-1])


@pytest.mark.parametrize(
    "rest",
    [
        "__pipeline_commit();\n__syncthreads();\ny[t] = s[0][t];",
        "__pipeline_commit();\n__pipeline_wait_prior(1);\n__syncthreads();\ny[t] = s[0][t];",
        "__pipeline_wait_prior(0);\n__syncthreads();\ny[t] = s[0][t];",
        "__pipeline_commit();\n__syncthreads();\n__pipeline_wait_prior(0);\ny[t] = s[0][63 - t];",
        "__pipeline_commit();\ns[0][t] = 1.0f;\n__pipeline_wait_prior(0);\ny[t] = s[0][t];",
    ],
    ids=["no wait", "a group too many left", "no commit", "wait after the barrier", "written meanwhile"],
)
def test_what_is_not_waited_for_is_a_race(cache: Path, compiler: HostCompiler, rest: str) -> None:
    assert kinds(run(cache, compiler, kernel(HEAD + START + rest))) == {("race", "s")}


def test_the_thread_that_forgot_to_wait_is_told_so(cache: Path, compiler: HostCompiler) -> None:
    done = run(cache, compiler, kernel(HEAD + START + "__pipeline_commit();\ny[t] = s[0][t];"))
    (finding,) = done.findings
    assert "not waited for" in finding.message
    assert {finding.line, finding.other_line} == {3, 5}


def test_later_groups_may_be_left_under_way(cache: Path, compiler: HostCompiler) -> None:
    body = (
        HEAD
        + START
        + (
            "__pipeline_commit();\n__pipeline_memcpy_async(&s[1][t], &x[63 - t], 4);\n__pipeline_commit();\n"
            "__pipeline_wait_prior(1);\nfloat first = s[0][t];\n__pipeline_wait_prior(0);\n"
            "y[t] = first * 100.0f + s[1][t];"
        )
    )
    done = run(cache, compiler, kernel(body))
    assert done.ok, done.findings
    t = np.arange(1, 65, dtype=np.float32)
    np.testing.assert_array_equal(done.outputs["y"][:64], t * 100 + t[::-1])


def test_both_sides_must_be_aligned(cache: Path, compiler: HostCompiler) -> None:
    text = (
        HEAD
        + "__pipeline_memcpy_async(&s[0][1], &x[4], 16);\n__pipeline_commit();\n__pipeline_wait_prior(0);"
    )
    assert ("misaligned", "s") in kinds(run(cache, compiler, kernel(text)))


def test_assembly_is_for_nvrtc_only(cache: Path, compiler: HostCompiler) -> None:
    text = kernel(HEAD + "y[t] = x[t];")
    hidden = '#ifdef __CUDACC_RTC__\n__device__ void f() { asm(""); }\n#endif\n'
    assert run(cache, compiler, hidden + text).ok
    with pytest.raises(EvolveError, match="assembly"):
        run(cache, compiler, hidden.replace("__CUDACC_RTC__", "__CUDA_ARCH__") + text)
