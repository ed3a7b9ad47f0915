"""Runs the microbenchmarks in a GPU worker: raw samples."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from evolve.codegen.launch import BufferArg, ConcreteLaunch, ScalarArg
from evolve.devices.calibration.attributes import Attributes
from evolve.devices.calibration.benches import (
    BLOCK,
    CHASES,
    DRAM_WARM_HOPS,
    HOPS,
    L2_TILE_BYTES,
    LOOPS,
    STREAM_BLOCK,
    STREAMS,
    Chase,
    Loop,
    Source,
    Stream,
    kernel_text,
)
from evolve.devices.calibration.samples import Chased, Pair, Samples
from evolve.devices.cuda.messages import Execute, Executed, Measure, Measured, SetArrays
from evolve.ir.errors import EvolveError
from evolve.toolchain.nvrtc import compile_cuda

MORE = 5
"""How many times the small amount of work a loop's large amount is; a stream's is four times."""

_TENSOR_SINCE = (8, 0)
_SAMPLES = 25
_PILOT = 64
_LOOP_US = 400.0
"""About how long a loop's small amount takes."""
_STREAM_BYTES = 2 << 30
_STEP = 8192
"""Every stream's part is a multiple of so many elements: then grids cover it exactly."""
_LEAST_SWEEP_BYTES = 64 << 20
_SLOT_SEED = 20240607
_LARGEST_RING = 4096

Progress = Callable[[str], None]


class Worker(Protocol):
    """What is needed of `devices.cuda.client.CudaWorker`."""

    def set_arrays(self, request: SetArrays) -> object: ...

    def execute(self, request: Execute) -> Executed: ...

    def measure(self, request: Measure) -> Measured: ...


def build(arch: str, capability: tuple[int, int]) -> dict[Source, bytes]:
    """The kernels' cubins. Raises EvolveError `unsupported-arch`, `no-nvrtc`."""
    built: dict[Source, bytes] = {}
    sources: tuple[Source, ...] = ("memory", "arithmetic", "tensor", "latency")
    for source in sources:
        if source == "tensor" and capability < _TENSOR_SINCE:
            continue
        result = compile_cuda(kernel_text(source), arch)
        if result.cubin is None:
            raise EvolveError("calibration-build", f"the {source} kernels do not compile: {result.log[:500]}")
        built[source] = result.cubin
    return built


def take(worker: Worker, gpu: Attributes, progress: Progress = lambda text: None) -> Samples:
    """Builds and runs everything. A benchmark that fails leaves its reason in `faults`."""
    cubins = build(gpu.arch, gpu.compute_capability)
    taker = _Taker(worker, gpu, cubins)
    with tempfile.TemporaryDirectory(prefix="evolve-calibrate-") as folder:
        progress("streams through DRAM")
        taker.streams(Path(folder))
        progress("arithmetic, shared memory and L2")
        taker.loops()
        progress("latencies")
        taker.chases(Path(folder))
    return Samples(taker.pairs, taker.chased, taker.launch_us, taker.faults)


class _Taker:
    def __init__(self, worker: Worker, gpu: Attributes, cubins: dict[Source, bytes]) -> None:
        self.worker = worker
        self.gpu = gpu
        self.cubins = cubins
        self.pairs: dict[str, Pair] = {}
        self.chased: dict[str, Chased] = {}
        self.launch_us: tuple[float, ...] = ()
        self.faults: dict[str, str] = {}

    def streams(self, folder: Path) -> None:
        size = min(_STREAM_BYTES, self.gpu.memory_bytes // 8)
        memory = _zeros_file(folder / "stream.npy", size // 4)
        self.worker.set_arrays(
            SetArrays("stream", {"memory": memory, "sink": np.zeros(STREAM_BLOCK, np.uint32)})
        )
        sequences = [_stream(s, n) for s in STREAMS for n in _parts(s, size)]
        sequences.append((ConcreteLaunch("empty", (ScalarArg("unused", "i32", 0),), (1, 1, 1), (32, 1, 1)),))
        got = self._measure("stream", "memory", sequences)
        if got.error or len(got.samples_us) != len(sequences):
            reason = got.error or "the worker gave no samples"
            self.faults.update({s.kernel: reason for s in STREAMS} | {"empty": reason})
            return
        for index, stream in enumerate(STREAMS):
            few, many = (n * stream.moved for n in _parts(stream, size))
            few_us, many_us = got.samples_us[2 * index : 2 * index + 2]
            self.pairs[stream.kernel] = Pair(few, many, few_us, many_us)
        self.launch_us = got.samples_us[-1]

    def loops(self) -> None:
        tiles = max(1, self.gpu.l2_bytes // 4 // L2_TILE_BYTES)
        self.worker.set_arrays(
            SetArrays(
                "loops",
                {
                    "memory": np.arange(tiles * L2_TILE_BYTES // 4, dtype=np.uint32),
                    "sink": np.zeros(self.gpu.sms * BLOCK, np.uint64),
                    "cycles": np.zeros(self.gpu.sms, np.int64),
                },
            )
        )
        for loop in LOOPS:
            if loop.source in self.cubins:
                with self._blamed(loop.kernel):
                    self.pairs[loop.kernel] = self._loop(loop, tiles)

    def _loop(self, loop: Loop, tiles: int) -> Pair:
        pilot = self._clocks(loop, tiles, _PILOT)
        clocks = float(np.median(pilot)) / _PILOT
        # Four instructions of a warp leave an SM in a clock, not more; half of that for clocks that differ.
        if clocks < BLOCK / 32 * loop.instructions / 4 / 2:
            raise _FailedError(f"its loop cannot take {clocks:g} clocks")
        few = max(_PILOT, round(_LOOP_US * self.gpu.clock_mhz / clocks))
        many = MORE * few
        sequences = [(_loop_launch(loop, self.gpu, tiles, n),) for n in (few, many)]
        got = self._measure("loops", loop.source, sequences)
        if got.error or len(got.samples_us) != 2:
            raise _FailedError(got.error or "the worker gave no samples")
        work = self.gpu.sms * BLOCK * loop.instructions * loop.results
        few_us, many_us = got.samples_us
        few_clocks, many_clocks = (self._clocks(loop, tiles, n) for n in (few, many))
        return Pair(few * work, many * work, few_us, many_us, few_clocks, many_clocks)

    def _clocks(self, loop: Loop, tiles: int, n: int) -> tuple[int, ...]:
        launch = _loop_launch(loop, self.gpu, tiles, n)
        got = self.worker.execute(Execute(self.cubins[loop.source], (launch,), "loops", ("sink", "cycles")))
        if got.error:
            raise _FailedError(got.error)
        return tuple(int(c) for c in got.outputs["cycles"])

    def chases(self, folder: Path) -> None:
        # Reading four times its size leaves nothing else in L2.
        other = _zeros_file(folder / "other.npy", _sweep_bytes(self.gpu) // 4)
        for chase in CHASES:
            with self._blamed(chase.latency):
                self.chased[chase.latency] = self._chase(chase, other)

    def _chase(self, chase: Chase, other: str) -> Chased:
        shared = chase.kernel == "chase_shared"
        slots = ring(chase.cells, chase.stride // (4 if shared else 8))
        arrays: dict[str, object] = {"slots": slots, "result": np.zeros(4, np.uint64)}
        outputs: tuple[str, ...] = ("result",)
        if not shared:
            arrays["cells"] = np.zeros(chase.region_bytes // 8, np.uint64)
            outputs = ("cells", "result")
        if not chase.warm:
            arrays["other"] = other
        key = f"chase:{chase.latency}"
        self.worker.set_arrays(SetArrays(key, arrays))
        warm, timed = rounds(chase)
        launches = _chase_launches(chase, self.gpu, warm, timed)
        got = self.worker.execute(Execute(self.cubins["latency"], launches, key, outputs))
        if got.error:
            raise _FailedError(got.error)
        clocks, ns, end = (int(v) for v in got.outputs["result"][:3])
        hops = timed * HOPS
        arrived = end == int(slots[(warm + timed) * HOPS % chase.cells])
        return Chased(hops, clocks, ns, arrived)

    def _measure(self, key: str, source: Source, sequences: Sequence[tuple[ConcreteLaunch, ...]]) -> Measured:
        return self.worker.measure(
            Measure(
                cubins=(self.cubins[source],) * len(sequences),
                launches=tuple(sequences),
                keys=(key,),
                least=_SAMPLES,
                most=_SAMPLES,
                budget_s=10.0,
                batch=0,
            )
        )

    @contextmanager
    def _blamed(self, name: str) -> Iterator[None]:
        try:
            yield
        except _FailedError as failed:
            self.faults[name] = str(failed)


class _FailedError(Exception):
    """A benchmark that gave nothing, in words."""


def ring(cells: int, step: int) -> npt.NDArray[np.uint32]:
    """The places 0, step, 2 step, … of a ring in the random order in which a chase visits them."""
    order = np.random.default_rng(_SLOT_SEED).permutation(cells)
    return (order * step).astype(np.uint32)


def rounds(chase: Chase) -> tuple[int, int]:
    """Rounds of `HOPS` loads before the timed ones, and timed."""
    if not chase.warm:
        return DRAM_WARM_HOPS // HOPS, (chase.cells - DRAM_WARM_HOPS) // HOPS
    return chase.cells // HOPS, max(chase.cells, _LARGEST_RING) // HOPS


def _parts(stream: Stream, size: int) -> tuple[int, int]:
    """Elements per part in the small and the large launch over `size` bytes."""
    most = size // (stream.areas * stream.element_bytes)
    return max(1, most // 4 // _STEP) * _STEP, max(2, most // _STEP) * _STEP


def _stream(stream: Stream, elements: int) -> tuple[ConcreteLaunch, ...]:
    args = (
        BufferArg("memory"),
        BufferArg("sink"),
        ScalarArg("from", "i64", 0),
        ScalarArg("to", "i64", (stream.areas - 1) * elements),
    )
    blocks = elements // (STREAM_BLOCK * stream.per_thread)
    return (ConcreteLaunch(stream.kernel, args, (blocks, 1, 1), (STREAM_BLOCK, 1, 1)),)


def _loop_launch(loop: Loop, gpu: Attributes, tiles: int, n: int) -> ConcreteLaunch:
    last = ScalarArg("n", "i32", n)
    args: tuple[BufferArg | ScalarArg, ...]
    if loop.a is None or loop.b is None:
        args = (BufferArg("memory"), BufferArg("sink"), BufferArg("cycles"), ScalarArg("tiles", "i32", tiles))
    else:
        scalars = (ScalarArg("a", loop.dtype, loop.a), ScalarArg("b", loop.dtype, loop.b))
        args = (BufferArg("sink"), BufferArg("cycles"), *scalars)
    # Half an SM's shared memory and some: no SM can hold two blocks, so every SM has one.
    static = BLOCK * 16 if loop.kernel == "shared_read" else 0
    half = gpu.shared_bytes_per_sm // 2 + 1024 - static
    shared = max(0, min(half, gpu.shared_bytes_per_block_optin - static))
    return ConcreteLaunch(loop.kernel, (*args, last), (gpu.sms, 1, 1), (BLOCK, 1, 1), shared)


def _chase_launches(chase: Chase, gpu: Attributes, warm: int, timed: int) -> tuple[ConcreteLaunch, ...]:
    one = (1, 1, 1)
    counts = (ScalarArg("warm", "i32", warm), ScalarArg("timed", "i32", timed))
    slots, result, cells = BufferArg("slots"), BufferArg("result"), BufferArg("cells")
    count = ScalarArg("count", "i32", chase.cells)
    if chase.kernel == "chase_shared":
        return (ConcreteLaunch(chase.kernel, (slots, result, count, *counts), one, one),)
    blocks = -(-chase.cells // STREAM_BLOCK)
    launches = [ConcreteLaunch("link", (slots, cells, count), (blocks, 1, 1), (STREAM_BLOCK, 1, 1))]
    if not chase.warm:
        args = (BufferArg("other"), result, ScalarArg("count", "i64", _sweep_bytes(gpu) // 16))
        launches.append(ConcreteLaunch("sweep", args, (2 * gpu.sms, 1, 1), (BLOCK, 1, 1)))
    launches.append(ConcreteLaunch(chase.kernel, (slots, cells, result, *counts), one, one))
    return tuple(launches)


def _sweep_bytes(gpu: Attributes) -> int:
    return max(4 * gpu.l2_bytes, _LEAST_SWEEP_BYTES)


def _zeros_file(path: Path, words: int) -> str:
    """A .npy file of so many 32-bit zeros that takes no room on the disk."""
    np.lib.format.open_memmap(path, mode="w+", dtype=np.uint32, shape=(words,)).flush()
    return str(path)
