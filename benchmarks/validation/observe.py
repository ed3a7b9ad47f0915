"""Measures drawn programs on a GPU and records what the time model is given for each.

    python benchmarks/validation/observe.py --commit C --out FILE.jsonl.xz DRAWS.jsonl...

One record a program: its measured times (cold L2, events, `evolve.devices.cuda`), and the inputs of
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
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from evolve.codegen.launch import ConcreteLaunch
from evolve.codegen.module import render
from evolve.codegen.rendered import concretise
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.messages import Measure, SetArrays
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
LIMIT_S = 20.0
"""A program that is slower than this for one launch is not timed."""


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
    """Times programs; the arrays of one kernel at a time are resident."""

    def __init__(self) -> None:
        self.worker = CudaWorker(0, timeout_s=LIMIT_S)
        self.kernel = ""

    def time(self, kernel: str, cubin: bytes, launches: tuple[ConcreteLaunch, ...]) -> dict[str, Any]:
        if kernel != self.kernel:
            task = problem_of(kernel).task
            inputs = References(task).inputs(task.workload.timed[0], FAMILY)
            self.worker.set_arrays(SetArrays("timed", inputs))
            self.kernel = kernel
        # In-place arrays drift for the few launches: that changes no time.
        done = self.worker.measure(
            Measure((cubin,), (launches,), "timed", repeats=11, warmup=2, budget_s=0.5)
        )
        if done.error or not done.samples_us:
            return {"not_timed": done.error or "no samples"}
        return {"samples_us": [round(x, 2) for x in done.samples_us[0]]}


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
        "gpu": gpu and gpu.worker.info.name,
        "driver_cuda": gpu and gpu.worker.info.driver_version,
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


if __name__ == "__main__":
    main()
