"""Estimates hand-written kernels that were timed on an H200, from their own text.

    python benchmarks/estimate_sketches.py SKETCHES.py --commit C --out benchmarks/results/FILE.json

SKETCHES.py holds the CUDA text in a triple-quoted `src=r'''`. Times were measured with L2 cold.
"""

from __future__ import annotations

import argparse
import json
import re
from datetime import UTC, datetime
from pathlib import Path

from evolve.codegen.launch import BufferArg, ConcreteLaunch, Dim3, ScalarArg
from evolve.devices.estimate import estimate
from evolve.devices.sampled import sampled_traffic
from evolve.devices.sim.build import compile_host
from evolve.devices.sim.tracing import TraceBuffer
from evolve.target.profile import load_profile
from evolve.toolchain.cubin import read_cubin
from evolve.toolchain.lines import LINE_INFO
from evolve.toolchain.nvrtc import compile_cuda
from evolve.toolchain.sass import disassemble

PROFILE = "h200-sxm"
N, M = 8192, 4096
MATRIX, PRODUCT = ("x", "y"), ("A", "B", "C")
# Kernel: its buffers, edge of the square matrices, grid, block, measured milliseconds.
CASES: dict[str, tuple[tuple[str, ...], int, Dim3, Dim3, float]] = {
    "softmax_1024_2": (MATRIX, N, (N, 1, 1), (1024, 1, 1), 0.133),
    "softmax_512_4": (MATRIX, N, (N, 1, 1), (512, 1, 1), 0.133),
    "softmax_256_8": (MATRIX, N, (N, 1, 1), (256, 1, 1), 0.133),
    "tr32_8": (MATRIX, N, (256, 256, 1), (32, 8, 1), 0.1485),
    "tr32_4": (MATRIX, N, (256, 256, 1), (32, 4, 1), 0.1485),
    "tr64": (MATRIX, N, (128, 128, 1), (256, 1, 1), 0.136),
    "sgemm128": (PRODUCT, M, (32, 32, 1), (256, 1, 1), 3.21),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sketches", type=Path)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    found = re.search(r"src=r'''\n(.*?)'''", args.sketches.read_text(), re.S)
    if found is None:
        parser.error(f"{args.sketches} has no CUDA text")
    profile = load_profile(PROFILE)
    built = compile_cuda(found[1], profile.arch, [LINE_INFO])
    assert built.cubin is not None, built.log
    kernels, sass = read_cubin(built.cubin).kernels, disassemble([built.cubin])[0]
    program = compile_host(found[1], list(CASES))
    results = []
    for name, (names, edge, grid, block, measured) in CASES.items():
        arguments = (*(BufferArg(b) for b in names), ScalarArg("n", "i32", edge))
        launch = ConcreteLaunch(name, arguments, grid, block)
        buffers = {b: TraceBuffer("float32", edge * edge) for b in names}
        traffic = sampled_traffic(program, launch, buffers, 8 * profile.sms)
        moved = 4.0 * edge * edge
        footprint = (moved * (len(names) - 1), moved)
        e = estimate(profile, kernels[name], sass[name], traffic, grid, block, footprint=footprint)
        results.append(
            {
                "kernel": name,
                "estimated_ms": round(e.time_s * 1e3, 4),
                "measured_ms": measured,
                "off": round(e.time_s * 1e3 / measured - 1, 3),
                "binding": e.binding,
                "registers": kernels[name].registers,
                "local_bytes": kernels[name].stack_bytes,
            }
        )
        print(json.dumps(results[-1]))
    document = {
        "command": "python benchmarks/estimate_sketches.py SKETCHES.py --commit C --out FILE",
        "commit": args.commit,
        "date": datetime.now(UTC).date().isoformat(),
        "device": f"sim:{PROFILE}",
        "results": results,
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
