"""A small deterministic problem: programs are lines `set(knob, number)`, the last one of a knob counts."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from evolve.ir.errors import EvolveError
from evolve.search.problem import Comparison, Compiled, Device, ProblemInfo, Score, Sol, TextFound

KNOBS = ("tile", "width", "stage", "warps")
_BEST = {"tile": 64, "width": 4, "stage": 2, "warps": 8}
_LINE = re.compile(r"set\((\w+), (\d+)\)(?: *#.*)?")
SOL_US = 100.0


@dataclass(frozen=True)
class FakeProgram:
    settings: tuple[tuple[str, int], ...]


@dataclass
class FakeProblem:
    """`tile` 7 is illegal, 11 fails to compile, 13 is wrong, 17 too fast, 19 kills the process, 23 raises."""

    timing: str = "estimated"
    jitter_s: float = 0.0
    limit: float = 0.95
    scores: int = 0

    @property
    def assumptions(self) -> tuple[str, ...]:
        return self.info().assumptions

    @property
    def numerics(self) -> str:
        return self.info().numerics

    def info(self) -> ProblemInfo:
        device = Device("sim" if self.timing == "estimated" else "cuda", "h200-sxm", self.timing)  # type: ignore[arg-type]
        return ProblemInfo(
            entry="fake",
            device=device,
            sol=Sol(SOL_US, 80.0, "dram"),
            workload_toml="rows = 4\n",
            workload={"rows": 4},
            assumptions=("x and y do not overlap",),
            summary="one loop",
            features={"loops": 1},
        )

    def parse(self, text: str) -> FakeProgram:
        settings: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            found = _LINE.fullmatch(line.strip())
            if found is None or found[1] not in KNOBS:
                raise EvolveError("E-PARSE", f"not a statement: {line}", line=number)
            settings[found[1]] = int(found[2])
        return FakeProgram(tuple(settings.items()))

    def canonical(self, program: FakeProgram) -> str:
        return repr(program.settings)

    def compile(self, program: FakeProgram) -> Compiled:
        tile = dict(program.settings).get("tile")
        if tile == 7:
            race = {"code": "E-RACE", "message": "a race", "line": 1, "repair": "tile 8"}
            return Compiled("REFUTED", (race,))
        if tile == 19:
            os.kill(os.getpid(), signal.SIGKILL)
        if tile == 23:
            raise ValueError("a bug of ours")
        module = hashlib.sha256(repr(sorted(program.settings)).encode()).hexdigest()[:16]
        return Compiled("PROVED", module_hash=module, payload=program)

    def explain(self, program: FakeProgram) -> Compiled:
        return self.compile(program)

    def score(self, compiled: Compiled) -> Score:
        program: FakeProgram = compiled.payload
        self.scores += 1
        if self.jitter_s:
            time.sleep(self.jitter_s * (int(compiled.module_hash or "0", 16) % 7))
        settings = dict(program.settings)
        match settings.get("tile"):
            case 11:
                return Score("compile_failed", message="ptxas gave up")
            case 13:
                return Score("incorrect", message="y[3] is wrong")
            case 17:
                return Score("quarantined", message="faster than physics")
        fitness = self.fitness(settings)
        return Score(
            "scored",
            time_us=SOL_US / fitness,
            fitness=fitness,
            source=self.render(compiled),
            gap={"binding": "dram", "causes": (1, 2)},
        )

    def fitness(self, settings: dict[str, int]) -> float:
        good = 1.0
        for knob, best in _BEST.items():
            value = settings.get(knob, 1) or 1
            good *= 1 / (1 + abs(value - best) / best)
        return self.limit * (0.05 + 0.95 * good)

    def baseline(self) -> Score:
        fitness = self.fitness({})
        return Score("scored", SOL_US / fitness, fitness, "__global__ void fake() {}\n")

    def compare(self, first: Compiled, second: Compiled) -> Comparison:
        times = [SOL_US / self.fitness(dict(one.payload.settings)) for one in (first, second)]
        return Comparison(times[0], times[1], times[0] < 0.99 * times[1])

    def legal_moves(self, text: str) -> Sequence[str]:
        held = {knob for knob, _ in self.parse(text).settings}
        return [f"set({knob}, ?[1, 2, 4, 8, 16, 64])" for knob in KNOBS if knob not in held]

    def render(self, compiled: Compiled) -> str:
        return f"__global__ void fake() {{ /* {dict(compiled.payload.settings)} */ }}\n"

    def read_back(self, compiled: Compiled) -> TextFound | None:
        """Its texts have nothing in them that could differ."""
        return TextFound("PROVED")

    def inspect(self) -> dict[str, object]:
        empty: dict[str, object] = {key: [] for key in ("kernels", "loops", "buffers")}
        sol = {"sizes": {"rows": 4}, "time_us": SOL_US, "text": [f"{SOL_US} us attainable"]}
        return empty | {"features": {}, "workload": {"timed": [{"rows": 4}]}, "sol": [sol]}
