"""Several launches that share scratch memory: defects in their use of it are found, and it can be traced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScratchArg
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.execute import ExecOptions, Execution, execute
from evolve.devices.sim.tracing import TraceBuffer, trace
from evolve.toolchain.host_cxx import HostCompiler
from tests.devices.sim.kernels_for_tests import ALL

BLOCKS, THREADS = 3, 32
GATHER = """
extern "C" __global__ void gather(const float* x, float* part) {{
    float s = 0.0f;
    if (threadIdx.x == 0) {{
        for (int i = 0; i < 32; ++i) s += x[blockIdx.x * 32 + i];
        {store}
    }}
}}
extern "C" __global__ void combine(const float* part, float* y) {{
    float s = 0.0f;
    for (int i = 0; i < {count}; ++i) s += part[i];
    if (threadIdx.x == 0) y[0] = s;
}}
"""
X = np.arange(BLOCKS * THREADS, dtype=np.float32)


def launches() -> tuple[ConcreteLaunch, ...]:
    part = ScratchArg("part", "f32", BLOCKS)
    return (
        ConcreteLaunch("gather", (BufferArg("x"), part), (BLOCKS, 1, 1), (THREADS, 1, 1)),
        ConcreteLaunch("combine", (part, BufferArg("y")), (1, 1, 1), (THREADS, 1, 1)),
    )


def run(
    cache: Path, compiler: HostCompiler, store: str = "part[blockIdx.x] = s;", count: int = BLOCKS
) -> Execution:
    text = GATHER.format(store=store, count=count)
    program = compile_host(text, ["gather", "combine"], cache, compiler=compiler)
    arrays = {"x": X, "y": np.zeros(1, np.float32)}
    return execute(program, launches(), arrays, {"y"}, ExecOptions(orders=ALL))


def test_what_the_first_leaves_the_second_finds(cache: Path, compiler: HostCompiler) -> None:
    done = run(cache, compiler)
    assert done.ok and done.order_sensitive == ()
    assert set(done.outputs) == {"y"}, "scratch memory is nobody's afterwards"
    assert done.outputs["y"][0] == X.sum()


@pytest.mark.parametrize(
    ("store", "count", "kind"),
    [
        ("if (blockIdx.x < 2) part[blockIdx.x] = s;", 3, "uninitialised"),
        ("part[blockIdx.x + 1] = s;", 3, "out-of-bounds"),
        ("part[blockIdx.x] = s;", 4, "out-of-bounds"),
        ("part[0] = s; part[1] = s; part[2] = s;", 3, "race"),
    ],
)
def test_wrong_use_is_found(cache: Path, compiler: HostCompiler, store: str, count: int, kind: str) -> None:
    found = run(cache, compiler, store, count).findings
    assert kind in {f.kind for f in found}
    assert all(f.buffer == "part" for f in found if f.kind == kind)


def test_launches_that_share_scratch_memory_are_traced(cache: Path, compiler: HostCompiler) -> None:
    text = GATHER.format(store="part[blockIdx.x] = s;", count=BLOCKS)
    program = compile_host(text, ["gather", "combine"], cache, compiler=compiler)
    arrays = {"x": TraceBuffer("float32", X.size), "y": TraceBuffer("float32", 1)}
    first, second = trace(program, launches(), arrays)
    assert first.store_bytes == 4 and second.load_bytes == 4 * THREADS * BLOCKS
