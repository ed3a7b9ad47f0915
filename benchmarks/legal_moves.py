"""How long the legal next moves take to list, and how many of them then prove: per primitive.

    python benchmarks/legal_moves.py --walks 2 --out benchmarks/results/legal-moves.json

For each kernel of `kernels/`: prefixes of its program in `kernels/programs/`, and random walks of up to 12
moves that are proved. After each, the moves are listed and up to `--each` of every primitive are drawn and
appended; each counts for as many moves as were offered of its primitive. `proved`: the prover says PROVED.
`usable`: the program is moreover rendered, runs at the timed sizes and can be executed under checks. Shares
are of moves as they are offered, which is how the random agent draws them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from benchmarks.prover.timing import forget
from evolve.compiler.compile import compile_program
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem

KERNELS = Path(__file__).parents[1] / "kernels"
LONGEST = 12
TURNS = 3
STEP = 4
"""Statements between two prefixes of a prepared program."""


@dataclass
class Tally:
    """Of one primitive, weighted by how many moves each drawn one stands for."""

    offered: float = 0.0
    proved: float = 0.0
    usable: float = 0.0
    drawn: int = 0
    refusals: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, object]:
        return {
            "offered": round(self.offered),
            "drawn": self.drawn,
            "proved": round(self.proved / self.offered, 4),
            "usable": round(self.usable / self.offered, 4),
            "refusals": dict(self.refusals.most_common()),
        }


@dataclass
class Record:
    """All that is measured."""

    by_primitive: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    seconds: list[tuple[float, str, int]] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        total = Tally()
        for one in self.by_primitive.values():
            total.offered += one.offered
            total.proved += one.proved
            total.usable += one.usable
            total.drawn += one.drawn
            total.refusals += one.refusals
        return {
            "all": total.to_json(),
            **self.times(),
            "primitives": {name: self.by_primitive[name].to_json() for name in sorted(self.by_primitive)},
        }

    def times(self) -> dict[str, object]:
        times = sorted(s for s, _, _ in self.seconds)
        slowest, kernel, statements = max(self.seconds)
        return {
            "milliseconds": {
                "median": round(median(times) * 1e3, 1),
                "p90": round(times[len(times) * 9 // 10] * 1e3, 1),
                "most": round(slowest * 1e3, 1),
                "most_at": f"{kernel}, after {statements} statements",
                "under_100": round(sum(s < 0.1 for s in times) / len(times), 4),
            },
            "moves_listed": {"median": median(self.moves), "most": max(self.moves), "times": len(self.moves)},
        }


def primitive_of(move: str) -> str:
    return move.split("(")[0]


def timed_moves(problem: KernelProblem, text: str, record: Record, kernel: str) -> list[str]:
    """The moves after a program; processor time is taken, since other processes share the machine."""
    started = time.process_time()
    moves = list(problem.legal_moves(text))
    record.seconds.append((time.process_time() - started, kernel, len(text.splitlines())))
    record.moves.append(len(moves))
    return moves


def judged(problem: KernelProblem, text: str) -> tuple[bool, bool, str]:
    """Whether a program is proved, whether it is of use, and the first code if not."""
    program = problem.parse(text)
    found = problem.compile(program)
    if found.verdict == "PROVED":
        return True, True, ""
    proved = compile_program(problem.task.source, program, problem.limits).verdict.proved
    return proved, False, str(found.diagnostics[0]["code"])


def try_moves(
    problem: KernelProblem, kernel: str, text: str, each: int, rng: Random, record: Record
) -> list[str]:
    """Lists, draws and judges the moves after a proved program; returns those drawn that are of use."""
    by: dict[str, list[str]] = defaultdict(list)
    for move in timed_moves(problem, text, record, kernel):
        by[primitive_of(move)].append(move)
    good = []
    for name, moves in by.items():
        drawn = rng.sample(moves, min(each, len(moves)))
        tally = record.by_primitive[name]
        for move in drawn:
            weight = len(moves) / len(drawn)
            proved, usable, code = judged(problem, f"{text}{move}\n")
            tally.drawn += 1
            tally.offered += weight
            tally.proved += weight * proved
            tally.usable += weight * usable
            tally.refusals += Counter([code] if code else [])
            good += [move] if usable else []
    return good


def prefixes(path: Path) -> Iterator[str]:
    """Of a prepared program, every few statements."""
    lines = [x for x in path.read_text().splitlines() if x and not x.startswith("#")]
    for n in range(STEP, len(lines) + STEP, STEP):
        yield "".join(f"{x}\n" for x in lines[:n])


def replace_times(out: Path, names: list[str], seed: int) -> None:
    """Lists the moves after prefixes of the prepared programs, and of one walk that nothing proves.

    Each kernel's are made `TURNS` times, with nothing remembered from the turn before; medians count.
    """
    record = Record()
    for name in names:
        path = KERNELS / f"{name}.cu"
        problem = open_problem(ProblemRequest(str(path), path.read_text(), device="sim:h200-sxm"))
        texts = [*prefixes(KERNELS / "programs" / f"{name}.dsl"), *walk(problem, Random(f"{seed}/{name}"))]
        turns = []
        for _ in range(TURNS):
            forget()
            turn = Record()
            for text in texts:
                timed_moves(problem, text, turn, name)
            turns.append(turn)
        record.moves += turns[0].moves
        record.seconds += [sorted(same)[TURNS // 2] for same in zip(*(t.seconds for t in turns), strict=True)]
        print(name, round(max(record.seconds)[0] * 1e3), "ms at most so far", flush=True)
    document = json.loads(out.read_text())
    document |= record.times()
    out.write_text(json.dumps(document, indent=2) + "\n")


def walk(problem: KernelProblem, rng: Random) -> Iterator[str]:
    """The programs of a random walk that nothing proves, the empty one first."""
    text = ""
    for _ in range(LONGEST):
        yield text
        moves = list(problem.legal_moves(text))
        if not moves:
            return
        text += f"{rng.choice(moves)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", default="", help="names, comma-separated; all by default")
    parser.add_argument("--walks", type=int, default=2)
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only-times", action="store_true", help="replace the times in an earlier --out")
    args = parser.parse_args()
    record = Record()
    names = args.kernels.split(",") if args.kernels else sorted(p.stem for p in KERNELS.glob("*.cu"))
    if args.only_times:
        replace_times(args.out, names, args.seed)
        return
    for name in names:
        path = KERNELS / f"{name}.cu"
        problem = open_problem(ProblemRequest(str(path), path.read_text(), device="sim:h200-sxm"))
        rng = Random(f"{args.seed}/{name}")
        for text in prefixes(KERNELS / "programs" / f"{name}.dsl"):
            if judged(problem, text)[1]:
                try_moves(problem, name, text, args.each, rng, record)
        for _ in range(args.walks):
            text = ""
            for _ in range(LONGEST):
                good = try_moves(problem, name, text, args.each, rng, record)
                if not good:
                    break
                text += f"{rng.choice(good)}\n"
        document = {"kernels": names, "walks": args.walks, "seed": args.seed, **record.to_json()}
        args.out.write_text(json.dumps(document, indent=2) + "\n")
        print(name, json.dumps(document["all"]), flush=True)


if __name__ == "__main__":
    main()
