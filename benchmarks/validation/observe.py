"""Measures drawn programs on a GPU and records what the time model is given for each.

    python benchmarks/validation/observe.py --commit C --out FILE.jsonl.xz DRAWS.jsonl...

One record a program: its measured times (events, L2 cold), and the inputs of
`evolve.devices.estimate.estimate`: resources, machine code, lines, traffic of an average block, launches.
With these the model can be evaluated again, without a GPU or a compiler (`evaluate.py`). Programs that the
host cannot trace are recorded with the reason.
"""

from __future__ import annotations

import argparse
import base64
import json
import lzma
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from evolve.codegen.launch import BufferArg, ConcreteLaunch
from evolve.codegen.module import render
from evolve.codegen.rendered import concretise
from evolve.devices.sampled import traffic_at
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.tracing import TraceBuffer
from evolve.ir.errors import EvolveError
from evolve.ir.kernel import Module
from evolve.scoring.references import References
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda, nvrtc_version
from evolve.workload.inputs import numpy_dtype

KERNELS = Path(__file__).parents[2] / "kernels"
ORIGINAL = ""
FAMILY = "normal"
WRITTEN, READ_BYTES = 256 << 20, 128 << 20
MOST_US = 1e5
"""A program that takes longer is timed once."""
PAIRS = ((2e4, 3), (3e3, 5), (0.0, 11))
"""Samples after each flush for programs that take longer than so many microseconds."""
READ = """extern "C" __global__ void ev_read(const uint4* p, size_t n, unsigned* sink) {
    unsigned all = 0;
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += step) {
        const uint4 v = p[i];
        all ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    if (all == 0x12345u) *sink = all;
}
"""
TYPES = {"f32": "float32", "f64": "float64", "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64"}


@cache
def problem_of(kernel: str) -> KernelProblem:
    path = KERNELS / f"{kernel}.cu"
    return open_problem(ProblemRequest(str(path), path.read_text(), device="sim:h200-sxm"))


def prepare(draw: dict[str, Any]) -> dict[str, Any]:
    """The record of a program but for its time, with `cubin` and `launches` for the measurement."""
    problem = problem_of(draw["kernel"])
    module: Module = problem.task.original
    if draw["program"] != ORIGINAL:
        compiled = problem.compile(problem.parse(draw["program"]))
        if compiled.verdict != "PROVED":
            return draw | {"error": f"{compiled.verdict} here"}
        module = compiled.payload
    rendered = render(module)
    built = compile_cuda(rendered.text, problem.task.profile.arch, [LINE_INFO])
    if built.cubin is None:
        return draw | {"error": built.log[:300]}
    task = problem.task
    sizes, bounds = task.workload.timed[0], task.bounds[0]
    _, launches = concretise(rendered, sizes)
    kernels = read_cubin(built.cubin).kernels
    out = draw | {"cubin": built.cubin, "run": launches}
    try:
        traffic = traffic_at(
            task.profile,
            compile_host(rendered.text, list(rendered.signatures)),
            sizes,
            lambda s: concretise(rendered, s),
            lambda s: {
                a.name: TraceBuffer(numpy_dtype(a.dtype).name, prod(a.shape(s))) for a in task.workload.arrays
            },
            kernels,
        )
    except (EvolveError, ValueError) as e:
        return out | {"error": str(e)[:300]}
    one = len(launches) == 1
    inputs = []
    for launch, seen in zip(launches, traffic, strict=True):
        k = kernels[launch.kernel]
        inputs.append(
            {
                "kernel": k.name,
                "registers": k.registers,
                "shared_bytes": k.shared_bytes,
                "stack_bytes": k.stack_bytes,
                "code": base64.b64encode(k.code).decode(),
                "lines": k.lines,
                "grid": launch.grid,
                "block": launch.block,
                "dynamic_shared": launch.shared_bytes,
                "footprint": (bounds.bytes_read, bounds.bytes_written) if one else None,
                "work": bounds.least_fp32 if one else None,
                "traffic": asdict(seen),
            }
        )
    return out | {"launches": inputs}


class Gpu:
    """Times programs; the arrays of one kernel at a time are resident.

    Before every launch 256 MiB are overwritten, before every second one 128 MiB of something else are read
    then: `samples_us` follow this clean flush, `dirty_us` the other, which leaves L2 full of lines to be
    written back.
    """

    def __init__(self) -> None:
        import pycuda.driver as cuda

        self.cuda = cuda
        cuda.init()
        self.device = cuda.Device(0)
        self.context = self.device.retain_primary_context()
        self.context.push()
        built = compile_cuda(READ, "sm_90")
        assert built.cubin is not None, built.log
        self.module = cuda.module_from_buffer(built.cubin)
        self.read = self.module.get_function("ev_read")
        self.written, self.other = cuda.mem_alloc(WRITTEN), cuda.mem_alloc(READ_BYTES)
        self.sink = cuda.mem_alloc(4)
        cuda.memset_d8(self.other, 1, READ_BYTES)
        self.kernel = ""
        self.arrays: dict[str, Any] = {}

    def close(self) -> None:
        self.context.pop()

    def time(self, kernel: str, cubin: bytes, launches: tuple[ConcreteLaunch, ...]) -> dict[str, Any]:
        if kernel != self.kernel:
            self._load(kernel)
        module = self.cuda.module_from_buffer(cubin)
        calls = [self._call(module, launch) for launch in launches]
        first = self._once(calls, clean=True)
        if first > MOST_US:
            return {"samples_us": [round(first, 2)], "dirty_us": []}
        pairs = next(n for least, n in PAIRS if first > least)
        self._once(calls, clean=True)
        both = [(self._once(calls, clean=True), self._once(calls, clean=False)) for _ in range(pairs)]
        return {"samples_us": [round(a, 2) for a, _ in both], "dirty_us": [round(b, 2) for _, b in both]}

    def _load(self, kernel: str) -> None:
        for array in self.arrays.values():
            array.free()
        task = problem_of(kernel).task
        inputs = References(task).inputs(task.workload.timed[0], FAMILY)
        self.arrays = {name: self.cuda.to_device(np.ascontiguousarray(a)) for name, a in inputs.items()}
        self.kernel = kernel

    def _call(self, module: Any, launch: ConcreteLaunch) -> Callable[[], None]:
        function = module.get_function(launch.kernel)
        if launch.shared_bytes > 48 * 1024:
            most = self.cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            function.set_attribute(most, launch.shared_bytes)
        # In-place arrays drift for the few launches: that changes no time.
        arguments = [
            np.uint64(int(self.arrays[a.name]))
            if isinstance(a, BufferArg)
            else np.dtype(TYPES[a.dtype]).type(a.value)
            for a in launch.args
        ]
        return partial(function, *arguments, grid=launch.grid, block=launch.block, shared=launch.shared_bytes)

    def _once(self, calls: list[Callable[[], None]], *, clean: bool) -> float:
        self.cuda.memset_d8(self.written, 0, WRITTEN)
        if clean:
            arguments = (np.uint64(int(self.other)), np.uint64(READ_BYTES // 16), np.uint64(int(self.sink)))
            self.read(*arguments, grid=(1056, 1, 1), block=(256, 1, 1))
        start, end = self.cuda.Event(), self.cuda.Event()
        start.record()
        for call in calls:
            call()
        end.record()
        end.synchronize()
        return float(start.time_till(end)) * 1e3


def draws(paths: list[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        yield {"kernel": path.stem, "population": "original", "program": ORIGINAL}
        yield from map(json.loads, path.read_text().splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--no-gpu", action="store_true", help="only the model's inputs")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("draws", type=Path, nargs="+")
    args = parser.parse_args()
    gpu = None if args.no_gpu else Gpu()
    head = {
        "command": "python benchmarks/validation/observe.py --commit C --out FILE.jsonl.xz DRAWS.jsonl...",
        "commit": args.commit,
        "date": datetime.now(UTC).date().isoformat(),
        "nvrtc": ".".join(map(str, nvrtc_version())),
        "gpu": gpu and gpu.device.name(),
        "driver_cuda": gpu and gpu.cuda.get_driver_version(),
    }
    done = 0
    with lzma.open(args.out, "wt") as out, ProcessPoolExecutor(args.processes) as pool:
        out.write(json.dumps(head) + "\n")
        for record in pool.map(prepare, draws(args.draws), chunksize=4):
            cubin, launches = record.pop("cubin", None), record.pop("run", ())
            if gpu is not None and cubin is not None:
                record |= gpu.time(record["kernel"], cubin, launches)
            out.write(json.dumps(record) + "\n")
            done += 1
            if done % 50 == 0:
                print(done, record["kernel"], flush=True)
    if gpu is not None:
        gpu.close()


if __name__ == "__main__":
    main()
