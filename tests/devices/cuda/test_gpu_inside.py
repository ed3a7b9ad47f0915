"""The worker's own kernels and its flush, on a real GPU, in this process."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np
import pytest

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.compare import bounds, left_alone, poisoned, within
from evolve.devices.cuda.helpers import TYPES
from evolve.devices.cuda.hidden import Hidden
from evolve.devices.cuda.launching import Call
from evolve.devices.cuda.memory import Resident
from evolve.devices.cuda.messages import Ask
from evolve.devices.cuda.worker import Worker
from evolve.search.devices import has_gpu
from evolve.toolchain.nvrtc import compile_cuda
from tests.devices.cuda.fake_cuda import digest_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_gpu(), reason="needs a CUDA GPU and PyCUDA")]

WORD = 0xFFF8B1C2
TOUCH = """
extern "C" __global__ void touch(const float4* x, float* y, int n) {
    float s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float4 v = x[i];
        s += v.x + v.y + v.z + v.w;
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
extern "C" __global__ void put(float4* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = make_float4(1, 2, 3, 4);
}
"""


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    import pycuda.driver as cuda
    from cuda.bindings import driver

    cuda.init()
    context = cuda.Device(0).retain_primary_context()
    context.push()
    try:
        yield Worker(cuda, driver, cuda.Device(0), Ask(987654321, WORD))
    finally:
        context.pop()


def values(kind: np.dtype, n: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    if kind.kind == "f":
        x = (rng.standard_normal(n) * 10.0 ** rng.integers(-20, 20, n)).astype(kind)
        x[:4] = math.nan, math.inf, -math.inf, 0.0
        return x
    if kind.kind == "b":
        return rng.integers(0, 2, n).astype(kind)
    return rng.integers(0 if kind.kind == "u" else -1000, 1000, n).astype(kind)


@pytest.mark.parametrize("name", TYPES)
def test_comparison_is_the_rule_of_compare(worker: Worker, name: str) -> None:
    kind, n = np.dtype(name), 10_007
    want = values(kind, n)
    tolerance = np.abs(np.nan_to_num(want.astype(np.float64), posinf=1, neginf=1)) * 1e-6
    tolerance[5:50] = math.inf
    low, high = bounds(want.astype(np.float64), tolerance, kind)
    got = want.copy()
    if kind.kind == "f":
        got[100:200] *= kind.type(1 + 5e-7)
        got[200:300] *= kind.type(1 + 5e-6)
        got[300], got[301] = math.nan, math.inf
    else:
        got[100:200] = ~got[100:200] if kind.kind == "b" else got[100:200] + kind.type(3)
    got.view(np.uint8)[400 * kind.itemsize : 500 * kind.itemsize] = np.resize(
        np.array([WORD], "<u4").view(np.uint8), 100 * kind.itemsize
    )
    left_alone(low, high, np.arange(n) // 50 == 9)
    expected = ~within(got, low, high, poisoned(got, WORD))
    on = Resident(worker.gpu, {"got": got})
    try:
        found = worker.gpu.compare(on.pointer("got"), (low, high))
        left = worker.gpu.left(on.pointer("got"), got)
    finally:
        on.free()
    assert found.wrong == expected.sum() > 0 and found.first == np.flatnonzero(expected)[0]
    assert left == poisoned(got, WORD).sum()


def test_hidden_bounds_compare_alike_and_have_no_address_meanwhile(worker: Worker) -> None:
    """Prints what mapping costs for the size of 8192 x 8192 floats."""
    n = 1 << 26
    want = np.random.default_rng(1).standard_normal(n, np.float32)
    got = want.copy()
    got[12345] += 1
    hidden = Hidden(worker.driver, 0, want)
    hidden.upload(worker.cuda, want - 1e-6, want + 1e-6)
    on = Resident(worker.gpu, {"got": got})
    try:
        begin = time.perf_counter()
        found = [worker.gpu.compare(on.pointer("got"), hidden) for _ in range(5)]
        print(f"{1e3 * (time.perf_counter() - begin) / 5:.2f} ms a comparison")
        assert {(c.wrong, c.first) for c in found} == {(1, 12345)}
        with hidden.mapped() as (low, _):
            pass
        with pytest.raises(worker.cuda.Error):
            worker.cuda.memcpy_dtoh(np.empty(4, np.float32), low)
    finally:
        on.free()
        hidden.free()


@pytest.mark.parametrize("name", TYPES)
def test_bounds_are_those_of_compare(worker: Worker, name: str) -> None:
    kind, n = np.dtype(name), 5000
    want = values(kind, n).astype(np.float64)
    error = np.abs(np.nan_to_num(want, posinf=1, neginf=1)) * np.float64(2.0**-24)
    error[5:50] = math.inf
    on = Resident(worker.gpu, {"v": want, "e": error, "low": np.zeros(n, kind), "high": np.zeros(n, kind)})
    try:
        args = (on.pointer("v"), on.pointer("e"), 16.0, n, on.pointer("low"), on.pointer("high"))
        worker.gpu.call(f"ev_bounds_{TYPES[name][0]}", "PPdQPP", *args)
        found = on.fetch("low"), on.fetch("high")
    finally:
        on.free()
    for a, b in zip(found, bounds(want, 16.0 * error, kind), strict=True):
        assert np.array_equal(a, b, equal_nan=kind.kind == "f")


@pytest.mark.parametrize("size", [0, 1, 3, 4, 1000, 4099])
def test_digests_are_those_of_the_fake(worker: Worker, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    on = Resident(worker.gpu, {"x": data})
    try:
        assert on.known["x"] == digest_of(data, worker.gpu.key)
    finally:
        on.free()


def test_the_flush_leaves_l2_cold_and_clean(worker: Worker) -> None:
    """A read of half of L2 takes longer after a flush than after itself, and no longer for our dirty lines.

    Also prints what a flush that only writes would cost: how much the reading half is worth.
    """
    built = compile_cuda(TOUCH, worker.info().arch)
    assert built.cubin is not None
    l2 = worker.info().l2_bytes
    n = l2 // 2 // 16
    x = np.ones(n * 4, np.float32)
    threads = 256 * worker.gpu.blocks
    on = Resident(worker.gpu, {"x": x, "y": np.zeros(threads, np.float32)})
    timer = worker.timer
    try:
        args = (BufferArg("x"), BufferArg("y"), ScalarArg("n", "i32", n))
        grid, block = (worker.gpu.blocks, 1, 1), (256, 1, 1)
        read = worker.images.calls(built.cubin, (ConcreteLaunch("touch", args, grid, block),), on.pointer)
        put_args = (BufferArg("x"), ScalarArg("n", "i32", n))
        put = worker.images.calls(built.cubin, (ConcreteLaunch("put", put_args, grid, block),), on.pointer)

        def median(calls: list[Call]) -> float:
            return float(np.median([timer.sample(calls, 1.0).us for _ in range(20)]))

        # The second of two reads finds the lines where the first one left them.
        one, two, floor = median(read), median(read * 2), timer.floor()
        write_clean = median(put)
        whole = timer.gpu.call
        object.__setattr__(timer.gpu, "call", lambda name, *a: None if name == "ev_read" else whole(name, *a))
        try:
            read_dirty, write_dirty = median(read), median(put)
        finally:
            object.__delattr__(timer.gpu, "call")
    finally:
        on.free()
    print(
        f"half of L2 ({l2 // 2 >> 20} MiB): read cold and clean {one:.1f} us, again warm {two - one:.1f} us,"
    )
    print(
        f"read cold and dirty {read_dirty:.1f} us; write clean {write_clean:.1f} us, dirty {write_dirty:.1f}"
    )
    print(f"an empty kernel {floor:.1f} us")
    assert two - one < 0.9 * one
    assert one <= 1.1 * read_dirty and write_clean <= 1.1 * write_dirty
