"""PyTorch and our cubins on one context, timed in the same way.

All launches go to the default stream. Before each L2 is made cold and clean, and events stand around it
(`evolve.devices.cuda.timing`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from benchmarks.prepared_programs import Prepared, Program
from benchmarks.torch_work import Work
from evolve.workload.inputs import values

FLUSHES = 3
"""Flushes queued before a launch: torch.compile's host code takes longer than one."""
WARM_S, TIMED_S = 0.3, 2.0
LEAST_TURNS, MOST_TURNS = 21, 101
IN_A_ROW, IN_A_ROW_S = 8, 0.6
LIMIT_S = 20.0
MOSTLY_READS = 100

Call = Callable[[], object]


class Sampling(Protocol):
    """What `interleaved` needs of `evolve.devices.cuda.timing.Timer`."""

    def sample(self, calls: Sequence[Call], limit_s: float, flushes: int) -> Any:
        """Runs the calls after so many flushes; `us` of the result is how long they took."""
        ...


def interleaved(
    timer: Sampling,
    calls: Mapping[str, Call],
    warm_s: float = WARM_S,
    timed_s: float = TIMED_S,
    launches: int = 1,
) -> dict[str, list[float]]:
    """Microseconds by turn of each call: all of them once a turn, forth in even turns and back in odd ones.

    With several `launches` each is made so many times in a row, and the time is that of one of them.
    Caches and clock are warm first. At least LEAST_TURNS turns, then until `timed_s` or MOST_TURNS.
    """
    names = list(calls)
    samples: dict[str, list[float]] = {n: [] for n in names}

    def turn(number: int, keep: bool) -> None:
        for name in names if number % 2 == 0 else reversed(names):
            us = float(timer.sample([calls[name]] * launches, LIMIT_S, FLUSHES).us)
            if keep:
                samples[name].append(us / launches)

    for keep, least, most, seconds in ((False, 4, 10**6, warm_s), (True, LEAST_TURNS, MOST_TURNS, timed_s)):
        begin, number = time.monotonic(), 0
        while number < least or (number < most and time.monotonic() - begin < seconds):
            turn(number, keep)
            number += 1
    return samples


class Bench:
    """PyTorch and our cubins on the primary context. `close` before the process ends."""

    def __init__(self, ordinal: int) -> None:
        # One process compiles: workers that start beside the timing would disturb it.
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        import pycuda.driver as cuda
        import torch
        from cuda.bindings import driver

        from evolve.devices.cuda.messages import Ask
        from evolve.devices.cuda.worker import Worker

        self.torch = torch
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.cuda.set_device(ordinal)
        torch.cuda.init()
        cuda.init()
        device = cuda.Device(ordinal)
        self.context = device.retain_primary_context()
        self.context.push()
        self.worker = Worker(cuda, driver, device, Ask(1, 0xFFF88081), ordinal)
        self.timer = self.worker.timer
        self.device = torch.device("cuda", ordinal)
        self.bus = str(device.pci_bus_id())

    def close(self) -> None:
        self.context.pop()

    def about(self) -> dict[str, Any]:
        """Of GPU and software."""
        info = self.worker.info()
        return {
            "gpu": info.name,
            "driver_cuda": info.driver_version,
            "driver": driver_text(),
            "torch": self.torch.__version__,
            "torch_cuda": self.torch.version.cuda,
        }

    def tensors(self, prepared: Prepared) -> dict[str, Any]:
        """Normal values, seeded, and the workload's integers; outputs are NaN."""
        task, torch = prepared.problem.task, self.torch
        generator = torch.Generator(self.device).manual_seed(1)
        out = {}
        for a in task.workload.arrays:
            if not a.dtype.is_float:
                drawn = values(a, prepared.sizes, "normal", 1)
                out[a.name] = torch.from_numpy(drawn.copy()).to(self.device)
                continue
            shape = a.shape(prepared.sizes)
            fresh = torch.randn(shape, generator=generator, device=self.device, dtype=torch.float32)
            only_out = a.name in task.outputs and a.name not in task.inouts
            out[a.name] = torch.full_like(fresh, float("nan")) if only_out else fresh
        return out

    def ours(self, program: Program, tensors: Mapping[str, Any]) -> Call:
        """A launch of the program on those arrays."""
        calls = self.worker.images.calls(
            program.built.cubin, program.launches, lambda name: tensors[name].data_ptr()
        )

        def launch() -> None:
            for call in calls:
                call()

        return launch

    def time(self, calls: Mapping[str, Call]) -> dict[str, list[float]]:
        """As `interleaved`, while nobody else measures on the GPU."""
        from evolve.devices.cuda.lock import exclusive

        with exclusive(self.bus):
            return interleaved(self.timer, calls)

    def time_in_a_row(self, calls: Mapping[str, Call]) -> dict[str, list[float]]:
        """IN_A_ROW launches at a time: what one leaves in L2 to be written back, the next one waits for."""
        from evolve.devices.cuda.lock import exclusive

        with exclusive(self.bus):
            return interleaved(self.timer, calls, timed_s=IN_A_ROW_S, launches=IN_A_ROW)


def driver_text() -> str | None:
    """The kernel driver's version, where it says so."""
    try:
        first = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except OSError:
        return None
    return next((word for word in first.split() if word[:1].isdigit() and "." in word), None)


def read_arguments(prepared: Prepared) -> list[str]:
    """The arrays that the function takes: all that the kernel reads."""
    task = prepared.problem.task
    written = set(task.outputs) - set(task.inouts)
    return [a.name for a in task.workload.arrays if a.name not in written]


def difference(torch: Any, got: Any, want: Any) -> float:
    """The greatest difference over the root mean square of `want`, in float64; NaN counts as infinite."""
    want = want.double()
    off = (got.double() - want).abs().max() / want.square().mean().sqrt()
    return float("inf") if bool(torch.isnan(off)) else float(off)


def compare(bench: Bench, prepared: Prepared, work: Work, functions: Mapping[str, Any]) -> dict[str, float]:
    """How far each result is from PyTorch's in float64: `functions` and the programs."""
    torch, task = bench.torch, prepared.problem.task
    (output,) = task.outputs
    names = read_arguments(prepared)
    fresh = bench.tensors(prepared)
    want = work.compiled(*(t.double() if t.is_floating_point() else t for t in (fresh[n] for n in names)))
    out = {}
    for name, function in functions.items():
        out[name] = difference(torch, function(*(fresh[n].clone() for n in names)), want)
    for program in prepared.programs:
        tensors = {n: t.clone() for n, t in fresh.items()}
        bench.ours(program, tensors)()
        torch.cuda.synchronize()
        got = tensors[output]
        out[program.name] = difference(torch, got[1:-1, 1:-1] if work.interior else got, want)
    return out


def contestants(
    bench: Bench, prepared: Prepared, functions: Mapping[str, Any]
) -> tuple[dict[str, Call], dict[str, int]]:
    """What is timed: the programs, `functions`, the yardsticks; and the bytes that each yardstick moves."""
    torch = bench.torch
    tensors = bench.tensors(prepared)
    given = [tensors[n] for n in read_arguments(prepared)]
    calls: dict[str, Call] = {p.name: bench.ours(p, tensors) for p in prepared.programs}
    calls |= {name: partial(function, *given) for name, function in functions.items()}
    read, written = prepared.moved

    def buffer(count: int) -> Any:
        return torch.ones(count, device=bench.device)

    floats = (read + written) // 8
    source, target = buffer(floats), buffer(floats)
    calls["copy"] = lambda: target.copy_(source)
    sizes = {"copy": 8 * floats}
    if 1.9 < read / written < 2.1:
        third = (read + written) // 12
        a, b, c = buffer(third), buffer(third), buffer(third)
        calls["mix"] = lambda: torch.add(a, b, out=c)
        sizes["mix"] = 12 * third
    if read > MOSTLY_READS * written:
        flat = buffer(read // 16 * 4)
        gpu, sink = bench.worker.gpu, bench.timer.sink
        calls["torch_sum"] = lambda: flat.sum()
        calls["read"] = lambda: gpu.call(
            "ev_read", "PQPI", flat.data_ptr(), flat.numel() // 4, int(sink), gpu.word
        )
        sizes |= {name: 4 * flat.numel() for name in ("torch_sum", "read")}
    return calls, sizes
