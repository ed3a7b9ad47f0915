"""How long the legal next moves take to list, and how many of them then prove: per primitive.

    python -m benchmarks.legal_moves --walks 2 --jobs 8 --out benchmarks/results/legal-moves.json

For each kernel of `kernels/`: prefixes of its program in `kernels/programs/`, and random walks of up to 12
moves that are proved. After each, the moves are listed and up to `--each` of every primitive are drawn and
appended; each counts for as many moves as were offered of its primitive. `proved`: the prover says PROVED.
`usable`: the program is moreover rendered, runs at the timed sizes and can be executed under checks. Shares
are of moves as they are offered, which is how the random agent draws them.

The times are taken afterwards, in one process, after each prefix of each prepared program, alternatives among
them, and after each step of a random walk: milliseconds of processor time, from the text of a program whose
beginning, up to four statements before, was listed last. The median of three turns counts, between which
everything is forgotten.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
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

    def add(self, other: Tally) -> None:
        self.offered += other.offered
        self.proved += other.proved
        self.usable += other.usable
        self.drawn += other.drawn
        self.refusals += other.refusals

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

    by_primitive: dict[str, Tally] = field(default_factory=partial(defaultdict, Tally))

    def to_json(self) -> dict[str, object]:
        total = Tally()
        for one in self.by_primitive.values():
            total.add(one)
        return {
            "all": total.to_json(),
            "primitives": {name: self.by_primitive[name].to_json() for name in sorted(self.by_primitive)},
        }

    def add(self, other: Record) -> None:
        """What another process found."""
        for name, found in other.by_primitive.items():
            self.by_primitive[name].add(found)


@dataclass
class Times:
    """Of lists of moves: seconds, kernel and statements before, and how many moves were listed."""

    seconds: list[tuple[float, str, int]] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)

    def list_moves(self, problem: KernelProblem, text: str, kernel: str) -> None:
        """Once, after a program; processor time is taken, since other processes share the machine."""
        started = time.process_time()
        moves = problem.legal_moves(text)
        self.seconds.append((time.process_time() - started, kernel, len(text.splitlines())))
        self.moves.append(len(moves))

    def to_json(self) -> dict[str, object]:
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


def judged(problem: KernelProblem, text: str) -> tuple[bool, bool, str]:
    """Whether a program is proved, whether it is of use, and the first code if not."""
    program = problem.parse(text)
    found = problem.compile(program)
    if found.verdict == "PROVED":
        return True, True, ""
    proved = compile_program(problem.task.source, program, problem.limits).verdict.proved
    return proved, False, str(found.diagnostics[0]["code"])


def try_moves(problem: KernelProblem, text: str, each: int, rng: Random, record: Record) -> list[str]:
    """Lists, draws and judges the moves after a proved program; returns those drawn that are of use."""
    by: dict[str, list[str]] = defaultdict(list)
    for move in problem.legal_moves(text):
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


def lines_of(path: Path) -> list[str]:
    """The statements of a prepared program, with their ends of line."""
    return [f"{x}\n" for x in path.read_text().splitlines() if x and not x.startswith("#")]


def prefixes(path: Path, first: int = STEP) -> Iterator[str]:
    """Of a prepared program, every few statements, and all of it."""
    lines = lines_of(path)
    for n in range(first, len(lines) + STEP, STEP):
        yield "".join(lines[:n])


def opened(name: str) -> KernelProblem:
    path = KERNELS / f"{name}.cu"
    return open_problem(ProblemRequest(str(path), path.read_text(), device="sim:h200-sxm"))


def shares(name: str, walks: int, each: int, seed: int) -> Record:
    """Of one kernel's moves."""
    problem, rng, record = opened(name), Random(f"{seed}/{name}"), Record()
    for text in prefixes(KERNELS / "programs" / f"{name}.dsl"):
        if judged(problem, text)[1]:
            try_moves(problem, text, each, rng, record)
    for _ in range(walks):
        text = ""
        for _ in range(LONGEST):
            good = try_moves(problem, text, each, rng, record)
            if not good:
                break
            text += f"{rng.choice(good)}\n"
    return record


def times(names: list[str], seed: int) -> Times:
    """Of lists after each prefix of the prepared programs, and on one walk that nothing proves."""
    found = Times()
    for name in names:
        problem = opened(name)
        series = [list(walk(problem, Random(f"{seed}/{name}")))]
        for path in sorted((KERNELS / "programs").glob(f"**/{name}*.dsl")):
            if path.stem.split("-")[0] == name:
                series += [list(prefixes(path, first)) for first in range(1, STEP + 1)]
        turns = []
        for _ in range(TURNS):
            turn = Times()
            for texts in series:
                forget()
                for text in texts:
                    turn.list_moves(problem, text, name)
            turns.append(turn)
        found.moves += turns[0].moves
        found.seconds += [sorted(same)[TURNS // 2] for same in zip(*(t.seconds for t in turns), strict=True)]
        print(name, round(max(found.seconds)[0] * 1e3), "ms at most so far", flush=True)
    return found


def walk(problem: KernelProblem, rng: Random) -> Iterator[str]:
    """The programs of a random walk that nothing proves, the empty one first."""
    text = ""
    for _ in range(LONGEST):
        yield text
        moves = list(problem.legal_moves(text))
        if not moves:
            return
        text += f"{rng.choice(moves)}\n"


def stamp(commit: str) -> dict[str, str]:
    """When and of what a figure is."""
    commit = commit or subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
    return {"commit": commit, "date": datetime.now(UTC).strftime("%Y-%m-%d")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", default="", help="names, comma-separated; all by default")
    parser.add_argument("--walks", type=int, default=2)
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--jobs", type=int, default=1, help="processes that draw and prove")
    parser.add_argument("--commit", default="", help="where git is not there to say")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only-times", action="store_true", help="replace the times in an earlier --out")
    args = parser.parse_args()
    names = args.kernels.split(",") if args.kernels else sorted(p.stem for p in KERNELS.glob("*.cu"))
    if args.only_times:
        document = json.loads(args.out.read_text())
    else:
        record = Record()
        asked = partial(shares, walks=args.walks, each=args.each, seed=args.seed)
        with ProcessPoolExecutor(args.jobs) as pool:
            for name, found in zip(names, pool.map(asked, names), strict=True):
                record.add(found)
                print(name, json.dumps(record.to_json()["all"]), flush=True)
        document = {
            "command": f"python -m benchmarks.legal_moves --walks {args.walks} --each {args.each} --out FILE",
            **stamp(args.commit),
            "kernels": names,
            "walks": args.walks,
            "each": args.each,
            "seed": args.seed,
            **record.to_json(),
        }
    document["times"] = {**stamp(args.commit), **times(names, args.seed).to_json()}
    args.out.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
