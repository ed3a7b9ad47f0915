"""A GPU that exists in numbers only: its attributes, and a worker that answers as it would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evolve.codegen.launch import BufferArg, ConcreteLaunch
from evolve.devices.calibration.attributes import Attributes
from evolve.devices.calibration.benches import BLOCK, HOPS, LOOPS, STREAMS
from evolve.devices.cuda.messages import Execute, Executed, Measure, Measured, SetArrays

H200 = Attributes(
    name="NVIDIA H200",
    compute_capability=(9, 0),
    sms=132,
    clock_mhz=1980.0,
    memory_clock_mhz=3201.0,
    memory_bus_bits=6016,
    memory_bytes=139 << 30,
    l2_bytes=62914560,
    constant_bytes=65536,
    shared_bytes_per_sm=233472,
    shared_bytes_per_block=49152,
    shared_bytes_per_block_optin=232448,
    shared_reserved_per_block=1024,
    warp=32,
    threads_per_block=1024,
    threads_per_sm=2048,
    blocks_per_sm=32,
    registers_per_sm=65536,
    registers_per_block=65536,
    cuda="13.0",
    driver="580.0",
)

PER_CLOCK = {  # results per SM and clock, near the machine's rates
    "fma_f32": 2 * 125.0,
    "fma_f64": 2 * 63.0,
    "int_mad": 63.5,
    "int_add": 63.8,
    "ex2_f32": 15.9,
    "shared_read": 127.0,
    "mma_f16": 2600.0,
    "l2_read": 27.0,
}
DRAM_GBS = {0: 4600.0, 1: 4300.0, 2: 4100.0, 3: 4200.0}
LAUNCH_US = 5.0
LATENCY = {"chase_shared": 29.0, "chase_l1": 36.0, "chase_l2": 270.0, "dram": 1100.0}


@dataclass
class FakeWorker:
    """Answers with the times and counters of the GPU above; `broken` kernels fail."""

    gpu: Attributes = H200
    per_clock: Mapping[str, float] = field(default_factory=lambda: dict(PER_CLOCK))
    broken: frozenset[str] = frozenset()
    sets: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def set_arrays(self, request: SetArrays) -> None:
        self.sets[request.key] = {
            n: np.load(a, mmap_mode="r") if isinstance(a, str) else a for n, a in request.arrays.items()
        }

    def measure(self, request: Measure) -> Measured:
        for sequence in request.launches:
            for launch in sequence:
                if launch.kernel in self.broken:
                    return Measured(fault=_fault())
        samples = []
        for k, sequence in enumerate(request.launches):
            us = LAUNCH_US + sum(self._us(launch, request.keys[0]) for launch in sequence)
            samples.append(tuple(us * (1 + 0.001 * ((7 * i + k) % 5)) for i in range(request.least)))
        return Measured(tuple(samples))

    def execute(self, request: Execute) -> Executed:
        last = request.launches[-1]
        if last.kernel in self.broken:
            return Executed(fault=_fault())
        arrays = self.sets[request.key]
        scalars = {a.name: a.value for a in last.args if not isinstance(a, BufferArg)}
        if last.kernel.startswith("chase"):
            slots = arrays["slots"]
            per_hop = LATENCY["dram" if "other" in arrays else last.kernel]
            warm, timed = int(scalars["warm"]), int(scalars["timed"])
            clocks = round(timed * HOPS * per_hop)
            end = int(slots[(warm + timed) * HOPS % len(slots)])
            result = np.array([clocks, clocks / self.gpu.clock_mhz * 1e3, end, 0], np.uint64)
            return Executed(outputs={"result": result})
        cycles = np.full(self.gpu.sms, 500 + round(self._clocks(last)), np.int64)
        return Executed(outputs={"cycles": cycles, "sink": arrays["sink"]})

    def _clocks(self, launch: ConcreteLaunch) -> float:
        loop = next(one for one in LOOPS if one.kernel == launch.kernel)
        n = next(float(a.value) for a in launch.args if not isinstance(a, BufferArg) and a.name == "n")
        return n * BLOCK * loop.instructions * loop.results / self.per_clock[launch.kernel]

    def _us(self, launch: ConcreteLaunch, key: str) -> float:
        if launch.kernel == "empty":
            return 0.0
        stream = next((s for s in STREAMS if s.kernel == launch.kernel), None)
        if stream is None:
            return self._clocks(launch) / self.gpu.clock_mhz
        elements = launch.grid[0] * launch.block[0] * stream.per_thread
        touched = elements * stream.areas * stream.element_bytes
        assert touched <= self.sets[key]["memory"].nbytes, "it would go over the end"
        kind = {(0, 1): 0, (1, 0): 1, (1, 1): 2, (2, 1): 3}[stream.loads, stream.stores]
        return elements * stream.moved / (DRAM_GBS[kind] * 1e9) * 1e6


def _fault() -> Any:
    from evolve.devices.cuda.messages import Fault

    return Fault("launch", "no such luck")
