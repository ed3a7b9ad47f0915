"""What a small local model's answers are worth, held to nothing, to a grammar, and statement by statement.

    python benchmarks/llm/serve.py --threads 1 &
    PYTHONPATH=. python benchmarks/llm/local_model.py --commit $(git rev-parse HEAD) --out FILE.json

For each kernel, with seeds 0, 1, …: (a) whole programs without a grammar: the share of answers that hold
programs which all parse; (b) whole programs under the grammar of `evolve.dsl.grammar`: the same share, and
that of answers whose first program is proved; (c) programs made statement by statement: the share of moves
whose proof passes, with what refuses the others, and how many programs score better than the kernel as
given. Times are estimates for the profile. A model this small is a stand-in for what stands between a model
and the search: its shares say nothing of what larger models are good for.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from evolve.agents.base import Context, Parent, Waiting
from evolve.agents.llm.hold import Hold, hold_programs
from evolve.agents.llm.question import Questions
from evolve.agents.llm.steps import TEMPERATURE, Steps
from evolve.dsl.parser import parse
from evolve.ir.errors import EvolveError
from evolve.llm.answers import read_answer
from evolve.llm.client import Client
from evolve.llm.model import read_model
from evolve.llm.probe import probe
from evolve.llm.prompts import Prompts
from evolve.llm.request import Request
from evolve.llm.window import Window
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem

ROOT = Path(__file__).parents[2]
KERNELS = ("vecadd", "matvec", "rmsnorm")
DEVICE = "sim:h200-sxm"


@dataclass
class Desk:
    """Proves, and keeps count of what is refused: by primitive and code."""

    problem: KernelProblem
    checked: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def check(self, program: str) -> Sequence[Mapping[str, Any]]:
        compiled = self.problem.compile(self.problem.parse(program))
        self.checked += 1
        if compiled.verdict == "PROVED":
            return ()
        primitive = program.splitlines()[-1].partition("(")[0]
        self.refused[f"{primitive}: {compiled.diagnostics[0]['code']}"] += 1
        return compiled.diagnostics


@dataclass
class Bench:
    """One kernel and one model."""

    problem: KernelProblem
    client: Client
    window: Window
    most_tokens: int

    def context(self, seed: int) -> Context:
        info, score = self.problem.info(), self.problem.baseline()
        baseline = Parent(0, "", score.fitness, score.time_us or 0.0, score.gap)
        sol = {"time_us": info.sol.time_us, "hard_time_us": info.sol.hard_time_us, "bound": info.sol.bound}
        return Context(
            0, info.kernel, info.target, info.summary, info.features, info.workload, sol, "reassociate",
            baseline=baseline, best=baseline, parents=(), recent=(), budget_left=100,
            legal_moves=self.problem.legal_moves, rng=Random(seed),
        )  # fmt: skip

    def whole(self, hold: Hold, answers: int) -> dict[str, Any]:
        """Whole programs, held to a grammar or not."""
        parsed = legal = cut = 0
        refused: Counter[str] = Counter()
        for seed in range(answers):
            context = self.context(seed)
            request = Request(
                Questions(Prompts(), self.window).first(context),
                most_tokens=self.most_tokens,
                temperature=TEMPERATURE,
                seed=seed,
                **hold_programs(hold, context.kernel, 1),
            )
            answer = self.client.ask(request)
            cut += answer.cut
            programs = [draft.program for draft in read_answer(answer.text)]
            if not programs or not all(map(parses, programs)):
                continue
            parsed += 1
            code = self.refusal(programs[0])
            legal += not code
            refused.update([code] if code else [])
        return {
            "answers": answers,
            "cut": cut,
            "parse": parsed,
            "legal": legal,
            "refused": dict(refused.most_common()),
        }

    def refusal(self, program: str) -> str:
        """The code that refuses a program; '' where none does."""
        compiled = self.problem.compile(self.problem.parse(program))
        return "" if compiled.verdict == "PROVED" else str(compiled.diagnostics[0]["code"])

    def stepped(self, programs: int) -> dict[str, Any]:
        """Programs made statement by statement, and their scores."""
        desk = Desk(self.problem)
        speedups: list[float] = []
        statuses: Counter[str] = Counter()
        asked = 0
        for seed in range(programs):
            context = self.context(seed)

            def said(step: int, request: Request) -> Waiting[str]:
                nonlocal asked
                asked += 1
                return self.client.ask(request).text
                yield

            steps = Steps(Prompts(), "grammar", self.window)
            program = _drained(steps.program(context, context.baseline, desk, said))  # type: ignore[arg-type]
            if not program:
                statuses["nothing"] += 1
                continue
            score = self.problem.score(self.problem.compile(self.problem.parse(program)))
            statuses[score.status] += 1
            if score.status == "scored" and score.time_us:
                speedups.append(round(context.baseline.time_us / score.time_us, 3))
        return {
            "programs": programs,
            "requests": asked,
            "moves": desk.checked,
            "proved": desk.checked - desk.refused.total(),
            "refused": dict(desk.refused.most_common()),
            "statuses": dict(statuses),
            "speedups": sorted(speedups, reverse=True),
            "faster": sum(x > 1 for x in speedups),
        }


def parses(program: str) -> bool:
    """Whether a text is a program of the language, and not an empty one."""
    try:
        return bool(parse(program).statements)
    except EvolveError:
        return False


def _drained(talk: Waiting[str]) -> str:
    while True:
        try:
            next(talk)
        except StopIteration as end:
            return str(end.value)


def share(kernels: Mapping[str, Any], way: str, of: str, all_: str) -> float:
    """Over all kernels."""
    total = sum(one[way][all_] for one in kernels.values())
    return round(sum(one[way][of] for one in kernels.values()) / total, 4) if total else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--api-base", default="http://127.0.0.1:8080/v1")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--answers", type=int, default=8, help="of each kernel, whole programs")
    parser.add_argument("--programs", type=int, default=4, help="of each kernel, statement by statement")
    parser.add_argument("--most-tokens", type=int, default=256, help="of an answer with whole programs")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("kernels", nargs="*")
    args = parser.parse_args()
    client = Client(read_model(f"openai/{args.model}", args.api_base), 600.0, args.most_tokens)
    try:
        found = probe(client)
        window = Window(found.context, 1024, found.scale)
        kernels: dict[str, Any] = {}
        for name in args.kernels or KERNELS:
            path = ROOT / "kernels" / f"{name}.cu"
            problem = open_problem(ProblemRequest(path.name, path.read_text(), device=DEVICE))
            bench = Bench(problem, client, window, args.most_tokens)
            kernels[name] = {
                "free": bench.whole("", args.answers),
                "grammar": bench.whole("grammar", args.answers),
                "steps": bench.stepped(args.programs),
            }
            print(name, json.dumps(kernels[name]), flush=True)
            args.out.write_text(json.dumps(document(args, found.context, kernels), indent=1) + "\n")
    finally:
        client.close()


def document(args: argparse.Namespace, context: int, kernels: Mapping[str, Any]) -> dict[str, Any]:
    """The record."""
    return {
        "command": f"python benchmarks/llm/local_model.py --commit COMMIT --answers {args.answers} "
        f"--programs {args.programs} --most-tokens {args.most_tokens} --out FILE {' '.join(kernels)}",
        "commit": args.commit,
        "date": datetime.now(UTC).date().isoformat(),
        "model": f"{args.model}, context {context}, temperature {TEMPERATURE}",
        "note": "a model this small is a stand-in for what stands between a model and the search",
        "device": f"{DEVICE}, times are estimated",
        "shares": {
            "free_parse": share(kernels, "free", "parse", "answers"),
            "grammar_parse": share(kernels, "grammar", "parse", "answers"),
            "grammar_legal": share(kernels, "grammar", "legal", "answers"),
            "moves_proved": share(kernels, "steps", "proved", "moves"),
            "programs_faster": share(kernels, "steps", "faster", "programs"),
        },
        "kernels": kernels,
    }


if __name__ == "__main__":
    main()
