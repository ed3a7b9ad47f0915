"""A worker process on a fake GPU: `python -P fake_worker.py FD ORDINAL`."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection

from evolve.devices.cuda import timing
from evolve.devices.cuda.worker import serve
from tests.devices.cuda.fake_cuda import FakeCuda, Launch, hang, memory, stray, twice


def die(x: Launch) -> None:
    """Ends the worker, every time."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(x: Launch) -> None:
    """Ends the first worker that runs it, as somebody from outside may, and is honest in the next."""
    mark = os.path.join(os.environ["TMPDIR"], "died")
    if not os.path.exists(mark):
        open(mark, "w").close()
        die(x)
    twice(x)


def reserve(x: Launch) -> None:
    """Leaves most of the memory reserved, as a launch with much local memory does."""
    x.gpu.used = x.gpu.memory - (1 << 20)


def environment(x: Launch) -> None:
    """Writes the names of the variables that this process has."""
    text = "\n".join(sorted(os.environ)).encode()[:4000]
    x.view(x.args[1], 1000)[:] = 0.0
    x.view(x.args[1], len(text), "u1")[:] = list(text)


if __name__ == "__main__":
    timing.LEAST_WRITE_BYTES, timing.WARM_S = 1 << 16, 0.0
    kernels = [twice, stray, memory, hang, die, die_once, environment, reserve]
    gpu = FakeCuda({k.__name__: k for k in kernels}, memory=1 << 25)
    gpu.costs_us = {"twice": 100.0}
    serve(Connection(int(sys.argv[1])), gpu, gpu.driver, int(sys.argv[2]))
