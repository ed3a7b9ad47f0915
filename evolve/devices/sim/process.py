"""Runs a job in a child process under limits, and waits for it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from evolve.devices.sim.build import HostProgram
from evolve.devices.sim.job import Job

_CHILD = Path(__file__).parent / "child.py"
_SLACK_BYTES = 768 << 20  # the interpreter, libraries, trace tables


@dataclass(frozen=True)
class Ended:
    """How the child ended: its exit status (negative: a signal) and why the parent killed it, if it did."""

    returncode: int
    killed: str | None
    stderr: str
    seconds: float


def run_job(program: HostProgram, job: Job, *, time_limit_s: float, memory_limit_bytes: int) -> Ended:
    """Run `job` to its end. The child has no environment, no stdin, and limits on time and memory."""
    launchers = [f"ev_launch_{name}" for name in program.entries]
    args = [
        sys.executable, "-I", "-S", str(_CHILD), str(program.path), str(job.fd), str(job.size),
        str(job.address_space() + _SLACK_BYTES + memory_limit_bytes), str(int(time_limit_s) + 2), *launchers,
    ]  # fmt: skip
    begin = time.monotonic()
    child = subprocess.Popen(
        args, env={}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        pass_fds=(job.fd,), cwd="/",
    )  # fmt: skip
    killed: str | None = None
    try:
        # The limit proper is CPU time, kept inside the child, so that a busy machine changes no verdict.
        killed = _wait(child, begin + 10 * time_limit_s + 60, memory_limit_bytes)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
    assert child.stderr is not None
    with child.stderr as pipe:
        os.set_blocking(pipe.fileno(), False)
        stderr = (pipe.read(4000) or b"").decode("utf-8", "replace")
    return Ended(child.returncode, killed, stderr, time.monotonic() - begin)


def _wait(child: subprocess.Popen[bytes], deadline: float, memory_limit: int) -> str | None:
    """None when the child ended by itself, else the limit it broke (`time` or `memory`)."""
    fd = _pidfd(child.pid)
    page = os.sysconf("SC_PAGE_SIZE")
    try:
        while True:
            if fd is not None:
                select.select([fd], [], [], 0.05)
            else:
                time.sleep(0.005)
            if child.poll() is not None:
                return None
            if time.monotonic() > deadline:
                return "time"
            try:
                with open(f"/proc/{child.pid}/statm", encoding="ascii") as f:
                    resident = int(f.read().split()[1]) * page
            except (OSError, IndexError):
                continue
            if resident > memory_limit:
                return "memory"
    finally:
        if fd is not None:
            os.close(fd)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None
