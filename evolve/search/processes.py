"""Forked worker processes that talk through a pipe and end with their parent."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_FORK = multiprocessing.get_context("fork")

BUILDER_BYTES = 16 << 30
"""Headroom of a process that analyses and compiles, many times what it takes for any kernel of kernels/."""

Handle = Callable[[Connection, Any], None]
"""Answers one message on the pipe."""


@dataclass
class Forked:
    """`jobs`: what is in its hands, by number; `at`: the one it is busy with, which pays if it breaks off.

    `late`: it was killed because that took too long.
    """

    process: BaseProcess
    pipe: Connection
    jobs: dict[int, Any] = field(default_factory=dict)
    late: bool = False
    _at: int | None = None
    _since: float = 0.0

    @property
    def at(self) -> int | None:
        return self._at

    @at.setter
    def at(self, job: int | None) -> None:
        self._at, self._since = job, time.monotonic()

    def give_up(self, limit_s: float) -> None:
        """Kills it if it has been busy with one job for longer, which its pipe then tells.

        Nothing else ends a call into a library, such as a compiler that does not come back.
        """
        if self.jobs and not self.late and time.monotonic() - self._since > limit_s:
            self.late = True
            self.process.kill()

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


def fork(
    handle: Handle,
    others: Iterable[Forked],
    ended: Callable[[], None] = lambda: None,
    *,
    headroom: int | None = None,
) -> Forked:
    """Starts a worker that handles messages until its pipe is closed, then calls `ended`.

    `others` are the workers so far: it must not hold their pipes open. `headroom`: bytes of address
    space that it may take beside what is mapped here; a process that uses CUDA reserves far more than it
    ever touches.
    """
    ours, theirs = _FORK.Pipe()
    inherited = [worker.pipe for worker in others] + [ours]
    process = _FORK.Process(
        target=_serve, args=(handle, ended, theirs, inherited, os.getpid(), headroom), daemon=False
    )
    process.start()
    theirs.close()
    return Forked(process, ours)


def _serve(
    handle: Handle,
    ended: Callable[[], None],
    pipe: Connection,
    inherited: list[Connection],
    parent: int,
    headroom: int | None,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(Exception):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for other in inherited:
        other.close()
    if headroom is not None:
        _limit(headroom)
    os.dup2(2, 1)  # nothing a library prints may reach the one JSON document on standard output
    with suppress(EOFError, OSError):
        while os.getppid() == parent:
            handle(pipe, pipe.recv())
    ended()
    os._exit(0)


def _limit(headroom: int) -> None:
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = mapped + headroom
    resource.setrlimit(
        resource.RLIMIT_AS, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most)
    )
