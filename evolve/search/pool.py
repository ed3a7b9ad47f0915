"""Worker processes for the search: forked once, fed through pipes, replaced when one dies.

A worker compiles a program, tells the module's hash, and scores it when told to go on. Where scores
come in stages (`Staged`) it takes several programs at a time. Forked, so that whatever the problem
has loaded is there at once; a worker ends when its parent does.
"""

from __future__ import annotations

import atexit
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from evolve.ir.errors import EvolveError
from evolve.search.problem import Comparison, Compiled, Problem, Score
from evolve.search.workers import (
    Known,
    Outcome,
    Staged,
    compare_texts,
    compile_text,
    guarded,
    plain_compiled,
    plain_score,
)

_POLL_S = 0.2
_PR_SET_PDEATHSIG = 1
_BATCH = 4


@dataclass
class _Worker:
    """`jobs`: the texts in its hands; `at`: the one it is busy with, which pays if it breaks off."""

    process: BaseProcess
    pipe: Connection
    jobs: dict[int, str] = field(default_factory=dict)
    at: int | None = None


class PoolEvaluator:
    """Evaluates in `count` forked processes. Create it before starting threads."""

    def __init__(self, problem: Problem[Any], count: int) -> None:
        self._problem = problem
        self._context = multiprocessing.get_context("fork")
        self._waiting: list[tuple[int, str]] = []
        self._compiled: dict[int, str] = {}
        self._outcomes: dict[int, Outcome | EvolveError] = {}
        self._workers: list[_Worker] = []
        self._batch = _BATCH if isinstance(problem, Staged) else 1
        for _ in range(count):
            self._workers.append(self._spawn())
        atexit.register(self.close)

    def _spawn(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        inherited = [worker.pipe for worker in self._workers] + [ours]
        process = self._context.Process(
            target=_serve, args=(self._problem, theirs, inherited, os.getpid()), daemon=False
        )
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def start(self, proposal: int, text: str) -> None:
        """Queues a program; a free worker takes it at once."""
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
                self._bury(worker)
                worker = self._workers[at] = self._spawn()
                worker.pipe.send(jobs)
            worker.jobs, worker.at = dict(jobs), jobs[0][0]

    def finish(self, proposal: int, known: Known, idle: Callable[[], None]) -> Outcome:
        """Serves all workers until this proposal is done."""
        while proposal not in self._outcomes:
            idle()
            self._feed()
            busy = {worker.pipe: worker for worker in self._workers if worker.jobs}
            for pipe in wait(list(busy), timeout=_POLL_S):
                assert isinstance(pipe, Connection)
                self._hear(busy[pipe], known)
        idle()  # Ctrl-C reaches what candidates run in too: an outcome that came after it proves nothing
        self._compiled.pop(proposal, None)
        outcome = self._outcomes.pop(proposal)
        if isinstance(outcome, EvolveError):
            raise outcome
        return outcome

    def _hear(self, worker: _Worker, known: Known) -> None:
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
            assert worker.at is not None
            self._outcomes[worker.at] = self._bury(worker)
            lost = [(n, text) for n, text in worker.jobs.items() if n != worker.at]
            self._waiting = sorted([*lost, *self._waiting])
            self._workers[self._workers.index(worker)] = self._spawn()
            return
        if kind == "at":
            worker.at = job
        elif kind != "compiled":
            self._outcomes[job] = content if kind == "done" else EvolveError(*content[:2], **content[2])
            del worker.jobs[job]

    def _bury(self, worker: _Worker) -> Outcome:
        """Ends a worker that broke off; the candidate it was on pays for it."""
        worker.pipe.close()
        worker.process.join(timeout=5)
        code = worker.process.exitcode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        message = f"the worker process died on this program ({how})"
        if worker.at not in self._compiled:
            return Outcome(Compiled("UNKNOWN", ({"code": "E-INTERNAL", "message": message},)), fault=True)
        compiled = Compiled("PROVED", module_hash=self._compiled[worker.at])
        return Outcome(compiled, Score("quarantined", message=f"not judged: {message}"), fault=True)

    def compare(self, first: str, second: str) -> Comparison:
        """Times two programs in this process, while the workers go on."""
        return compare_texts(self._problem, first, second)

    def close(self) -> None:
        """Ends the workers; what they were on is evaluated again by a resume. Safe to call twice."""
        atexit.unregister(self.close)
        for worker in self._workers:
            worker.pipe.close()
            if worker.jobs:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join(timeout=5)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers.clear()


def _serve(problem: Problem[Any], pipe: Connection, inherited: list[Connection], parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(Exception):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for other in inherited:
        other.close()
    os.dup2(2, 1)  # nothing a library prints may reach the one JSON document on standard output
    with suppress(EOFError, OSError):
        while os.getppid() == parent:
            _evaluate(problem, pipe, pipe.recv())
    os._exit(0)


def _evaluate(problem: Problem[Any], pipe: Connection, jobs: list[tuple[int, str]]) -> None:
    """Sends the outcome of every job, in any order."""
    held: list[tuple[int, Compiled, Any]] = []
    for job, text in jobs:
        pipe.send(("at", job, None))
        compiled, fault = compile_text(problem, text)
        plain = plain_compiled(compiled)
        if compiled.verdict != "PROVED":
            pipe.send(("done", job, Outcome(plain, fault=fault)))
            continue
        pipe.send(("compiled", job, compiled.module_hash))
        if not pipe.recv():
            pipe.send(("done", job, Outcome(plain)))
            continue
        begin = problem.begin if isinstance(problem, Staged) else problem.score
        begun = _send(pipe, job, plain, partial(begin, compiled))
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
        _send(pipe, job, plain, partial(problem.conclude, begun, one))


def _send(pipe: Connection, job: int, plain: Compiled, score: Callable[[], Any]) -> Any | None:
    """Sends the outcome if `score` gives a Score or fails, else returns what it gives."""
    try:
        result, fault = guarded(score)
    except EvolveError as error:
        place = {"file": error.file, "line": error.line, "hint": error.hint}
        pipe.send(("failed", job, (error.code, error.message, place)))
        return None
    if not isinstance(result, Score):
        return result
    pipe.send(("done", job, Outcome(plain, plain_score(result), fault)))
    return None
