"""A kernel whose candidates are timed on GPUs: built where there are cores, run by one scorer a GPU."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from evolve.codegen.module import render
from evolve.frontend.lift import Lifted
from evolve.ir.errors import EvolveError
from evolve.scoring.built import BuildError, Built, build
from evolve.scoring.final import examine
from evolve.scoring.measured import MeasuredScorer, explained
from evolve.scoring.model import modelled
from evolve.scoring.task import Outcome, Task
from evolve.search.problem import Comparison, Compiled, Device, Score
from evolve.search.task import KernelProblem, as_score, with_launcher


@dataclass(frozen=True)
class Candidate:
    """What was built of a program, and its text with a launcher."""

    built: Built
    source: str


class MeasuredProblem(KernelProblem):
    """Implements `search.workers.Measuring` too.

    All GPUs check on inputs drawn from one secret. Scorers are made when first asked for, in the process that
    asks: a GPU belongs to one.
    """

    def __init__(self, lifted: Lifted, task: Task, device: Device, numerics: str) -> None:
        super().__init__(lifted, task, device, numerics)
        self.secret = int.from_bytes(os.urandom(8), "little")
        self._scorers: dict[int, MeasuredScorer] = {}

    def scorer_on(self, gpu: int = 0) -> MeasuredScorer:
        """The scorer of one of the run's GPUs. Raises EvolveError as MeasuredScorer."""
        found = self._scorers.get(gpu)
        if found is None:
            found = MeasuredScorer(self.task, self.device.ordinals[gpu], secret=self.secret)
            self._scorers[gpu] = found
        return found

    def build(self, compiled: Compiled) -> Score | Candidate:
        """Machine code."""
        rendered = render(compiled.payload)
        source = with_launcher(rendered)
        try:
            built = build(rendered, self.task.profile.arch)
        except BuildError as error:
            return as_score(Outcome("compile_failed", rendered.text, message=error.message), source)
        return Candidate(built, source)

    def estimate(self, built: Candidate) -> tuple[Candidate, float | None]:
        """With the model's estimates, which also say what a measured time consists of."""
        of = built.built
        told = replace(of, estimates=modelled(self.task, of.rendered, of.cubin))
        seconds = told.estimated_s
        return replace(built, built=told), None if seconds is None else seconds * 1e6

    def explain_time(self, built: Candidate, score: Score) -> Score:
        """With the model's view of what a measured time consists of."""
        told = explained(self.task, self.estimate(built)[0].built, score.detail["times_us"][0])
        return score if told is None else replace(score, gap=told)

    def measure(self, built: Candidate, gpu: int = 0) -> Score:
        """Checked and timed."""
        # The kernel as given has no variants.
        original = not built.built.rendered.variants
        return as_score(self.scorer_on(gpu).score(built.built, is_original=original), built.source)

    def duel(self, first: Candidate, second: Candidate, gpu: int = 0) -> Comparison:
        """Interleaved."""
        d = self.scorer_on(gpu).compare(first.built, second.built)
        detail = {**d.detail, "error": d.message} if d.message else d.detail
        return Comparison(d.first_s * 1e6, d.second_s * 1e6, d.better, detail, d.wrong, d.message)

    def examine(self, built: Candidate, gpu: int = 0) -> Any:
        """The champion where nobody has looked: JSON data."""
        return examine(self.scorer_on(gpu), built.built).to_json()

    def baseline(self) -> Score:
        """The kernel as given."""
        return as_score(self.scorer_on().baseline(), with_launcher(render(self.task.original)))

    def score(self, compiled: Compiled) -> Score:
        """All of it in this process."""
        built = self.build(compiled)
        return built if isinstance(built, Score) else self.measure(self.estimate(built)[0])

    def compare(self, first: Compiled, second: Compiled) -> Comparison:
        """As `duel`."""
        return self.duel(self._candidate(first), self._candidate(second))

    def _candidate(self, compiled: Compiled) -> Candidate:
        built = self.build(compiled)
        if isinstance(built, Score):
            raise EvolveError("compile-failed", built.message)
        return built

    def close(self) -> None:
        """Ends the GPU workers."""
        for scorer in self._scorers.values():
            scorer.close()
        self._scorers.clear()
