"""Evaluating where times are measured: builders, which need no GPU, and one process for each GPU.

Builders compile, prove and translate several programs at a time; a GPU's process runs one after the
other and always has the next at hand, so that the GPU does not wait for the host. Where candidates
wait for a GPU all the same, builders with nothing to build estimate them, and the pre-filter decides
which are worth its time: for a GPU that is free, measuring is the quickest way to know.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from evolve.ir.errors import EvolveError
from evolve.search.pool import PoolEvaluator, as_failure, compile_job, send_outcome
from evolve.search.problem import Comparison, Compiled, Problem, Score
from evolve.search.processes import BUILDER_BYTES, Forked, fork
from evolve.search.workers import (
    Admit,
    Known,
    Measuring,
    Outcome,
    admit_all,
    compared,
    compile_text,
    guarded,
    plain_score,
    read_first,
)

AT_HAND = 3
"""Candidates that a GPU's process has been sent: the one it runs and what follows."""
ESTIMATE_S, GPU_S, LATELY = 1.0, 0.1, 0.1
"""Seconds for an estimate and for a measurement before any is known; the weight of the latest."""
GPU_LIMIT_S = 1800.0
"""For an order to a GPU's process, whose CUDA worker has limits of its own; a baseline may take minutes."""
KEPT = 64
"""Built candidates that are kept for duels."""


class _Lately:
    """How long something took lately, seconds: a mean in which the last ones count most."""

    def __init__(self, first: float) -> None:
        self.mean = first

    def took(self, seconds: float) -> None:
        """Once more."""
        self.mean += LATELY * (seconds - self.mean)


@dataclass(frozen=True)
class _Led:
    """A candidate that was the fastest when measured: what leads is improved next, so it is explained."""

    job: int
    built: Any
    outcome: Outcome

    @property
    def order(self) -> tuple[str, int, Any]:
        """For a builder."""
        return "explain", self.job, (self.built, self.outcome.score)


@dataclass
class _Waiting:
    """A built candidate that no GPU's process has yet. `asked`: a builder estimates it, or has."""

    job: int
    built: Any
    asked: bool = False


class PipelineEvaluator(PoolEvaluator):
    """Builds in `builders` processes, measures in one for each of `gpus`. `problem` must be Measuring."""

    def __init__(self, problem: Problem[Any], builders: int, gpus: int) -> None:
        assert isinstance(problem, Measuring)
        super().__init__(problem, builders)
        self._batch = 1
        self._measuring: Measuring = problem
        self._gpus: list[Forked] = []
        for gpu in range(gpus):
            self._gpus.append(self._spawn_gpu(gpu))
        self._ready: deque[_Waiting] = deque()
        self._plain: dict[int, Compiled] = {}
        self._decided: dict[int, dict[str, Any]] = {}
        self._texts: dict[int, str] = {}
        self._built: OrderedDict[str, Any] = OrderedDict()
        self._known: Known = lambda module: False
        self._admit: Admit = admit_all
        self._explaining: deque[_Led] = deque()
        self._estimate_s, self._gpu_s = _Lately(ESTIMATE_S), _Lately(GPU_S)
        self._best = 0.0
        self._asked = 0
        self._answers: dict[int, Any] = {}
        self._again: set[int] = set()
        """What was asked for once more, because the process died on it."""

    # ---- processes

    def _spawn(self) -> Forked:
        return fork(partial(_build, self._problem), self._forked(), headroom=BUILDER_BYTES)

    def _spawn_gpu(self, gpu: int) -> Forked:
        return fork(partial(_run, self._measuring, gpu), self._forked(), self._measuring.close)

    def _forked(self) -> list[Forked]:
        return [*self._workers, *self._gpus]

    def start(self, proposal: int, text: str) -> None:
        """Queues a program; a free builder takes it at once."""
        self._texts[proposal] = text
        super().start(proposal, text)

    def finish(
        self, proposal: int, known: Known, idle: Callable[[], None], admit: Admit = admit_all
    ) -> Outcome:
        """Serves all processes until this proposal is done."""
        self._known, self._admit = known, admit
        outcome = super().finish(proposal, known, idle)
        self._texts.pop(proposal, None)
        self._plain.pop(proposal, None)
        return outcome

    def tend(self, known: Known, admit: Admit = admit_all) -> None:
        """Hears who has something to say now, and feeds who is free."""
        self._known, self._admit = known, admit
        super().tend(known, admit)

    def _feed(self) -> None:
        self._feed_explaining()
        super()._feed()
        while self._ready and len(self._gpus[self._least_busy()].jobs) < AT_HAND:
            one = self._ready.popleft()
            self._send(self._least_busy(), one.job, ("measure", one.built))
        # What a GPU takes sooner than an estimate would be there is measured without one.
        soon = int(self._estimate_s.mean * len(self._gpus) / self._gpu_s.mean)
        for one in [one for one in list(self._ready)[soon:] if not one.asked]:
            if not self._order(one, ("estimate", one.job, one.built)):
                return
            one.asked = True

    def _feed_explaining(self) -> None:
        while self._explaining and self._order(self._explaining[0], self._explaining[0].order):
            self._explaining.popleft()

    def _order(self, about: _Waiting | _Led, order: tuple[str, int, Any]) -> bool:
        """Gives a free builder something to say about a candidate; False if there is none."""
        worker = next((one for one in self._workers if not one.jobs), None)
        if worker is None:
            return False
        worker.jobs, worker.at = {about.job: about}, about.job
        with suppress(OSError):  # it died while idle, which is noticed when it is heard
            worker.pipe.send(order)
        return True

    def _least_busy(self) -> int:
        return min(range(len(self._gpus)), key=lambda n: len(self._gpus[n].jobs))

    def _send(self, number: int, job: int, order: tuple[str, Any]) -> None:
        gpu = self._gpus[number]
        try:
            gpu.pipe.send((job, *order))
        except OSError:  # it died: what it said before is heard first, so that the one it was on then pays
            while self._gpus[number] is gpu:
                self._hear(gpu, self._known)
            gpu = self._gpus[number]
            gpu.pipe.send((job, *order))
        gpu.jobs[job] = order
        gpu.at = next(iter(gpu.jobs))

    def _limit_of(self, worker: Forked) -> float:
        return GPU_LIMIT_S if worker in self._gpus else super()._limit_of(worker)

    def _hear(self, worker: Forked, known: Known) -> None:
        if worker not in self._gpus:
            super()._hear(worker, known)
            return
        try:
            kind, job, content = worker.pipe.recv()
        except (EOFError, OSError):
            self._replace_gpu(self._gpus.index(worker))
            return
        del worker.jobs[job]
        worker.at = next(iter(worker.jobs), None)
        if kind == "failed":
            content = EvolveError(*content[:2], **content[2])
        if job < 0:
            self._answers[job] = content
        elif kind == "failed":
            self._outcomes[job] = content
        else:
            score, fault, took_s = content
            self._gpu_s.took(took_s)
            outcome = Outcome(self._plain[job], plain_score(self._told(job, score)), fault)
            built = self._built.get(self._texts[job])
            if score.status == "scored" and score.fitness > self._best and built is not None:
                self._best = score.fitness
                self._explaining.append(_Led(job, built, outcome))
            else:
                self._outcomes[job] = outcome

    def _replace_gpu(self, number: int) -> None:
        """Its process broke off: what it was on pays for it, the rest goes to its successor."""
        gpu = self._gpus[number]
        how = gpu.bury()
        self._gpus[number] = self._spawn_gpu(number)
        for job, order in gpu.jobs.items():
            if job != gpu.at:
                self._send(number, job, order)
            elif job < 0 and job not in self._again:  # what is asked of no one program has a second try
                self._again.add(job)
                self._send(number, job, order)
            elif job < 0:
                self._answers[job] = EvolveError("gpu-died", f"the GPU's process died twice ({how})")
            elif gpu.late:
                message = f"not judged: the GPU's process was given up after {GPU_LIMIT_S:g} s"
                self._outcomes[job] = Outcome(self._plain[job], Score("quarantined", message=message))
            else:
                self._outcomes[job] = self._died(job, how)

    def _answered(self, kind: str, job: int, content: Any) -> None:
        match kind:
            case "built":
                plain, built = content
                self._plain[job] = plain
                self._decided[job] = {"prefilter": admit_all(job, None).to_json()}
                self._keep(self._texts[job], built)
                self._ready.append(_Waiting(job, built))
            case "estimated":
                self._estimated(job, *content)
            case "explained":
                self._outcomes[job] = Outcome(self._plain[job], plain_score(content))
            case _:
                super()._answered(kind, job, content)

    def _estimated(self, job: int, built: Any, estimated_us: float | None, took_s: float) -> None:
        """What a builder says of a candidate that waited when it began; its measurement may be over."""
        self._estimate_s.took(took_s)
        if job not in self._decided:
            return
        self._decided[job]["estimated_us"] = estimated_us
        waiting = next((one for one in self._ready if one.job == job), None)
        if waiting is None:
            return
        waiting.built = built
        decision = self._admit(job, estimated_us)
        self._decided[job]["prefilter"] = decision.to_json()
        if not decision.measures:
            self._ready.remove(waiting)
            score = Score("prefiltered", message="not measured: its estimate is too slow")
            self._outcomes[job] = Outcome(self._plain[job], plain_score(self._told(job, score)))

    def _replace(self, worker: Forked) -> None:
        about = next(iter(worker.jobs.values()), None)
        if not isinstance(about, _Waiting | _Led):
            super()._replace(worker)
            return
        worker.bury()  # over what the model says: the candidate goes on without
        self._workers[self._workers.index(worker)] = self._spawn()
        if isinstance(about, _Led):
            self._outcomes[about.job] = about.outcome

    def _told(self, job: int, score: Score) -> Score:
        """A score with what was decided before it."""
        return replace(score, detail={**score.detail, **self._decided.pop(job)})

    def _keep(self, text: str, built: Any) -> None:
        self._built[text] = built
        self._built.move_to_end(text)
        while len(self._built) > KEPT:
            self._built.popitem(last=False)

    # ---- what is asked of the first GPU's process

    def baseline(self) -> Score:
        """The score of the kernel as given. Raises EvolveError."""
        score = self._ask("baseline", None)
        assert isinstance(score, Score)
        return score

    def compare(self, first: str, second: str) -> Comparison:
        """Times two programs on the first GPU, while everything else goes on."""
        return compared(lambda: self._ask("compare", (self._of(first), self._of(second))))

    def examine(self, program: str) -> Any:
        """The last look at a program, see `Measuring.examine`."""
        return self._ask("examine", self._of(program))

    def _of(self, text: str) -> Any:
        found = self._built.get(text)
        if found is None:
            compiled, _ = compile_text(self._problem, text)
            found = self._measuring.build(compiled)
        self._keep(text, found)
        return found

    def _ask(self, what: str, content: Any) -> Any:
        self._asked -= 1  # below zero: not a proposal's number
        asked = self._asked
        self._send(0, asked, (what, content))
        while asked not in self._answers:
            self._serve_all(self._known)
        answer = self._answers.pop(asked)
        if isinstance(answer, EvolveError):
            raise answer
        return answer

    def close(self) -> None:
        """Ends all processes. Safe to call twice."""
        super().close()
        for gpu in self._gpus:
            gpu.end(kill=False)
        self._gpus.clear()


def _build(
    problem: Problem[Any], pipe: Connection, order: list[tuple[int, str]] | tuple[str, int, Any]
) -> None:
    """A builder's answer: to programs, what was built of them; to a candidate, what the model says."""
    assert isinstance(problem, Measuring)
    if isinstance(order, tuple):
        what, job, content = order
        if what == "estimate":
            begin = time.monotonic()
            built, us = _or_else((content, None), lambda: problem.estimate(content))
            answer = "estimated", job, (built, us, time.monotonic() - begin)
        else:
            built, score = content
            answer = "explained", job, _or_else(score, lambda: problem.explain_time(built, score))
        pipe.send(answer)
        return
    for job, text in order:
        plain, compiled = compile_job(problem, pipe, job, text)
        if compiled is None:
            continue
        built = send_outcome(pipe, job, plain, partial(read_first, problem, compiled, problem.build))
        if built is not None:
            pipe.send(("built", job, (plain, built)))


def _or_else(otherwise: Any, ask: Callable[[], Any]) -> Any:
    """What the model says, or without it: it decides nothing."""
    try:
        return ask()
    except Exception:
        return otherwise


def _run(problem: Measuring, gpu: int, pipe: Connection, order: tuple[int, str, Any]) -> None:
    """The answer of a GPU's process to an order."""
    job, what, content = order
    try:
        match what:
            case "measure":
                begin = time.monotonic()
                score, fault = guarded(lambda: problem.measure(content, gpu))
                pipe.send(("done", job, (score, fault, time.monotonic() - begin)))
            case "compare":
                first, second = content
                pipe.send(("done", job, problem.duel(first, second, gpu)))
            case "examine":
                pipe.send(("done", job, problem.examine(content, gpu)))
            case _:
                pipe.send(("done", job, problem.baseline()))
    except EvolveError as error:
        pipe.send(("failed", job, as_failure(error)))
    except OSError:
        raise
    except Exception as error:
        pipe.send(("failed", job, ("internal", f"{type(error).__name__}: {error}", {})))
