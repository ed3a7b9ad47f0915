"""What tries mutants: the tests that pass a mutant's lines, each mutant in a child process."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from benchmarks.prover.mutation import FRONTEND, KINDS, MODULES, Mutant, apply, code_of, module_of
from evolve.legality.memory import forget

SECONDS = (2.0, 60.0)
"""Processor time of the tests that are tried on a mutant, first and in all: one that lives longer counts as
a survivor."""
LAST = 10
"""Seconds that tests under way have when the time is over."""
HANGS = 180
"""Processor seconds. A child that takes more hangs: killed, and the mutant with it."""
Keep = Callable[[dict[str, dict[str, Any]]], None]
Lines = set[tuple[str, int]]
"""By module."""


@contextmanager
def watched(passed: Lines) -> Iterator[None]:
    """Notes the prover's lines that are passed meanwhile."""

    files = {str(module_of(name).__file__): name for name in (*MODULES, *FRONTEND)}

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        name = files.get(frame.f_code.co_filename)
        if name is None:
            return None
        passed.add((name, frame.f_lineno))

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            passed.add((name, frame.f_lineno))
            return line

        return line

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


def passes(passed: Lines, m: Mutant) -> bool:
    """Whether a test passes a mutant's lines."""
    return any((m.module, n) in passed for n in range(m.line, m.last_line + 1))


@dataclass(frozen=True)
class Timed:
    """A test that passes without a mutant: processor seconds, and the prover's lines that it passes."""

    seconds: float
    item: pytest.Item
    passed: Lines


@dataclass
class Trial:
    """A mutant, its tests, how many of them have been tried, and how often it was looked at."""

    mutant: Mutant
    items: list[pytest.Item] | None = None
    done: int = 0
    turn: int = 0


class Plugin:
    """Runs the collected tests once as they are, then for every mutant in a child."""

    def __init__(
        self,
        chosen: list[Mutant],
        known: dict[str, dict[str, Any]],
        jobs: int,
        end: float,
        keep: Keep,
    ) -> None:
        self.chosen, self.known, self.jobs, self.end, self.keep = chosen, known, jobs, end, keep
        self.results: dict[str, dict[str, Any]] = {}
        self.tests: list[Timed] = []
        self.kills: Counter[tuple[str, str, str]] = Counter()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        start = time.monotonic()
        self.tests = surveyed(session.items, self.jobs)
        print(f"{len(self.tests)} tests in {time.monotonic() - start:.0f} s", flush=True)
        gc.collect()
        gc.freeze()
        todo = [Trial(m) for m in self.chosen]
        todo.sort(key=lambda t: KINDS.index(t.mutant.kind))
        later: list[Trial] = []
        under_way: dict[int, tuple[Trial, int]] = {}
        while todo or later or under_way:
            while (todo or later) and len(under_way) < self.jobs and time.monotonic() < self.end:
                trial = todo.pop(0) if todo else later.pop(0)
                trial.items = trial.items or self._tests_for(trial.mutant)
                pid, pipe = _start(trial, self.end)
                under_way[pid] = (trial, pipe)
            if not under_way:
                break
            pid, status = os.wait()
            trial, pipe = under_way.pop(pid)
            with os.fdopen(pipe, "rb") as file:
                by, _, done = file.read().decode().partition("\n")
            self._note(trial.mutant, by or ("hangs or dies" if status else ""))
            trial.done, trial.turn = int(done or 0), trial.turn + 1
            if not by and not status and trial.items and trial.done < len(trial.items):
                later += [trial] if trial.turn < len(SECONDS) else []
        return True

    def _tests_for(self, m: Mutant) -> list[pytest.Item]:
        """Those that pass its lines, the likeliest to kill it first."""
        before = self.known.get(m.id, {}).get("killed_by")
        tests = [t for t in self.tests if passes(t.passed, m)]
        tests.sort(
            key=lambda t: (
                t.item.nodeid != before,
                t.seconds / (1 + self.kills[m.module, m.function, t.item.nodeid]),
            )
        )
        return [t.item for t in tests]

    def _note(self, m: Mutant, by: str) -> None:
        self.kills[m.module, m.function, by] += 1
        self.results[m.id] = {"kind": m.kind, "line": m.line, "killed_by": by}
        self.keep(self.results)
        print(f"{'killed  ' if by else 'SURVIVED'} {m.module}:{m.line} {m.id}", flush=True)


def surveyed(items: list[pytest.Item], jobs: int) -> list[Timed]:
    """The tests without a mutant, shared out among children; those that fail are left out."""
    out = []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / str(job) for job in range(jobs)]
        for job, path in enumerate(files):
            if os.fork() == 0:
                path.write_bytes(
                    pickle.dumps([(n, *_survey(items[n])) for n in range(job, len(items), jobs)])
                )
                os._exit(0)
        for _ in files:
            os.wait()
        for path in files:
            for n, seconds, passed in pickle.loads(path.read_bytes()):
                if seconds is None:
                    print(f"left out, as it fails without a mutant: {items[n].nodeid}", flush=True)
                else:
                    out.append(Timed(seconds, items[n], passed))
    return sorted(out, key=lambda t: t.seconds)


def _survey(item: pytest.Item) -> tuple[float | None, Lines]:
    """Processor seconds of a test, None if it fails, and the prover's lines that it passes."""
    forget()
    passed: Lines = set()
    start = time.process_time()
    with watched(passed):
        reports = runtestprotocol(item, log=False, nextitem=None)
    return (None if any(r.failed for r in reports) else time.process_time() - start), passed


def _start(trial: Trial, end: float) -> tuple[int, int]:
    """A child that tries a mutant: its process, and a pipe from which the test that fails, and how many did
    not, can be read."""
    code = code_of(trial.mutant)
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    by, done = "", trial.done
    assert trial.items is not None
    try:
        signal.setitimer(signal.ITIMER_PROF, HANGS)  # the machine may have other things to do
        most = time.process_time() + SECONDS[trial.turn]
        apply(trial.mutant, code)
        forget()
        for item in trial.items[trial.done :]:
            if time.process_time() > most or time.monotonic() > end + LAST:
                break
            if any(r.failed for r in runtestprotocol(item, log=False, nextitem=None)):
                by = item.nodeid
                break
            done += 1
    except BaseException as e:
        by = f"error: {type(e).__name__}"
    os.write(write, f"{by}\n{done}".encode())
    os._exit(0)
