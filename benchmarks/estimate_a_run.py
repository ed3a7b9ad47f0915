"""Sets the estimate beside the measured time of every candidate of a measured run.

evolve run --kernel kernels/stencil.cu --budget 24 --device cuda --out RUN
python benchmarks/estimate_a_run.py RUN --kernel kernels/stencil.cu --commit COMMIT --out FILE
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evolve.events.log import read_log
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--kernel", type=Path, required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    programs: dict[int, str] = {}
    measured: dict[int, float] = {}
    device: dict[str, Any] = {}
    for event in read_log(args.run / "events.jsonl").events:
        body = event.body
        if body.kind == "run_started":
            device = body.device.model_dump()
        elif body.kind == "proposed":
            programs[body.proposal] = body.program
        elif body.kind == "result" and body.status == "scored" and body.time_us is not None:
            measured[body.proposal] = body.time_us
    text = args.kernel.read_text()
    problem = open_problem(ProblemRequest(str(args.kernel), text, device=f"sim:{device['profile']}"))
    rows = []
    for number, time_us in sorted(measured.items(), key=lambda x: x[1]):
        score = problem.score(problem.compile(problem.parse(programs[number])))
        rows.append(
            {
                "candidate": number,
                "program": programs[number],
                "measured_us": time_us,
                "estimated_us": score.time_us,
            }
        )
        print(number, round(time_us, 1), score.time_us and round(score.time_us, 1), flush=True)
    document = {
        "command": f"evolve run --kernel {args.kernel} --device cuda --out RUN; "
        f"python benchmarks/estimate_a_run.py RUN --kernel {args.kernel} --commit COMMIT --out FILE",
        "commit": args.commit,
        "date": datetime.now(UTC).date().isoformat(),
        "device": device,
        "candidates": rows,
    }
    args.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
