"""Times programs on a CUDA GPU through `--device cuda`, beside their estimates and a plain copy.

    python benchmarks/measured_programs.py --commit $(git rev-parse HEAD) --out benchmarks/results/FILE.json

Each program in kernels/programs/ is named after its kernel in kernels/. It is compiled and proved,
checked against the float64 reference on the GPU, timed with L2 cold, and estimated for the same GPU.
`copy_fraction` is the speed (bytes that the kernel must move over its time) as a fraction of the speed
of a 16-byte copy kernel that moves 2 x 256 MiB, timed in the same process the same way.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from evolve.codegen.launch import BufferArg, ConcreteLaunch
from evolve.codegen.module import render
from evolve.devices.cuda.messages import Measure, SetArrays
from evolve.scoring.built import build
from evolve.scoring.estimated import EstimatedScorer
from evolve.scoring.measured import MeasuredScorer
from evolve.search.measured_task import MeasuredProblem
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from evolve.toolchain.nvrtc import compile_cuda, nvrtc_version

HERE = Path(__file__).parent
COPY = """extern "C" __global__ void copy16(const float4* __restrict__ x, float4* __restrict__ y) {
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    y[i] = x[i];
}
"""
COPY_FLOATS = 1 << 26


def copy_speed(scorer: MeasuredScorer) -> tuple[float, float]:
    """Bytes a second and microseconds of the plain copy, cold L2."""
    built = compile_cuda(COPY, scorer.worker.info.arch)
    assert built.cubin is not None, built.log
    x = np.random.default_rng(0).standard_normal(COPY_FLOATS, np.float32)
    scorer.worker.set_arrays(SetArrays("copy", {"x": x, "y": np.zeros_like(x)}))
    launch = ConcreteLaunch(
        "copy16", (BufferArg("x"), BufferArg("y")), (COPY_FLOATS // 1024, 1, 1), (256, 1, 1)
    )
    done = scorer.worker.measure(Measure((built.cubin,), ((launch,),), ("copy",), ("y",), least=40, most=40))
    us = median(done.samples_us[0])
    return 8 * COPY_FLOATS / (us * 1e-6), us


def measure(kernel: str, device: str) -> dict[str, Any]:
    """One program's record."""
    path = HERE.parent / "kernels" / f"{kernel}.cu"
    problem = open_problem(ProblemRequest(str(path), path.read_text(), device=device))
    assert isinstance(problem, MeasuredProblem)
    text = (HERE.parent / "kernels" / "programs" / f"{kernel}.dsl").read_text()
    compiled = problem.compile(problem.parse(text))
    assert compiled.verdict == "PROVED", compiled.diagnostics
    scorer = problem.scorer_on()
    built = build(render(compiled.payload), problem.task.profile.arch)
    try:
        baseline, got = scorer.baseline(), scorer.score(built)
        held_out = [h.to_json() for h in scorer.held_out(built)]
        speed, copy_us = copy_speed(scorer)
        info = scorer.worker.info
    finally:
        problem.close()
    estimate = EstimatedScorer(problem.task).score(compiled.payload)
    b = problem.task.bounds[0]
    moved = b.bytes_read + b.bytes_written
    record: dict[str, Any] = {
        "kernel": kernel,
        "program": text,
        "sizes": dict(problem.task.workload.timed[0]),
        "numerics": problem.numerics,
        "status": got.status,
        "message": got.message,
        "baseline_status": baseline.status,
        "copy_us": copy_us,
        "copy_bytes_per_s": speed,
        "gpu": info.name,
        "driver_cuda": info.driver_version,
    }
    if got.time_s is not None and estimate.time_s is not None:
        record |= {
            "time_us": got.time_s * 1e6,
            "samples_us": got.detail["samples_us"][0],
            "baseline_us": None if baseline.time_s is None else baseline.time_s * 1e6,
            "estimated_us": estimate.time_s * 1e6,
            "estimate_over_measured": estimate.time_s / got.time_s,
            "bytes": moved,
            "copy_fraction": moved / got.time_s / speed,
            "fitness": got.fitness,
            "held_out": held_out,
        }
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("kernels", nargs="*")
    args = parser.parse_args()
    names = args.kernels or sorted(p.stem for p in (HERE.parent / "kernels" / "programs").glob("*.dsl"))
    document: dict[str, Any] = {
        "command": "python benchmarks/measured_programs.py --commit COMMIT --out FILE",
        "commit": args.commit,
        "date": datetime.now(UTC).date().isoformat(),
        "nvrtc": ".".join(map(str, nvrtc_version())),
        "timing": "CUDA events around each launch, L2 cold and clean before it, median",
        "results": [],
    }
    for name in names:
        record = measure(name, args.device)
        document["results"].append(record)
        args.out.write_text(json.dumps(document, indent=1) + "\n")
        shown = {
            k: record.get(k)
            for k in ("status", "message", "baseline_us", "time_us", "estimated_us", "copy_fraction")
        }
        print(name, json.dumps(shown), flush=True)


if __name__ == "__main__":
    main()
