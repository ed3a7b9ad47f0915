"""The worker on a real GPU: faults, guards, times. Everything here skips itself elsewhere."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from statistics import median

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import Execute, Executed, Measure, SetArrays, View
from evolve.ir.errors import EvolveError
from evolve.search.devices import has_gpu
from evolve.toolchain.nvrtc import compile_cuda

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_gpu(), reason="needs a CUDA GPU and PyCUDA")]

N = 1 << 20
X = np.arange(N, dtype=np.float32)

TEXT = """
#define KERNEL(name) extern "C" __global__ void name(const float* x, float* y, int n)
KERNEL(twice) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
KERNEL(hang) { while (*(volatile const float*)x < 1e30f) {} }
KERNEL(illegal_address) { y[1ll << 38] = 1.0f; }
KERNEL(misaligned) { if (blockIdx.x == 0) *(double*)((char*)y + 1) = 1.0; }
KERNEL(trap) { __trap(); }
KERNEL(over_end) { if (blockIdx.x == 0 && threadIdx.x == 0) y[n + 3] = 1.0f; }
KERNEL(before_start) { if (blockIdx.x == 0 && threadIdx.x == 0) ((float*)x)[-1] = 1.0f; }
KERNEL(spoil) { if (blockIdx.x == 0) ((float*)x)[threadIdx.x] = 7.0f; }
"""
LARGE = """
extern "C" __global__ void too_much_memory(const float* x, float* y, int n) {
    volatile char large[500000];
    for (int i = 0; i < n; i += 4096) large[(i * 7) % 500000] = (char)i;
    y[threadIdx.x] = large[n & 1023];
}
"""
"""Half a megabyte of local memory for every thread that the GPU may hold: 126 GiB of an H200's 139."""
STICKY = {"illegal_address": "700", "misaligned": "716", "trap": "7"}
"""Faults that break the context, with how the driver's result code begins."""


@pytest.fixture(scope="module")
def worker() -> Iterator[CudaWorker]:
    w = CudaWorker(0)
    w.set_arrays(SetArrays("a", {"x": X, "y": np.zeros_like(X)}))
    yield w
    w.close()


PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y, .param .u32 n) { ret; }
\0"""


@pytest.fixture(scope="module")
def cubin(worker: CudaWorker) -> bytes:
    return build(TEXT, worker.info.arch)


@functools.cache
def build(text: str, arch: str) -> bytes:
    built = compile_cuda(text, arch)
    assert built.cubin is not None, built.log
    return built.cubin


def launch(name: str, threads: int = 256, shared: int = 0) -> tuple[ConcreteLaunch, ...]:
    args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", N))
    return (ConcreteLaunch(name, args, (N // 256, 1, 1), (threads, 1, 1), shared),)


def execute(worker: CudaWorker, cubin: bytes, name: str) -> Executed:
    """A kernel of TEXT, or what its name says is wrong with the launch."""
    if name == "too many threads":
        launches = launch("twice", threads=2048)
    elif name == "too much shared memory":
        launches = launch("twice", shared=1 << 20)
    else:
        launches = launch(name)
    if name == "too_much_memory":
        cubin = build(LARGE, worker.info.arch)
    # The GPU may take seconds to report what many threads did wrong at once.
    return worker.execute(Execute(cubin, launches, "a", ("y",), limit_s=1.0 if name == "hang" else 10.0))


def works(worker: CudaWorker, cubin: bytes) -> bool:
    done = execute(worker, cubin, "twice")
    return done.error is None and np.array_equal(done.outputs["y"], 2 * X)


def test_attributes_and_facilities(worker: CudaWorker) -> None:
    """Printed, so that a log says what this driver offers."""
    print(worker.info)
    assert worker.info.persisting_reset
    assert worker.info.multiprocessors > 0 and worker.info.l2_bytes > 0


def test_runs_and_returns(worker: CudaWorker, cubin: bytes) -> None:
    done = execute(worker, cubin, "twice")
    assert done.error is None and not done.changed and not done.broken_guards
    assert np.array_equal(done.outputs["y"], 2 * X) and done.left == {"y": 0}


def test_the_driver_itself_loads_no_ptx(worker: CudaWorker, cubin: bytes) -> None:
    """Asked past our own check, which wants an ELF image."""
    assert worker.view(View(cubin, launch("twice"))).fault is None
    fault = worker.view(View(PTX, launch("twice"))).fault
    assert fault is not None and "cuModuleLoadData" in fault.message and not fault.sticky
    assert works(worker, cubin)


def test_writes_where_none_belong_are_seen(worker: CudaWorker, cubin: bytes) -> None:
    assert execute(worker, cubin, "over_end").broken_guards == ("y",)
    assert execute(worker, cubin, "before_start").broken_guards == ("x",)
    assert execute(worker, cubin, "spoil").changed == ("x",)
    done = execute(worker, cubin, "twice")
    assert done.broken_guards == () and done.changed == ()


@pytest.mark.parametrize("name", STICKY)
def test_a_broken_context_costs_its_candidate_and_the_worker(
    worker: CudaWorker, cubin: bytes, name: str
) -> None:
    before = worker.replaced
    fault = execute(worker, cubin, name).fault
    assert fault is not None and fault.kind == "fault" and fault.sticky
    assert f"({STICKY[name]}" in fault.message, fault.message
    assert worker.replaced == before + 1 and works(worker, cubin)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("too many threads", "launch"),
        ("too much shared memory", "launch"),
        ("nowhere", "launch"),
    ],
)
def test_a_refused_launch_costs_its_candidate_only(
    worker: CudaWorker, cubin: bytes, name: str, kind: str
) -> None:
    before = worker.replaced
    fault = execute(worker, cubin, name).fault
    assert fault is not None and (fault.kind, fault.sticky) == (kind, False), fault
    assert worker.replaced == before and works(worker, cubin)


def test_a_kernel_that_wants_more_memory_than_there_is(
    worker: CudaWorker, cubin: bytes, tmp_path: os.PathLike[str]
) -> None:
    threads = 2048 * worker.info.multiprocessors
    size = worker.info.memory_bytes - threads * 500_000 + (6 << 30)
    path = os.path.join(tmp_path, "ballast.npy")
    np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(max(1, size // 4),)).flush()
    worker.set_arrays(SetArrays("ballast", {"x": path}))
    before = worker.replaced
    try:
        fault = execute(worker, cubin, "too_much_memory").fault
    finally:
        worker.drop(("ballast",))
    assert fault is not None and (fault.kind, fault.sticky) == ("memory", False), fault
    assert worker.replaced == before and works(worker, cubin)


def test_a_kernel_that_outlasts_its_limit(worker: CudaWorker, cubin: bytes) -> None:
    before = worker.replaced
    fault = execute(worker, cubin, "hang").fault
    assert fault is not None and fault.kind == "timeout" and "1 s" in fault.message
    assert worker.replaced == before + 1 and works(worker, cubin)


def test_a_worker_that_is_killed(worker: CudaWorker, cubin: bytes) -> None:
    assert worker.pid is not None
    os.kill(worker.pid, 9)
    assert works(worker, cubin)


def test_arrays_that_do_not_fit(worker: CudaWorker, cubin: bytes, tmp_path: os.PathLike[str]) -> None:
    size = 2 * worker.info.memory_bytes
    path = os.path.join(tmp_path, "large.npy")
    np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(size // 4,)).flush()
    with pytest.raises(EvolveError) as e:
        worker.set_arrays(SetArrays("large", {"x": path}))
    assert e.value.code == "gpu-memory"
    assert works(worker, cubin)


def test_a_hundred_mixed_faults(worker: CudaWorker, cubin: bytes) -> None:
    """All attributed to their candidate, none lost; honest candidates between them right."""
    kinds = {
        "twice": None,
        "too many threads": "launch",
        "too much shared memory": "launch",
        "illegal_address": "fault",
        "misaligned": "fault",
        "hang": "timeout",
        "killed": None,
    }
    drawn = np.random.default_rng(2).choice(7, 100, p=(0.46, 0.18, 0.18, 0.06, 0.06, 0.03, 0.03))
    for name in (list(kinds)[i] for i in drawn):
        if name == "killed":
            assert worker.pid is not None
            os.kill(worker.pid, 9)
        done = execute(worker, cubin, "twice" if name == "killed" else name)
        assert (done.fault.kind if done.fault else None) == kinds[name], (name, done.fault)
        assert done.fault is not None or np.array_equal(done.outputs["y"], 2 * X)


def test_times_are_plausible(worker: CudaWorker, cubin: bytes) -> None:
    known = execute(worker, cubin, "twice").digests
    two = (cubin, cubin), (launch("twice"), launch("twice"))
    done = worker.measure(Measure(*two, ("a",), ("y",), known=((known,), (known,))))
    assert done.error is None and done.mismatches == () and done.changed == () and done.broken_guards == ()
    first, second = (float(np.median(s)) for s in done.samples_us)
    print("samples", first, second, "floor", done.floor_us, "batches", done.batches, "clocks", done.clocks)
    print("wall - events", np.median(np.subtract(done.wall_us, done.event_us)))
    assert 2.0 < first < 100.0 and abs(first / second - 1) < 0.2
    batch = done.batches[0]
    assert batch is not None and 1.0 < float(np.median(batch.us)) < first
    assert float(np.median(batch.floor_us)) < float(np.median(batch.us))


def test_a_warm_launch_is_faster_where_its_arrays_fit_l2(worker: CudaWorker, cubin: bytes) -> None:
    """8 MiB, read and written: neither waits for DRAM, and the host's launching is in neither time."""
    one = launch("twice")
    done = worker.measure(Measure((cubin,), (one,), ("a",), ("y",), unflushed=3))
    cold, warm = median(done.samples_us[0]), median(done.warm_us[0])
    print(f"cold {cold:.2f} us, warm {done.warm_us[0]}")
    assert len(done.warm_us[0]) == 3 and 0 < warm < cold
