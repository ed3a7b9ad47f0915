"""The process that owns the GPU context: receives requests on a pipe, answers with raw numbers.

Buffers lie in one allocation each with guard bands on both sides. The worker decides nothing:
it does not know what is being optimised, and what it returns is judged in the parent.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from evolve.codegen.launch import BufferArg, ConcreteLaunch
from evolve.devices.compare import worst_error
from evolve.devices.cuda.messages import (
    Array,
    Ask,
    Execute,
    Executed,
    GpuInfo,
    Measure,
    Measured,
    Request,
    SetArrays,
)

GUARD_BYTES = 4096
"""On each side of every buffer (integrity rule: at least 4 KiB); keeps the base 256-byte aligned."""
_GUARD_FILL = 0xC5
_POISON_FILL = 0xFF  # NaN as floats, -1 as integers
_FLUSH_MIN_BYTES = 256 << 20
_SHARED_WITHOUT_OPT_IN = 48 * 1024
_STICKY = ("IllegalAddress", "launch failed", "illegal", "misaligned", "assert", "timeout", "unspecified")

_CTYPE = {
    "f32": np.float32,
    "f64": np.float64,
    "i32": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
}


class _Resident:
    """A set of arrays on the device, each between guard bands, with its host original."""

    def __init__(self, cuda: Any, arrays: dict[str, Array]) -> None:
        self.cuda = cuda
        self.host = arrays
        self.allocation = {n: cuda.mem_alloc(a.nbytes + 2 * GUARD_BYTES) for n, a in arrays.items()}
        for name in arrays:
            self.reset(name)

    def pointer(self, name: str) -> int:
        return int(self.allocation[name]) + GUARD_BYTES

    def reset(self, name: str) -> None:
        """Guards and contents as sent."""
        a = self.host[name]
        base = int(self.allocation[name])
        self.cuda.memset_d8(base, _GUARD_FILL, GUARD_BYTES)
        self.cuda.memset_d8(base + GUARD_BYTES + a.nbytes, _GUARD_FILL, GUARD_BYTES)
        self.cuda.memcpy_htod(base + GUARD_BYTES, np.ascontiguousarray(a))

    def poison(self, name: str) -> None:
        self.cuda.memset_d8(self.pointer(name), _POISON_FILL, self.host[name].nbytes)

    def fetch(self, name: str) -> Array:
        out = np.empty_like(self.host[name])
        self.cuda.memcpy_dtoh(out, self.pointer(name))
        return out

    def guards_intact(self, name: str) -> bool:
        band = np.empty(GUARD_BYTES, np.uint8)
        for at in (int(self.allocation[name]), self.pointer(name) + self.host[name].nbytes):
            self.cuda.memcpy_dtoh(band, at)
            if not bool((band == _GUARD_FILL).all()):
                return False
        return True

    def free(self) -> None:
        for a in self.allocation.values():
            a.free()


class _Worker:
    def __init__(self, cuda: Any, device: Any) -> None:
        self.cuda = cuda
        self.device = device
        self.sets: dict[str, _Resident] = {}
        self.host_sets: dict[str, dict[str, Array]] = {}
        self.flush_bytes = max(_FLUSH_MIN_BYTES, 4 * self.info().l2_bytes)
        self.flush = cuda.mem_alloc(self.flush_bytes)
        self.modules: dict[bytes, Any] = {}

    def info(self) -> GpuInfo:
        a = self.cuda.device_attribute
        get = self.device.get_attribute
        return GpuInfo(
            name=self.device.name(),
            compute_capability=self.device.compute_capability(),
            multiprocessors=get(a.MULTIPROCESSOR_COUNT),
            clock_mhz=get(a.CLOCK_RATE) // 1000,
            memory_clock_mhz=get(a.MEMORY_CLOCK_RATE) // 1000,
            memory_bus_bits=get(a.GLOBAL_MEMORY_BUS_WIDTH),
            l2_bytes=get(a.L2_CACHE_SIZE),
            memory_bytes=self.device.total_memory(),
            driver_version=self.cuda.get_driver_version(),
        )

    def answer(self, request: Request) -> object:
        match request:
            case Ask():
                return self.info()
            case SetArrays():
                return self.set_arrays(request)
            case Execute():
                return self.execute(request)
            case Measure():
                return self.measure(request)

    def set_arrays(self, r: SetArrays) -> Executed:
        old = self.sets.pop(r.key, None)
        if old is not None:
            old.free()
        arrays: dict[str, Array] = {
            n: np.load(a, mmap_mode="r") if isinstance(a, str) else a for n, a in r.arrays.items()
        }
        if r.key.startswith("expected:"):
            self.host_sets[r.key] = arrays
        else:
            self.sets[r.key] = _Resident(self.cuda, arrays)
        return Executed()

    def _calls(self, cubin: bytes, launches: Sequence[ConcreteLaunch], on: _Resident) -> list[Any]:
        module = self.modules.get(cubin)
        if module is None:
            if len(self.modules) > 64:
                self.modules.clear()
            module = self.modules[cubin] = self.cuda.module_from_buffer(cubin)
        return [self._call(module, launch, on) for launch in launches]

    def _call(self, module: Any, launch: ConcreteLaunch, on: _Resident) -> Any:
        function = module.get_function(launch.kernel)
        if launch.shared_bytes > _SHARED_WITHOUT_OPT_IN:
            attribute = self.cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(attribute, launch.shared_bytes)
        args = [
            np.uint64(on.pointer(a.name))
            if isinstance(a, BufferArg)
            else np.dtype(_CTYPE[a.dtype]).type(a.value)
            for a in launch.args
        ]
        return partial(function, *args, grid=launch.grid, block=launch.block, shared=launch.shared_bytes)

    def execute(self, r: Execute) -> Executed:
        on = self.sets[r.key]
        for name in r.inouts:
            on.reset(name)
        for name in r.outputs:
            if name not in r.inouts:
                on.poison(name)
        for call in self._calls(r.cubin, r.launches, on):
            call()
        self.cuda.Context.synchronize()
        outputs = {n: on.fetch(n) for n in r.outputs}
        changed = tuple(n for n in on.host if n not in r.outputs and not _bit_equal(on.fetch(n), on.host[n]))
        broken = tuple(n for n in on.host if not on.guards_intact(n))
        for name in {*r.inouts, *changed, *broken}:
            on.reset(name)
        if r.expected is None:
            return Executed(outputs=outputs, changed=changed, broken_guards=broken)
        want = self.host_sets[r.expected]
        worst = {n: worst_error(outputs[n], want[n], want[f"{n}.tolerance"]) for n in r.outputs}
        return Executed(worst=worst, changed=changed, broken_guards=broken)

    def measure(self, r: Measure) -> Measured:
        on = self.sets[r.key]
        sequences = [self._calls(c, s, on) for c, s in zip(r.cubins, r.launches, strict=True)]
        samples: list[list[float]] = [[] for _ in sequences]
        spent = 0.0
        for turn in range(r.warmup + r.repeats):
            # A-B-B-A: drift of clocks and temperature cancels between sequences.
            order = range(len(sequences)) if turn % 2 == 0 else range(len(sequences) - 1, -1, -1)
            for k in order:
                for name in r.inouts:
                    on.reset(name)
                us = self._timed(sequences[k])
                spent += us * 1e-6
                if turn >= r.warmup:
                    samples[k].append(us)
            if turn >= r.warmup + 4 and spent > r.budget_s:
                break
        return Measured(tuple(map(tuple, samples)), floor_us=self._floor())

    def _timed(self, calls: Sequence[Any]) -> float:
        self.cuda.memset_d8(self.flush, 0, self.flush_bytes)
        start, end = self.cuda.Event(), self.cuda.Event()
        start.record()
        for call in calls:
            call()
        end.record()
        end.synchronize()
        return float(start.time_till(end)) * 1e3

    def _floor(self) -> float:
        """Nothing between two events: the resolution that short kernels drown in."""
        return min(self._timed(()) for _ in range(5))


def _bit_equal(a: Array, b: Array) -> bool:
    return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def serve(pipe: Connection, ordinal: int) -> None:
    """Runs until the parent closes the pipe."""
    import pycuda.driver as cuda

    # Ctrl-C reaches the whole process group; the parent decides when the worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cuda.init()
    device = cuda.Device(ordinal)
    context = device.retain_primary_context()
    context.push()
    try:
        worker = _Worker(cuda, device)
        while True:
            try:
                request: Request = pipe.recv()
            except EOFError:
                return
            try:
                pipe.send(worker.answer(request))
            except cuda.Error as e:
                text = f"{type(e).__name__}: {e}"
                failed = Measured if isinstance(request, Measure) else Executed
                pipe.send(failed(error=text, sticky=any(s in text for s in _STICKY)))
    finally:
        # PyCUDA aborts at exit when a context is still on the stack.
        context.pop()
