"""A scorer of vecadd on a fake GPU, whose kernels are Python functions by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered, RenderedLaunch, RenderedVariant
from evolve.devices.cuda import timing
from evolve.devices.cuda.client import CudaWorker
from evolve.devices.cuda.worker import Worker
from evolve.ir.expr import TRUE
from evolve.scoring import audit, measured, small_sizes
from evolve.scoring.built import Built, build
from evolve.scoring.measured import MeasuredScorer
from evolve.scoring.references import References
from evolve.scoring.task import Task
from evolve.scoring.timed import secret_seed
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from tests.devices.cuda.fake_cuda import FakeCuda, FakeDevice, Kernel, Launch

KERNEL = Path(__file__).parents[2] / "kernels" / "vecadd.cu"
WORKLOAD = """
entry = "vecadd"
families = ["normal", "ones", "wide"]
[[timed]]
n = 100000
[[check]]
n = 1
[[check]]
n = 33
[[check]]
n = 4099
"""
SECRET = 7
FLOOR_US = 100.0
"""What the honest kernel takes here; far above the bound, which is 0.2 us."""


@functools.cache
def task() -> Task:
    request = ProblemRequest(
        str(KERNEL), KERNEL.read_text(), workload_text=WORKLOAD, device="sim:h200-sxm", numerics="exact"
    )
    return open_problem(request).task


@functools.cache
def references() -> References:
    """Those of every scorer here: they take most of the time of a test."""
    return References(replace(task(), seed=secret_seed(SECRET, "check")))


def vecadd(x: Launch) -> None:
    a, b, c, n = x.args
    x.view(c, n)[:] = x.view(a, n) + x.view(b, n)


class LocalWorker(CudaWorker):
    """Answers in this process."""

    gpu: FakeCuda

    def _start(self) -> Any:
        gpu = FakeCuda(dict(type(self).kernels), memory=1 << 30)  # type: ignore[attr-defined]
        gpu.costs_us = dict(type(self).costs)  # type: ignore[attr-defined]
        self.gpu = gpu
        self.local = Worker(gpu, gpu.driver, FakeDevice(gpu), self._ask)
        for request in self._sets.values():
            self._must(self.local.answer(request))
        return self.local.info()

    def _kill(self) -> None:
        pass

    def _send(self, request: Any, limit_s: float) -> Any:
        return self.local.answer(request)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., MeasuredScorer]:
    def scorer(costs: dict[str, float] | None = None, **kernels: Kernel) -> MeasuredScorer:
        given = render(task().original).original.kernel
        own = {
            "kernels": {given: vecadd, **kernels},
            "costs": {given: FLOOR_US, **dict.fromkeys(kernels, FLOOR_US / 2), **(costs or {})},
        }
        monkeypatch.setattr(measured, "CudaWorker", type("Local", (LocalWorker,), own))
        monkeypatch.setattr("evolve.devices.cuda.client._require_pycuda", lambda: None)
        monkeypatch.setattr(timing, "LEAST_WRITE_BYTES", 1 << 16)
        monkeypatch.setattr(timing, "WARM_S", 0.0)
        monkeypatch.setattr(small_sizes, "LIMIT_S", 0.5)
        # The host's clock runs while the fake's does not.
        monkeypatch.setattr(audit, "WALL_SLACK_US", 1e9)
        made = MeasuredScorer(task(), secret=SECRET)
        made.references = made.small.references = references()
        return made

    return scorer


def candidate(name: str, text: str = "") -> Rendered:
    """A module whose only variant is the kernel of that name."""
    honest = render(task().original)
    o = honest.original
    launch = RenderedLaunch(name, o.params, o.grid, o.block, o.shared_bytes)
    body = text or honest.text.replace(f"{o.kernel}(", f"{name}(")
    return Rendered(honest.text + body, (RenderedVariant(TRUE, (launch,)),), o, ())


def built(name: str, text: str = "") -> Built:
    """The same with its machine code."""
    return build(candidate(name, text), task().profile.arch)


__all__ = ["built", "candidate", "make", "task", "vecadd"]
