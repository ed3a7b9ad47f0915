"""Forked worker processes that talk through a pipe and end with their parent."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

_PR_SET_PDEATHSIG = 1
_FORK = multiprocessing.get_context("fork")

Handle = Callable[[Connection, Any], None]
"""Answers one message on the pipe."""


@dataclass
class Forked:
    """`jobs`: what is in its hands, by number; `at`: the one it is busy with, which pays if it breaks off."""

    process: BaseProcess
    pipe: Connection
    jobs: dict[int, Any] = field(default_factory=dict)
    at: int | None = None

    def end(self, *, kill: bool) -> None:
        """Closes the pipe, which ends an idle worker; kills a busy one if told to, or if it does not end."""
        self.pipe.close()
        if kill:
            self.process.kill()
        self.process.join(timeout=5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def bury(self) -> str:
        """Ends a worker that broke off; how it died, in words."""
        self.pipe.close()
        self.process.join(timeout=5)
        code = self.process.exitcode or 0
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def fork(handle: Handle, others: Iterable[Forked], ended: Callable[[], None] = lambda: None) -> Forked:
    """Starts a worker that handles messages until its pipe is closed, then calls `ended`.

    `others` are the workers so far: it must not hold their pipes open.
    """
    ours, theirs = _FORK.Pipe()
    inherited = [worker.pipe for worker in others] + [ours]
    process = _FORK.Process(target=_serve, args=(handle, ended, theirs, inherited, os.getpid()), daemon=False)
    process.start()
    theirs.close()
    return Forked(process, ours)


def _serve(
    handle: Handle, ended: Callable[[], None], pipe: Connection, inherited: list[Connection], parent: int
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(Exception):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for other in inherited:
        other.close()
    os.dup2(2, 1)  # nothing a library prints may reach the one JSON document on standard output
    with suppress(EOFError, OSError):
        while os.getppid() == parent:
            handle(pipe, pipe.recv())
    ended()
    os._exit(0)
