"""Draws the programs on which the estimate is validated: legal ones, by a seed, before anything is timed.

    python benchmarks/validation/draw.py --kernel softmax --count 150 --seed 20261129 --out FILE.jsonl

Two populations, half each. `walk`: 1 to 12 statements, each drawn from the legal next moves, the primitive
first and then the move, so that a primitive with many parameters is not drawn more often. `sketch`: one of
the expert's sketches, its holes filled at random, and 0 to 3 legal moves behind it. A draw is kept when it is
PROVED, renders differently from those before it and its launch at the timed sizes has at least
`LEAST_THREADS` threads, or as many as the kernel as written: one without a bound loop runs for minutes.
"""

from __future__ import annotations

import argparse
import json
from math import prod
from pathlib import Path
from random import Random

from evolve.agents.expert.agent import sketches
from evolve.agents.holes import read_template
from evolve.codegen.module import render
from evolve.codegen.rendered import concretise
from evolve.ir.errors import EvolveError
from evolve.ir.kernel import Module
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem

KERNELS = Path(__file__).parents[2] / "kernels"
LEAST_THREADS = 1 << 16
MOST_STATEMENTS = 12
MOST_MOVES = 3


def fill(text: str, rng: Random) -> str:
    template = read_template(text)
    return template.fill([rng.randrange(len(c)) for c in template.choices])


def moves(problem: KernelProblem, text: str, count: int, rng: Random) -> str:
    """`text` with up to `count` legal statements behind it."""
    for _ in range(count):
        by_primitive: dict[str, list[str]] = {}
        for move in problem.legal_moves(text):
            by_primitive.setdefault(move.split("(")[0].split("=")[-1].strip(), []).append(move)
        if not by_primitive:
            break
        offered = by_primitive[rng.choice(sorted(by_primitive))]
        text += fill(rng.choice(offered), rng).rstrip("\n") + "\n"
    return text


def draw(problem: KernelProblem, population: str, templates: list[str], rng: Random) -> str:
    if population == "walk":
        return moves(problem, "", rng.randint(1, MOST_STATEMENTS), rng)
    text = fill(rng.choice(templates), rng).rstrip("\n") + "\n"
    return moves(problem, text, rng.randint(0, MOST_MOVES), rng)


def threads(problem: KernelProblem, module: Module, *, variant: int = 0) -> int:
    """Of the largest launch at the timed sizes; 0 where another than this variant would run."""
    found, launches = concretise(render(module), problem.task.workload.timed[0])
    return max((prod(x.grid) * prod(x.block) for x in launches), default=0) if found == variant else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    path = KERNELS / f"{args.kernel}.cu"
    problem = open_problem(ProblemRequest(str(path), path.read_text(), device="sim:h200-sxm"))
    sizes = {k: int(v) for k, v in problem.info().workload["sizes"].items()}
    templates = [s.text for s in sketches(problem.task.source.kernel, sizes)]
    least = min(LEAST_THREADS, threads(problem, problem.task.original, variant=-1))
    rng = Random(f"{args.seed}/{args.kernel}")
    seen: set[str | None] = set()
    drawn = 0
    with args.out.open("w") as out:
        for population in ("walk", "sketch"):
            kept = 0
            while kept < args.count // 2:
                drawn += 1
                try:
                    text = draw(problem, population, templates, rng)
                    compiled = problem.compile(problem.parse(text))
                except EvolveError:
                    continue  # a filling of the holes that does not apply
                if compiled.verdict != "PROVED" or compiled.module_hash in seen:
                    continue
                if threads(problem, compiled.payload) < least:
                    continue
                seen.add(compiled.module_hash)
                kept += 1
                record = {"kernel": args.kernel, "population": population, "draw": drawn, "program": text}
                out.write(json.dumps(record) + "\n")
                out.flush()


if __name__ == "__main__":
    main()
