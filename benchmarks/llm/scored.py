"""What the estimate says of each kernel of `kernels/` as given and of its prepared program, for prompts.

    python -m benchmarks.llm.scored --commit $(git rev-parse HEAD) --out benchmarks/results/prompt-scores.json

Times in microseconds. `gap` is the gap report (`sol.gap`) that a prompt's lines come from.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from evolve.events.schema import as_json
from evolve.search.problem import ProblemRequest, Score
from evolve.search.task import KernelProblem, open_problem

KERNELS = Path(__file__).parents[2] / "kernels"
RESULT = Path(__file__).parents[1] / "results" / "prompt-scores.json"
DEVICE = "sim:h200-sxm"


def problem_of(name: str) -> KernelProblem:
    """A kernel of `kernels/` at the sizes that are assumed of it."""
    path = KERNELS / f"{name}.cu"
    return open_problem(ProblemRequest(str(path), path.read_text(), device=DEVICE))


def program_of(name: str) -> str:
    """Its prepared program, without comments."""
    lines = (KERNELS / "programs" / f"{name}.dsl").read_text().splitlines()
    return "".join(f"{line}\n" for line in (line.partition("#")[0].strip() for line in lines) if line)


def scored(name: str) -> dict[str, Any]:
    """Both scores of a kernel."""
    problem = problem_of(name)
    program = program_of(name)
    own = problem.score(problem.compile(problem.parse(program)))
    return {"given": _record(problem.baseline()), "prepared": {"program": program} | _record(own)}


def _record(score: Score) -> dict[str, Any]:
    told = {
        "status": score.status,
        "time_us": score.time_us,
        "fitness": score.fitness,
        "gap": as_json(score.gap),
    }
    return _rounded(told)


def _rounded(value: Any) -> Any:
    """Figures to five digits, more of which no prompt shows."""
    match value:
        case float():
            return float(f"{value:.5g}")
        case dict():
            return {key: _rounded(item) for key, item in value.items()}
        case list():
            return [_rounded(item) for item in value]
        case _:
            return value


def main() -> None:
    """Writes the file."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--commit", required=True)
    options.add_argument("--out", type=Path, default=RESULT)
    options.add_argument("names", nargs="*")
    args = options.parse_args()
    names = args.names or sorted(path.stem for path in KERNELS.glob("*.cu"))
    record: dict[str, Any] = {
        "command": "python -m benchmarks.llm.scored",
        "date": time.strftime("%Y-%m-%d"),
        "commit": args.commit,
        "device": DEVICE,
        "kernels": {},
    }
    for name in names:
        record["kernels"][name] = scored(name)
        print(name, record["kernels"][name]["prepared"]["status"], flush=True)
        args.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
