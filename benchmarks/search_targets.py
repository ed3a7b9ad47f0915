"""Runs the search on every example kernel on an estimated device and records what it reached.

    python benchmarks/search_targets.py --commit $(git rev-parse HEAD) --budget 40 --out FILE.json

All times are estimates for the profile; wall and CPU seconds are of this machine, which the record names
only by its number of cores.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).parent.parent / "kernels"


def children_cpu() -> float:
    """CPU seconds of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def search(kernel: str, device: str, budget: int, seed: int) -> dict[str, Any]:
    """One run through the command line; its `--json` document, shortened."""
    before = children_cpu()
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "evolve", "run", "--json", "--kernel", str(KERNELS / f"{kernel}.cu"),
            "--budget", str(budget), "--device", device, "--seed", str(seed), "--out", f"{folder}/run",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    if "error" in document:
        return {"kernel": kernel, "error": document["error"]}
    best = document["best"]
    return {
        "kernel": kernel,
        "exit": done.returncode,
        "workload": document["workload"].get("timed"),
        "sol": document["sol"],
        "baseline": document["baseline"],
        "best": {k: best[k] for k in ("candidate", "program", "time_us", "fitness", "speedup")},
        "funnel": document["funnel"],
        "budget": document["budget"],
        "stopped": document["stopped"],
        "wall_s": document["wall_s"],
        "cpu_s": children_cpu() - before,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--device", default="sim:h200-sxm")
    parser.add_argument("--budget", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("kernels", nargs="*")
    args = parser.parse_args()
    results = []
    for name in args.kernels or sorted(p.stem for p in KERNELS.glob("*.cu")):
        record = search(name, args.device, args.budget, args.seed)
        results.append(record)
        best = record.get("best") or {}
        print(
            name,
            best.get("fitness"),
            best.get("speedup"),
            record.get("wall_s"),
            record.get("cpu_s"),
            flush=True,
        )
    document = {
        "command": f"python benchmarks/search_targets.py --commit COMMIT --budget {args.budget} --out FILE",
        "commit": args.commit,
        "date": datetime.now(UTC).date().isoformat(),
        "device": args.device,
        "timing": "estimated",
        "cores": len(os.sched_getaffinity(0)),
        "results": results,
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
