"""Evaluating in forked processes, which are fed through pipes and replaced when one dies.

A worker compiles a program, tells the module's hash, and scores it when told to go on. Where scores
come in stages (`Staged`) it takes several programs at a time.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

from evolve.ir.errors import EvolveError
from evolve.search.explainer import Explainer
from evolve.search.problem import Comparison, Compiled, Problem, Score
from evolve.search.processes import Forked, fork
from evolve.search.workers import (
    Admit,
    Known,
    Measuring,
    Outcome,
    Staged,
    admit_all,
    compare_texts,
    compile_text,
    examine_text,
    guarded,
    plain_compiled,
    plain_score,
    read_first,
)

BUILD_LIMIT_S = 120.0
"""For one program, where a worker analyses and compiles and another process measures."""
SCORE_LIMIT_S = 900.0
"""Where a worker also runs the program, on the host: compiling and running there have limits of their own."""
_POLL_S = 0.2
_BATCH = 4


class PoolEvaluator:
    """Evaluates in `count` processes, forked when the first program comes, with all that the baseline loaded.

    No thread of the caller's should be running then.
    """

    def __init__(self, problem: Problem[Any], count: int) -> None:
        self._problem = problem
        self._count = count
        self._waiting: list[tuple[int, str]] = []
        self._compiled: dict[int, str] = {}
        self._outcomes: dict[int, Outcome | EvolveError] = {}
        self._workers: list[Forked] = []
        self._explainer = Explainer(problem)
        self._batch = _BATCH if isinstance(problem, Staged) else 1
        self._builds_only = isinstance(problem, Measuring)
        atexit.register(self.close)

    def baseline(self) -> Score:
        """The score of the kernel as given, in this process."""
        return self._problem.baseline()

    def _spawn(self) -> Forked:
        return fork(partial(_evaluate, self._problem), self._forked())

    def _forked(self) -> list[Forked]:
        return list(self._workers)

    def start(self, proposal: int, text: str) -> None:
        """Queues a program; a free worker takes it at once."""
        while len(self._workers) < self._count:
            self._workers.append(self._spawn())
        self._waiting.append((proposal, text))
        self._feed()

    def _feed(self) -> None:
        """Shares what waits among the free workers."""
        for at, worker in enumerate(self._workers):
            if worker.jobs or not self._waiting:
                continue
            free = sum(not other.jobs for other in self._workers[at:])
            share = min(self._batch, -(-len(self._waiting) // free))
            jobs, self._waiting = self._waiting[:share], self._waiting[share:]
            try:
                worker.pipe.send(jobs)
            except OSError:  # it died while idle: a fresh one takes the jobs
                worker.bury()
                worker = self._workers[at] = self._spawn()
                worker.pipe.send(jobs)
            worker.jobs, worker.at = dict(jobs), jobs[0][0]

    def finish(
        self, proposal: int, known: Known, idle: Callable[[], None], admit: Admit = admit_all
    ) -> Outcome:
        """Serves all workers until this proposal is done."""
        while proposal not in self._outcomes:
            idle()
            self._serve_all(known)
        idle()  # Ctrl-C reaches what candidates run in too: an outcome that came after it proves nothing
        self._compiled.pop(proposal, None)
        outcome = self._outcomes.pop(proposal)
        if isinstance(outcome, EvolveError):
            raise outcome
        return outcome

    def tend(self, known: Known, admit: Admit = admit_all) -> None:
        """Hears who has something to say now, and feeds who is free."""
        while self._serve_all(known, wait_s=0.0):
            pass

    def _serve_all(self, known: Known, wait_s: float = _POLL_S) -> bool:
        """Feeds the workers and hears those that have something to say; False if nobody had for so long."""
        self._feed()
        busy = {worker.pipe: worker for worker in self._forked() if worker.jobs}
        speaking = wait(list(busy), timeout=wait_s) if busy else []
        for pipe in speaking:
            assert isinstance(pipe, Connection)
            self._hear(busy[pipe], known)
        for worker in self._forked():
            # What it has said and nobody has heard may be that it is on another job by now.
            if worker.pipe not in speaking:
                worker.give_up(self._limit_of(worker))
        return bool(speaking)

    def _limit_of(self, worker: Forked) -> float:
        return self._limit_s

    @property
    def _limit_s(self) -> float:
        return BUILD_LIMIT_S if self._builds_only else SCORE_LIMIT_S

    def _hear(self, worker: Forked, known: Known) -> None:
        try:
            kind, job, content = worker.pipe.recv()
            if kind == "compiled":
                twin = content is not None and (
                    known(content) or any(n < job and m == content for n, m in self._compiled.items())
                )
                if content is not None:
                    self._compiled[job] = content
                worker.pipe.send(not twin)
        except (EOFError, OSError):
            self._replace(worker)
            return
        if kind == "at":
            worker.at = job
        elif kind != "compiled":
            del worker.jobs[job]
            self._answered(kind, job, content)

    def _answered(self, kind: str, job: int, content: Any) -> None:
        """A worker is through with a job."""
        self._outcomes[job] = content if kind == "done" else EvolveError(*content[:2], **content[2])

    def _replace(self, worker: Forked) -> None:
        """A worker broke off: the candidate it was on pays for it, the others are evaluated again."""
        assert worker.at is not None
        how = worker.bury()
        self._outcomes[worker.at] = self._gave_up(worker.at) if worker.late else self._died(worker.at, how)
        lost = [(n, text) for n, text in worker.jobs.items() if n != worker.at]
        self._waiting = sorted([*lost, *self._waiting])
        self._workers[self._workers.index(worker)] = self._spawn()

    def _died(self, job: int, how: str) -> Outcome:
        message = f"the worker process died on this program ({how})"
        if job not in self._compiled:
            return Outcome(Compiled("UNKNOWN", ({"code": "E-INTERNAL", "message": message},)), fault=True)
        compiled = Compiled("PROVED", module_hash=self._compiled[job])
        return Outcome(compiled, Score("quarantined", message=f"not judged: {message}"), fault=True)

    def _gave_up(self, job: int) -> Outcome:
        """A program that took too long: not an error of ours, and nothing was found wrong with it."""
        message = f"it was given up after {self._limit_s:g} s"
        if job not in self._compiled:
            return Outcome(Compiled("UNKNOWN", ({"code": "E-TIME", "message": f"{message} of analysis"},)))
        compiled = Compiled("PROVED", module_hash=self._compiled[job])
        if self._builds_only:
            return Outcome(compiled, Score("compile_failed", message=f"{message} of compiling"))
        return Outcome(compiled, Score("quarantined", message=f"not judged: {message}"))

    def explain(self, text: str, idle: Callable[[], None]) -> Compiled:
        """In a process of its own, while the workers go on."""
        return self._explainer.explain(text, self._forked(), idle)

    def compare(self, first: str, second: str) -> Comparison:
        """Times two programs in this process, while the workers go on."""
        return compare_texts(self._problem, first, second)

    def examine(self, program: str) -> Any:
        """The last look at a program, in this process."""
        return examine_text(self._problem, program)

    def close(self) -> None:
        """Ends the workers; what they were on is evaluated again by a resume. Safe to call twice."""
        atexit.unregister(self.close)
        for worker in self._workers:
            worker.end(kill=bool(worker.jobs))
        self._workers.clear()
        self._explainer.close()


def _evaluate(problem: Problem[Any], pipe: Connection, jobs: list[tuple[int, str]]) -> None:
    """Sends the outcome of every job, in any order."""
    held: list[tuple[int, Compiled, Any]] = []
    for job, text in jobs:
        plain, compiled = compile_job(problem, pipe, job, text)
        if compiled is None:
            continue
        begin = problem.begin if isinstance(problem, Staged) else problem.score
        begun = send_outcome(pipe, job, plain, partial(read_first, problem, compiled, begin))
        if begun is not None:
            held.append((job, plain, begun))
    if not held:
        return
    assert isinstance(problem, Staged)
    seen: Sequence[Any] = [None] * len(held)
    with suppress(Exception):  # each then looks for itself, and it is seen whose fault it is
        seen = problem.look([begun for _, _, begun in held])
    for (job, plain, begun), one in zip(held, seen, strict=True):
        pipe.send(("at", job, None))
        send_outcome(pipe, job, plain, partial(problem.conclude, begun, one))


def compile_job(
    problem: Problem[Any], pipe: Connection, job: int, text: str
) -> tuple[Compiled, Compiled | None]:
    """Compiles a program and tells so: without its payload, and with it if it is to be scored."""
    pipe.send(("at", job, None))
    compiled, fault = compile_text(problem, text)
    plain = plain_compiled(compiled)
    if compiled.verdict != "PROVED":
        pipe.send(("done", job, Outcome(plain, fault=fault)))
        return plain, None
    pipe.send(("compiled", job, compiled.module_hash))
    if not pipe.recv():
        pipe.send(("done", job, Outcome(plain)))
        return plain, None
    return plain, compiled


def send_outcome(pipe: Connection, job: int, plain: Compiled, score: Callable[[], Any]) -> Any | None:
    """Sends the outcome if `score` gives a Score or fails, else returns what it gives."""
    try:
        result, fault = guarded(score)
    except EvolveError as error:
        pipe.send(("failed", job, as_failure(error)))
        return None
    if not isinstance(result, Score):
        return result
    pipe.send(("done", job, Outcome(plain, plain_score(result), fault)))
    return None


def as_failure(error: EvolveError) -> tuple[str, str, dict[str, Any]]:
    """An error as it goes through a pipe."""
    return error.code, error.message, {"file": error.file, "line": error.line, "hint": error.hint}
