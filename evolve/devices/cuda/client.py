"""The parent's side: one worker, killed when it hangs, replaced after a sticky error."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any

from evolve.devices.cuda.environment import worker_command, worker_environment
from evolve.devices.cuda.messages import (
    Ask,
    Drop,
    Execute,
    Executed,
    Fault,
    GpuInfo,
    Measure,
    Measured,
    Refer,
    Request,
    SetArrays,
    SetExpected,
    Stored,
    View,
    Viewed,
)
from evolve.ir.errors import EvolveError

SLACK_S = 60.0
"""What a request may take beside its kernels: transfers, comparisons, the start of the worker."""


class CudaWorker:
    """A GPU, as long as somebody holds this object.

    What is resident is remembered here, so a replaced worker gets it again. A fault is an answer: it costs
    the candidate that caused it, and the worker is replaced when its context is gone. A worker that ended by
    itself is given the request once more, because somebody else may have ended it.

    Raises EvolveError `no-cuda` when PyCUDA or a device is missing or a worker cannot be started, and
    `gpu-memory` or `gpu-failed` when arrays do not fit on the device or do not reach it: these are about
    the machine.
    """

    def __init__(self, ordinal: int = 0, *, slack_s: float = SLACK_S) -> None:
        self.ordinal = ordinal
        self.slack_s = slack_s
        self.replaced = 0
        self._sets: dict[str, SetArrays | SetExpected | Refer] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        # Drawn for each run and handed to every worker of it, so digests and poison stay comparable.
        # The word is NaN as float and as double, no boolean in any byte, and an unlikely integer.
        secret = int.from_bytes(os.urandom(12), "little")
        self._ask = Ask(secret >> 32, 0xFFF88080 | (secret & 0x7F7F7F))
        _require_pycuda()
        self.info = self._start()

    @property
    def poison(self) -> int:
        """The 32-bit word that outputs are filled with before a launch."""
        return self._ask.poison

    @property
    def pid(self) -> int | None:
        """Of the worker's process, None when there is none."""
        return self._process.pid if self._process else None

    # ---- requests

    def set_arrays(self, request: SetArrays) -> None:
        """Makes a set resident now and in every replacement."""
        self._store(request.key, request)

    def set_expected(self, request: SetExpected) -> None:
        """Keeps bounds in the worker's host memory, now and in every replacement."""
        self._store(request.key, request)

    def drop(self, keys: Sequence[str]) -> None:
        """Forgets sets of either kind."""
        for key in keys:
            self._sets.pop(key, None)
        self._send(Drop(tuple(keys)), 0.0)  # a worker that has ended holds nothing, nor does the next

    def refer(self, request: Refer) -> None:
        """Runs a float64 reference; see Refer. What it keeps is there in every replacement too.

        Raises EvolveError as the class says.
        """
        if request.keep is None:
            self._must(self._request(request, request.limit_s))
        else:
            self._store(request.keep, request)

    def execute(self, request: Execute) -> Executed:
        """Runs a candidate. A hang or a crash is this candidate's fault; the worker is replaced."""
        got = self._request(request, request.limit_s)
        return got if isinstance(got, Executed) else Executed(fault=_fault_of(got))

    def measure(self, request: Measure) -> Measured:
        """Times candidates. As `execute` for faults."""
        # Every launch may take its limit, but then there are few of them.
        got = self._request(request, request.limit_s + 4 * request.budget_s)
        return got if isinstance(got, Measured) else Measured(fault=_fault_of(got))

    def view(self, request: View) -> Viewed:
        """How the driver describes kernels. As `execute` for faults."""
        got = self._request(request, 0.0)
        return got if isinstance(got, Viewed) else Viewed(fault=_fault_of(got))

    def close(self) -> None:
        """Ends the worker in order; kills it if it does not."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._process is not None:
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    # ---- the worker

    def _start(self) -> GpuInfo:
        # A new program and not a fork: a forked CUDA context is unusable, and it inherits no secrets.
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = subprocess.Popen(
                worker_command(theirs.fileno(), self.ordinal),
                env=worker_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        self._pipe = ours
        info = self._send(self._ask, 0.0)
        if not isinstance(info, GpuInfo):
            self._kill()
            why = f": {_fault_of(info).message}" if isinstance(info, Stored) else ""
            raise EvolveError(
                "no-cuda",
                f"CUDA device {self.ordinal} cannot be used{why}",
                hint="see `evolve doctor`; without a GPU use --device sim:h200-sxm",
            )
        for request in self._sets.values():
            got = self._send(request, request.limit_s if isinstance(request, Refer) else 0.0)
            if _fault_of(got, default=False).message:
                self._kill()
            self._must(got)
        return info

    def _send(self, request: Request, limit_s: float) -> Any:
        """The answer, or a Fault when the worker ended or did not answer in time (it is then gone)."""
        if self._pipe is None:
            return Fault("lost", "the GPU worker has ended", sticky=True)
        try:
            self._pipe.send(request)
            if self._pipe.poll(limit_s + self.slack_s):
                return self._pipe.recv()
            fault = Fault("timeout", "the GPU worker did not answer in time", sticky=True)
        except (EOFError, OSError):
            fault = Fault("lost", "the GPU worker ended", sticky=True)
        self._kill()
        return fault

    def _request(self, request: Execute | Measure | Refer | View, limit_s: float) -> Any:
        """The answer, the second time if the first says nothing about the kernel; replaces a spoilt worker.

        Memory that a kernel made the driver reserve is free again in a new context.
        """
        got = self._send(request, limit_s)
        first = _fault_of(got, default=False)
        if first.message and first.kind in ("lost", "arrays"):
            self._replace()
            got = self._send(request, limit_s)
        fault = _fault_of(got, default=False)
        if fault.sticky:
            self._replace()
        if fault.kind == "arrays":
            raise _no_room(fault)
        return got

    def _store(self, key: str, request: SetArrays | SetExpected | Refer) -> None:
        self._sets[key] = request
        got = self._send(request, request.limit_s if isinstance(request, Refer) else 0.0)
        fault = _fault_of(got, default=False)
        if not fault.message:
            return
        try:
            if fault.sticky or fault.kind in ("lost", "arrays", "memory"):
                self._replace()  # which stores it
            else:
                self._must(got)
        except EvolveError:
            del self._sets[key]
            raise

    def _must(self, got: Any) -> None:
        fault = _fault_of(got, default=False)
        if not fault.message:
            return
        if fault.kind in ("arrays", "memory"):
            raise _no_room(fault)
        raise EvolveError("gpu-failed", f"the GPU worker cannot prepare the arrays: {fault.message}")

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None

    def _replace(self) -> None:
        self._kill()
        self.replaced += 1
        self._start()


_NONE = Fault("lost", "")


def _no_room(fault: Fault) -> EvolveError:
    hint = "smaller sizes, or a GPU that nobody else uses"
    return EvolveError("gpu-memory", f"the GPU has no memory left: {fault.message}", hint=hint)


def _fault_of(got: Any, *, default: bool = True) -> Fault:
    """The fault in an answer; without one `_NONE`, or (`default`) that the answer makes no sense."""
    fault = got if isinstance(got, Fault) else getattr(got, "fault", None)
    if fault is None:
        return Fault("lost", "the GPU worker answered something else", sticky=True) if default else _NONE
    return fault


def _require_pycuda() -> None:
    if find_spec("pycuda") is None:
        raise EvolveError(
            "no-cuda",
            "--device cuda needs PyCUDA, which is not installed",
            hint="`evolve doctor --install-pycuda` builds it, or use --device sim:h200-sxm",
        )
