"""The parent's side: one worker, killed when it hangs, replaced after a sticky error."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from evolve.devices.cuda.messages import (
    Ask,
    Execute,
    Executed,
    GpuInfo,
    Measure,
    Measured,
    Request,
    SetArrays,
)
from evolve.devices.cuda.worker import serve
from evolve.ir.errors import EvolveError


class CudaWorker:
    """A GPU, as long as somebody holds this object.

    Resident arrays are remembered here, so a replaced worker gets them again.
    Raises EvolveError `no-cuda` when PyCUDA or a device is missing.
    """

    def __init__(self, ordinal: int = 0, *, timeout_s: float = 60.0) -> None:
        self.ordinal = ordinal
        self.timeout_s = timeout_s
        self.replaced = 0
        self._sets: dict[str, SetArrays] = {}
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        _require_pycuda()
        self.info = self._start()

    def _start(self) -> GpuInfo:
        # spawn: a forked CUDA context is unusable, and the worker inherits no secrets by memory.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, self.ordinal), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe = ours
        info = self._send(Ask())
        if not isinstance(info, GpuInfo):
            raise EvolveError(
                "no-cuda",
                f"CUDA device {self.ordinal} cannot be used",
                hint="see `evolve doctor`; without a GPU use --device sim:h200-sxm",
            )
        for request in self._sets.values():
            self._send(request)
        return info

    def _send(self, request: Request) -> Any:
        """The answer, or None when the worker died or did not answer in time (it is then gone)."""
        assert self._pipe is not None
        try:
            self._pipe.send(request)
            if self._pipe.poll(self.timeout_s):
                return self._pipe.recv()
        except (EOFError, OSError):
            pass
        self._kill()
        return None

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None

    def _replace(self) -> None:
        self._kill()
        self.replaced += 1
        self._start()

    def set_arrays(self, request: SetArrays) -> None:
        """Makes a set resident now and in every replacement."""
        self._sets[request.key] = request
        self._send(request)

    def execute(self, request: Execute) -> Executed:
        """Runs a candidate. A hang or a crash is this candidate's error; the worker is replaced."""
        got = self._send(request)
        if got is None:
            got = Executed(error="the kernel hung or killed its worker", sticky=True)
        assert isinstance(got, Executed)
        if got.sticky:
            self._replace()
        return got

    def measure(self, request: Measure) -> Measured:
        """Times candidates. As `execute` for failures."""
        got = self._send(request)
        if got is None:
            got = Measured(error="the kernel hung or killed its worker", sticky=True)
        assert isinstance(got, Measured)
        if got.sticky:
            self._replace()
        return got

    def close(self) -> None:
        """Ends the worker in order; kills it if it does not."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._process is not None:
            self._process.join(timeout=10)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
            self._process = None


def _require_pycuda() -> None:
    from importlib.util import find_spec

    if find_spec("pycuda") is None:
        raise EvolveError(
            "no-cuda",
            "--device cuda needs PyCUDA, which is not installed",
            hint="pip install 'evolve[cuda]', or use --device sim:h200-sxm",
        )
