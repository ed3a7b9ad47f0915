"""The process that owns the GPU context: receives requests on a socket, answers with raw numbers.

The worker decides nothing: it does not know what is being optimised, and what it returns is judged in the
parent. `python -m evolve.devices.cuda.worker FD ORDINAL`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from evolve.devices.cuda.faults import ArrayMemoryError, BadImageError, KernelTimeoutError, classify
from evolve.devices.cuda.helpers import helper_image
from evolve.devices.cuda.hidden import Hidden, HidingError
from evolve.devices.cuda.launching import Images, wait
from evolve.devices.cuda.lock import exclusive
from evolve.devices.cuda.memory import RESULTS, Bounds, Gpu, Resident
from evolve.devices.cuda.messages import (
    Answer,
    Array,
    Ask,
    Drop,
    Execute,
    Executed,
    Fault,
    GpuInfo,
    Measure,
    Measured,
    Refer,
    Request,
    SetArrays,
    SetExpected,
    Stored,
    View,
    Viewed,
)
from evolve.devices.cuda.nvml import Nvml
from evolve.devices.cuda.reference import refer
from evolve.devices.cuda.timing import Measurement, Timer
from evolve.devices.cuda.views import driver_views

_BLOCKS_PER_SM = 16
LEAST_HIDDEN_BYTES = 64 << 10
"""What is smaller is as quick to upload as to map."""
PINNED_BYTES = 8 << 30
"""Of page-locked host memory at a time."""


class Worker:
    """Answers requests on one context. `cuda` is pycuda.driver, `driver` cuda.bindings.driver."""

    def __init__(self, cuda: Any, driver: Any, device: Any, ask: Ask, ordinal: int = 0) -> None:
        self.cuda = cuda
        self.ordinal = ordinal
        self.driver = driver
        self.device = device
        self.nvml = Nvml(str(device.pci_bus_id()))
        self.sets: dict[str, Resident] = {}
        self.pinned: dict[str, int] = {}
        self.expected: dict[str, dict[str, Bounds]] = {}
        get = self._attribute
        capability = device.compute_capability()
        image = helper_image(f"sm_{capability[0]}{capability[1]}")
        self.gpu = Gpu(
            cuda,
            driver,
            cuda.module_from_buffer(image),
            _BLOCKS_PER_SM * get("MULTIPROCESSOR_COUNT"),
            ask.key,
            # PyCUDA frees what nobody holds: never the address alone.
            cuda.mem_alloc(8 * RESULTS),
            ask.poison,
        )
        self.images = Images(self.gpu)
        self.timer = Timer(self.gpu, get("L2_CACHE_SIZE"))

    def answer(self, request: Request) -> Answer:
        """The answer; a Fault in it where the request could not be carried out.

        Raises what is neither the driver's error nor one of this package: that is a bug.
        """
        try:
            return self._answer(request)
        except (self.cuda.Error, KernelTimeoutError, BadImageError, ArrayMemoryError, OSError) as e:
            fault = classify(e, self.cuda, self.driver)
            return _failed(request, fault)

    def _answer(self, request: Request) -> Answer:
        match request:
            case Ask():
                return self.info()
            case SetArrays():
                return self.set_arrays(request)
            case SetExpected():
                self._drop(request.key)
                self.expected[request.key] = {
                    n: self._bounds(request.key, low, high) for n, (low, high) in request.bounds.items()
                }
                return Stored()
            case Drop():
                for key in request.keys:
                    self._drop(key)
                return Stored()
            case Execute():
                return self.execute(request)
            case Measure():
                job = Measurement(request, self.timer, self.images, self.sets, self.expected, self.nvml)
                with exclusive(str(self.device.pci_bus_id())):
                    return job.run()
            case Refer():
                kept = refer(request, self.gpu, self.images, self.sets[request.key], self._room)
                if request.keep:
                    self._drop(request.keep)
                    self.expected[request.keep] = kept
                return Stored()
            case View():
                return Viewed(driver_views(self.driver, request.cubin, request.launches))

    def info(self) -> GpuInfo:
        get = self._attribute
        return GpuInfo(
            name=self.device.name(),
            compute_capability=self.device.compute_capability(),
            multiprocessors=get("MULTIPROCESSOR_COUNT"),
            clock_mhz=get("CLOCK_RATE") // 1000,
            memory_clock_mhz=get("MEMORY_CLOCK_RATE") // 1000,
            memory_bus_bits=get("GLOBAL_MEMORY_BUS_WIDTH"),
            l2_bytes=get("L2_CACHE_SIZE"),
            memory_bytes=self.device.total_memory(),
            driver_version=self.cuda.get_driver_version(),
            persisting_reset=self.timer.persisting_reset,
            clocks=self.nvml.read() is not None,
        )

    def _attribute(self, name: str) -> int:
        return int(self.device.get_attribute(getattr(self.cuda.device_attribute, name)))

    def set_arrays(self, r: SetArrays) -> Stored:
        self._drop(r.key)
        self.sets[r.key] = Resident(self.gpu, {n: _array(a) for n, a in r.arrays.items()}, r.shift)
        return Stored()

    def _drop(self, key: str) -> None:
        for bounds in self.expected.pop(key, {}).values():
            if isinstance(bounds, Hidden):
                bounds.free()
        self.pinned.pop(key, None)
        old = self.sets.pop(key, None)
        if old is not None:
            old.free()

    def execute(self, r: Execute) -> Executed:
        on = self.sets[r.key]
        self.timer.busy.mark(time.monotonic())
        for name in r.outputs:
            if name in r.inouts:
                on.reset(name)
            else:
                on.poison(name)
        start, end = self.cuda.Event(), self.cuda.Event()
        calls = self.images.calls(r.cubin, r.launches, on.pointer)
        self.images.poison(r.launches)
        start.record()
        for call in calls:
            call()
        end.record()
        wait(end, r.limit_s)
        self.cuda.Context.synchronize()
        digests = dict(zip(r.outputs, self.gpu.digests(map(on.region, r.outputs)), strict=True))
        left = {n: self.gpu.left(on.pointer(n), on.host[n]) for n in r.outputs}
        changed, broken = on.damage(r.outputs)
        broken += self.images.damage(r.launches)
        outputs = {n: on.fetch(n) for n in r.outputs} if r.fetch else {}
        want = self.expected[r.expected] if r.expected else {}
        compared = {n: self.gpu.compare(on.pointer(n), want[n]) for n in r.outputs if n in want}
        self.timer.busy.mark(time.monotonic())
        us = 1e3 * float(start.time_till(end))
        return Executed(outputs, left, compared, digests, changed, broken, us)

    def _bounds(self, key: str, low: Any, high: Any) -> Bounds:
        """Hidden on the device, else in page-locked memory of the host, else as they are."""
        first, last = _array(low), _array(high)
        hidden = self._room(first)
        if hidden is None:
            return self._pin(key, first), self._pin(key, last)
        hidden.upload(self.cuda, first, last)
        return hidden

    def _room(self, like: Array) -> Hidden | None:
        if like.nbytes < LEAST_HIDDEN_BYTES:
            return None
        try:
            return Hidden(self.driver, self.ordinal, like)
        except HidingError:
            return None

    def _pin(self, key: str, found: Array) -> Array:
        """A copy in page-locked memory, which goes to the device several times as fast; else as it is."""
        if found.nbytes > PINNED_BYTES - sum(self.pinned.values()):
            return found
        try:
            copy: Array = self.cuda.pagelocked_empty(found.shape, found.dtype)
        except self.cuda.Error:
            return found
        copy[...] = found
        self.pinned[key] = self.pinned.get(key, 0) + found.nbytes
        return copy


def _array(a: Any) -> Array:
    return np.load(a, mmap_mode="r") if isinstance(a, str) else np.asarray(a)


def _failed(request: Request, fault: Fault) -> Answer:
    if isinstance(request, Execute):
        return Executed(fault=fault)
    if isinstance(request, Measure):
        return Measured(fault=fault)
    if isinstance(request, View):
        return Viewed(fault=fault)
    return Stored(fault)


def serve(pipe: Connection, cuda: Any, driver: Any, ordinal: int) -> None:
    """Runs until the parent closes the pipe, or a kernel does not end."""
    cuda.init()
    device = cuda.Device(ordinal)
    context = device.retain_primary_context()
    context.push()
    try:
        worker: Worker | None = None
        while True:
            try:
                request: Request = pipe.recv()
            except EOFError:
                return
            if worker is None:
                assert isinstance(request, Ask)
                worker = Worker(cuda, driver, device, request, ordinal)
            answer = worker.answer(request)
            pipe.send(answer)
            fault: Fault | None = getattr(answer, "fault", None)
            if fault is not None and fault.kind == "timeout":
                # Nothing on this context returns any more; ending the process ends the kernel.
                os._exit(1)
    finally:
        # PyCUDA aborts at exit when a context is still on the stack.
        context.pop()


def main(argv: list[str]) -> int:
    """The worker's process."""
    # Ctrl-C reaches the whole process group; the parent decides when the worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = Connection(int(argv[0]))
    try:
        import pycuda.driver as cuda
        from cuda.bindings import driver

        serve(pipe, cuda, driver, int(argv[1]))
    except Exception as e:  # a broken installation fails in ways of its own, and the parent says which
        _farewell(pipe, e)
        return 1
    return 0


def _farewell(pipe: Connection, e: Exception) -> None:
    """Tells the parent why the worker ends, if it still listens."""
    try:
        pipe.send(Stored(Fault("lost", f"{type(e).__name__}: {e}", sticky=True)))
    except OSError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
