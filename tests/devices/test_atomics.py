"""Atomic updates: which stores of a trace they are, and what L2 takes for them."""

from __future__ import annotations

from functools import cache

import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.atomics import Atomics, atomics
from evolve.devices.estimate import Estimate, estimate
from evolve.devices.sampled import sampled_traffic
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.tracing import TraceBuffer
from evolve.devices.traffic import Traffic
from evolve.sol.ceilings import l2_rate
from evolve.target.profile import load_profile
from evolve.toolchain.cubin import KernelResources, read_cubin
from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import Sass, disassemble

H200 = load_profile("h200-sxm")
N = 1 << 22
THREADS = 256
BODIES = {
    "one": "atomicAdd(y, x[i]);",
    "eight": "atomicAdd(y + 64 * (blockIdx.x & 7), x[i]);",
    "own": "atomicAdd(y + i, x[i]);",
    "counted": "y[i] = x[i];\n    atomicAdd((int*)c, 1);",
    "stored": "y[i] = x[i];",
    "block": "__shared__ float s[256];\n    s[threadIdx.x] = x[i];\n    __syncthreads();\n"
    "    atomicAdd(s + (threadIdx.x & 31), x[i]);\n    __syncthreads();\n    y[i] = s[threadIdx.x];",
}
HEAD = "const float* __restrict__ x, float* __restrict__ y, float* __restrict__ c, int n"
TEXT = "\n".join(
    f'extern "C" __global__ void {name}({HEAD}) {{\n'
    f"    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    {body}\n}}"
    for name, body in BODIES.items()
)


@cache
def built(name: str) -> tuple[KernelResources, Sass, Traffic]:
    compiled = compile_cuda(TEXT, "sm_90", [LINE_INFO])
    assert compiled.cubin is not None, compiled.log
    arguments = (BufferArg("x"), BufferArg("y"), BufferArg("c"), ScalarArg("n", "i32", N))
    launch = ConcreteLaunch(name, arguments, (N // THREADS, 1, 1), (THREADS, 1, 1))
    buffers = {b: TraceBuffer("float32", N) for b in "xyc"}
    traffic = sampled_traffic(compile_host(TEXT, list(BODIES)), launch, buffers, 8 * H200.sms)
    return read_cubin(compiled.cubin).kernels[name], disassemble([compiled.cubin])[0][name], traffic


def updates(name: str) -> Atomics:
    _, sass, traffic = built(name)
    return atomics(traffic, sass)


@cache
def estimated(name: str) -> Estimate:
    resources, sass, traffic = built(name)
    return estimate(H200, resources, sass, traffic, (N // THREADS, 1, 1), (THREADS, 1, 1))


def test_updates_of_one_address_follow_each_other() -> None:
    assert updates("one").clocks == THREADS
    assert updates("one").launch_targets(N // THREADS) == pytest.approx(1)
    assert estimated("one").terms["l2"] == pytest.approx(N / H200.boost_hz)
    assert estimated("one").binding == "l2" and estimated("one").facts["atomic_l2"] == 1


def test_updates_of_addresses_apart_do_not_wait_for_each_other() -> None:
    found = updates("own")
    assert found.clocks == found.sectors == THREADS / 8
    assert found.launch_targets(N // THREADS) == pytest.approx(N / 8)
    # Their sectors are read and written.
    resources, sass, traffic = built("stored")
    stored = estimate(H200, resources, sass, traffic, (N // THREADS, 1, 1), (THREADS, 1, 1))
    moved = estimated("own").facts["l2_bytes"] - stored.facts["l2_bytes"]
    assert moved == pytest.approx(4 * N)
    assert estimated("own").terms["l2"] >= estimated("own").facts["l2_bytes"] / l2_rate(H200)
    assert estimated("own").time_s < 0.05 * estimated("one").time_s


def test_more_addresses_share_the_queue() -> None:
    assert updates("eight").launch_targets(N // THREADS) == pytest.approx(8, rel=0.01)
    assert estimated("eight").terms["l2"] == pytest.approx(estimated("one").terms["l2"] / 8, rel=0.01)


def test_what_the_compiler_aggregates_is_one_update_a_warp() -> None:
    found = updates("counted")
    assert found.clocks == found.sectors == THREADS / 32
    assert found.targets == found.set_targets == 1
    queue = N / 32 / H200.boost_hz
    assert estimated("counted").terms["l2"] == pytest.approx(queue)


@pytest.mark.parametrize("name", ["stored", "block"])
def test_stores_and_shared_memory_are_no_updates_of_global_memory(name: str) -> None:
    assert updates(name) == Atomics()
    assert estimated(name).facts["atomic_l2"] == 0


def test_targets_are_continued_from_the_sampled_blocks() -> None:
    assert Atomics(4, 4, targets=2, set_targets=8, sampled=4).launch_targets(11) == 22
    assert Atomics(4, 4, targets=2, set_targets=2, sampled=1).launch_targets(100) == 2
    # 4 blocks of 32 draws each from 256 bins find 100.7 of them, all blocks find all.
    binned = Atomics(32, 32, targets=32, set_targets=100.7, sampled=4)
    assert binned.launch_targets(10_000) == pytest.approx(256, rel=0.02)
    assert binned.launch_targets(4) == pytest.approx(100.7, rel=0.01)
