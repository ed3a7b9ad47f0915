"""The whole calibration through the real GPU worker, on a GPU made of numpy arrays.

Kernels are what their CUDA texts say, as far as addresses, counters and results go: an argument in the wrong
place or a buffer that is too small breaks the fake GPU's context, or gives wrong figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evolve.devices.calibration import take as taking
from evolve.devices.calibration.benches import BLOCK, CHASES, HOPS, LOOPS, STREAMS, Loop, Stream
from evolve.devices.calibration.figures import work_out
from evolve.devices.cuda import timing
from evolve.devices.cuda.messages import Ask, Executed, Measured, Stored
from evolve.devices.cuda.worker import Worker
from tests.devices.calibration.gpus import H200
from tests.devices.cuda.fake_cuda import FakeCuda, Launch

GPU = replace(H200, sms=2, l2_bytes=1 << 20, memory_bytes=32 << 20)
CLOCKS = {"chase_shared": 30, "chase_l1": 40, "chase_l2": 300}
NS = 0.5
RATES = {
    "fp32_fma": 128.0,
    "fp64_fma": 64.0,
    "mufu": 16.0,
    "shared_bytes": 128.0,
    "imad": 64.0,
    "int_add": 64.0,
}


def stream(bench: Stream) -> Callable[[Launch], None]:
    def run(x: Launch) -> None:
        memory, sink, start, to = x.args
        elements = x.grid[0] * 256 * bench.per_thread
        size = bench.element_bytes
        if bench.loads:
            x.view(memory + start * size, elements * size, np.uint8)
        if bench.loads == 2:
            x.view(memory + (start + (to - start) // 2) * size, elements * size, np.uint8)
        if bench.stores:
            x.view(memory + to * size, elements * size, np.uint8)[-1] = 1
        x.view(sink, 256, np.uint32)
        x.gpu.now_us += elements * bench.moved / 4e6  # 4000 GB/s

    return run


def loop(bench: Loop) -> Callable[[Launch], None]:
    def run(x: Launch) -> None:
        if bench.kernel == "l2_read":
            memory, sink, cycles, tiles, n = x.args
            x.view(memory, tiles * 1024 * 16, np.uint8)
            rate = 30.0
        else:
            sink, cycles, a, b, n = x.args
            assert (a, b) == (bench.a, bench.b)
            rate = {"shared_read": 120.0, "mma_f16": 2000.0}.get(
                bench.kernel, 0.9 * RATES.get(bench.rate or "", 0.0)
            )
        word = np.float64 if bench.dtype == "f64" else np.float32
        x.view(sink, x.grid[0] * BLOCK, word)[:] = 1
        clocks = n * BLOCK * bench.instructions * bench.lanes / rate
        x.view(cycles, x.grid[0], np.int64)[:] = round(900 + clocks)
        x.gpu.now_us += clocks / GPU.clock_mhz

    return run


def link(x: Launch) -> None:
    slots, cells, count = x.args
    assert x.grid[0] * 256 >= count
    places = x.view(slots, count, np.uint32)
    for i in range(count):
        x.view(cells + 8 * int(places[i]), 1, np.uint64)[0] = cells + 8 * int(places[(i + 1) % count])


def sweep(x: Launch) -> None:
    other, result, count = x.args
    x.view(other, 16 * count, np.uint8)
    x.view(result, 4, np.uint64)
    x.gpu.log.append("cold")


def chase(kernel: str) -> Callable[[Launch], None]:
    def run(x: Launch) -> None:
        slots, cells, result, warm, timed = x.args
        at = cells + 8 * int(x.view(slots, 1, np.uint32)[0])
        for _ in range((warm + timed) * HOPS):
            at = int(x.view(at, 1, np.uint64)[0])
        # The launch right before this one was a sweep: the log ends with its mark and this launch's name.
        cold = x.gpu.log[-2:] == ["cold", kernel]
        clocks = timed * HOPS * (1200 if cold else CLOCKS[kernel])
        x.view(result, 3, np.uint64)[:] = clocks, clocks * NS, (at - cells) // 8

    return run


def chase_shared(x: Launch) -> None:
    slots, result, count, warm, timed = x.args
    places = x.view(slots, count, np.uint32)
    assert places.max() < 4096
    clocks = timed * HOPS * CLOCKS["chase_shared"]
    x.view(result, 3, np.uint64)[:] = clocks, clocks * NS, places[(warm + timed) * HOPS % count]


class Direct:
    """The worker without a process around it."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def set_arrays(self, request: Any) -> None:
        got = self.worker.answer(request)
        assert isinstance(got, Stored) and got.fault is None, got

    def execute(self, request: Any) -> Executed:
        got = self.worker.answer(request)
        assert isinstance(got, Executed) and not got.broken_guards and not got.changed, got
        return got

    def measure(self, request: Any) -> Measured:
        got = self.worker.answer(request)
        assert isinstance(got, Measured) and not got.broken_guards, got
        return got


def test_a_whole_calibration_through_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    small = tuple(replace(c, cells=2048, stride=64) if c.latency == "dram_ns" else c for c in CHASES)
    monkeypatch.setattr(taking, "CHASES", small)
    monkeypatch.setattr(taking, "_LEAST_SWEEP_BYTES", 1 << 20)
    monkeypatch.setattr(timing, "LEAST_WRITE_BYTES", 1 << 16)
    monkeypatch.setattr(timing, "WARM_S", 0.0)
    kernels: dict[str, Callable[[Launch], None]] = {
        **{s.kernel: stream(s) for s in STREAMS},
        **{p.kernel: loop(p) for p in LOOPS},
        "chase_l1": chase("chase_l1"),
        "chase_l2": chase("chase_l2"),
        "chase_shared": chase_shared,
        "link": link,
        "sweep": sweep,
        "empty": lambda x: None,
    }
    cuda = FakeCuda(kernels)
    worker = Direct(Worker(cuda, cuda.driver, cuda.Device(0), Ask(7, 0xFFF81234)))
    samples = taking.take(worker, GPU)
    assert not samples.faults
    found = {f.name: f for f in work_out(samples, GPU, RATES)}
    assert not [f for f in found.values() if f.doubt and not f.name.startswith("l2_read")]
    for name in ("write_gbs", "read_gbs", "copy_16b_gbs", "copy_4b_gbs", "triad_gbs"):
        assert found[name].mid == pytest.approx(4000, rel=0.01)
    for bench in LOOPS:
        if bench.rate in RATES and bench.kernel != "shared_read":
            assert found[bench.figure].per_clock == pytest.approx(0.9 * RATES[bench.rate or ""], rel=0.01)
            assert found[bench.figure].clock_mhz == pytest.approx(GPU.clock_mhz, rel=0.01)
    assert found["shared_clocks"].mid == 30 and found["l1_clocks"].mid == 40
    assert found["l2_clocks"].mid == 300 and found["dram_ns"].mid == 600
    assert found["launch_us"].mid == pytest.approx(1.0)
