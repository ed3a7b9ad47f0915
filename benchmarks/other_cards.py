"""Estimates of the example programs on GPUs that we cannot run, what they rest on, and what others published.

    python -m benchmarks.other_cards --commit $(git rev-parse HEAD) --out FILE.json

Nobody has run these programs on such GPUs: every time of `programs` is an estimate that nobody checked. The
programs were written for an H200 and its tiles need not be the best elsewhere. `rests_on` lists the model's
figures for each GPU with their evidence; `published` compares the model with simple kernels that others
timed (`benchmarks/published.py`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from math import prod
from pathlib import Path
from typing import Any

from benchmarks.published import compared
from evolve.codegen.module import render
from evolve.codegen.rendered import concretise
from evolve.devices.grounds import grounds
from evolve.devices.sampled import estimate_at
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.tracing import TraceBuffer
from evolve.ir.kernel import Module
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem
from evolve.target.profile import load_profile
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda, nvrtc_version
from evolve.toolchain.sass import disassemble
from evolve.workload.inputs import numpy_dtype
from evolve.workload.model import Sizes

HERE = Path(__file__).parent
GPUS = ("a100-sxm-80gb", "rtx-4090", "b200-sxm")


def seconds(problem: KernelProblem, module: Module) -> tuple[float, str]:
    """Estimated time at the first timed sizes, and what binds the first launch."""
    task = problem.task
    rendered = render(module)
    built = compile_cuda(rendered.text, task.profile.arch, [LINE_INFO])
    assert built.cubin is not None, built.log
    sizes, bound = task.workload.timed[0], task.bounds[0]

    def buffers(at: Sizes) -> dict[str, TraceBuffer]:
        return {
            a.name: TraceBuffer(numpy_dtype(a.dtype).name, prod(a.shape(at))) for a in task.workload.arrays
        }

    parts = estimate_at(
        task.profile,
        compile_host(rendered.text, list(rendered.signatures)),
        sizes,
        lambda at: concretise(rendered, at),
        buffers,
        read_cubin(built.cubin).kernels,
        disassemble([built.cubin])[0],
        footprint=(bound.bytes_read, bound.bytes_written),
        work=bound.least_fp32,
    )
    return sum(p.time_s for p in parts), parts[0].binding


def programs(gpu: str) -> Iterator[dict[str, Any]]:
    """The record of each example program on one GPU."""
    for file in sorted((HERE.parent / "kernels" / "programs").glob("*.dsl")):
        path = HERE.parent / "kernels" / f"{file.stem}.cu"
        problem = open_problem(ProblemRequest(str(path), path.read_text(), device=f"sim:{gpu}"))
        compiled = problem.compile(problem.parse(file.read_text()))
        assert compiled.verdict == "PROVED", compiled.diagnostics
        original, _ = seconds(problem, problem.task.original)
        time, binding = seconds(problem, compiled.payload)
        bound = problem.task.bounds[0]
        yield {
            "kernel": file.stem,
            "sizes": dict(problem.task.workload.timed[0]),
            "estimated_us": round(time * 1e6, 2),
            "original_estimated_us": round(original * 1e6, 2),
            "attainable_us": round(bound.time_s * 1e6, 2),
            "bound_by": bound.binding,
            "fraction": round(bound.time_s / time, 3),
            "binding": binding,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    document: dict[str, Any] = {
        "command": "python -m benchmarks.other_cards --commit COMMIT --out FILE",
        "commit": args.commit,
        "date": datetime.now(UTC).date().isoformat(),
        "nvrtc": ".".join(map(str, nvrtc_version())),
        "label": "estimates; nobody has checked one on such a GPU",
        "gpus": {},
    }
    for gpu in GPUS:
        found = []
        for record in programs(gpu):
            found.append(record)
            print(gpu, json.dumps(record), flush=True)
        rests_on = grounds(load_profile(gpu)).to_json()["figures"]
        document["gpus"][gpu] = {"programs": found, "rests_on": rests_on}
    document["published"] = compared(print)
    args.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
