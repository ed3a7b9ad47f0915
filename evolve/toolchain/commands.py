"""Runs another program: without a shell, within a time limit, its children included."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST_KEPT = 4 << 20
"""Bytes of output that are kept; what comes after is read and dropped."""


@dataclass(frozen=True)
class Finished:
    """A program that ended by itself. `stdout` is all that it wrote, standard error included."""

    returncode: int
    stdout: str


def run_command(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    limit_s: float,
    cwd: Path | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    """Runs `command` with nothing on standard input and exactly the variables `env`.

    `on_line` gets each line as it comes. The program leads a process group of its own, which is killed when
    it has not ended after `limit_s` seconds or when anything is raised meanwhile, such as by Ctrl-C. Raises
    subprocess.TimeoutExpired, and OSError when the program cannot be started.
    """
    process = subprocess.Popen(
        list(command),
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        _kill_group(process)

    timer = threading.Timer(limit_s, expire)
    timer.daemon = True
    timer.start()
    kept: list[bytes] = []
    size = 0
    try:
        assert process.stdout is not None
        with process.stdout as stream:
            # A line without an end would be read whole: bounded reads, put together by readline's rules.
            while line := stream.readline(1 << 16):
                if size < MOST_KEPT:
                    kept.append(line)
                    size += len(line)
                if on_line is not None:
                    on_line(line.decode(errors="replace").rstrip("\n"))
        process.wait()
    except BaseException:
        _kill_group(process)
        process.wait()
        raise
    finally:
        timer.cancel()
    if expired.is_set():
        raise subprocess.TimeoutExpired(list(command), limit_s)
    return Finished(process.returncode, b"".join(kept).decode(errors="replace"))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # Its number is its leader's; nobody else gets that number while the leader has not been waited for.
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
