"""How many candidates a second a measured run scores, and what it does before the first.

    python benchmarks/measured_throughput.py --commit $(git rev-parse HEAD) --device cuda --budget 200 \
        --out benchmarks/results/FILE.json softmax

Counts from the run's own log: from the baseline's event to the last result's, duels and everything else
included; `prepared_s` is what came before (lifting, the reference, the baseline on every input family).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evolve.events.log import LOG_NAME, read_log
from evolve.events.schema import Baseline, Compared, Result, RunStarted

ROOT = Path(__file__).parents[1]


def measure(kernel: str, device: str, budget: int, more: list[str]) -> dict[str, Any]:
    """One run's record."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "evolve", "run", "--kernel", str(ROOT / "kernels" / f"{kernel}.cu")]
        command += ["--budget", str(budget), "--device", device, "--out", str(run), "--json", *more]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        events = read_log(run / LOG_NAME).events
    started = next(e.body for e in events if isinstance(e.body, RunStarted))
    begin = next(e.t for e in events if isinstance(e.body, Baseline))
    results = [e for e in events if isinstance(e.body, Result)]
    scored = [e.t for e in results if isinstance(e.body, Result) and e.body.status == "scored"]
    seconds = scored[-1] - begin
    half = scored[len(scored) // 2 :]
    return {
        "kernel": kernel,
        "budget": budget,
        "device": document["device"],
        "prepared_s": started.prepared_s,
        "seconds": seconds,
        "scored": len(scored),
        "scored_per_s": len(scored) / seconds,
        "scored_per_s_second_half": (len(half) - 1) / (half[-1] - half[0]),
        "duels": sum(isinstance(e.body, Compared) for e in events),
        "funnel": document["funnel"],
        "best": {k: document["best"][k] for k in ("time_us", "fitness", "speedup")},
        "wall_s": document["wall_s"],
        "stopped": document["stopped"],
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="+")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--more", default="", help="options for `evolve run`, separated by blanks")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    record: dict[str, Any] = {
        "command": "python benchmarks/measured_throughput.py "
        f"--commit COMMIT --device {args.device} --budget {args.budget} --out FILE {' '.join(args.kernels)}",
        "commit": args.commit,
        "date": datetime.now(UTC).date().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "results": [],
    }
    for kernel in args.kernels:
        found = measure(kernel, args.device, args.budget, args.more.split())
        record["results"].append(found)
        args.out.write_text(json.dumps(record, indent=1) + "\n")
        print(kernel, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
