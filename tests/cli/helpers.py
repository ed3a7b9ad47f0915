"""Running commands on the fake problem."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from evolve.ir.errors import EvolveError
from evolve.search.problem import ProblemRequest
from tests.search.fake import FakeProblem


def fake_task(**fields: Any) -> ModuleType:
    """A stand-in for the module that opens problems; refuses texts without `__global__`."""

    def open_problem(request: ProblemRequest) -> FakeProblem:
        if "__global__" not in request.kernel_text:
            raise EvolveError("no-kernel", "the file has no kernel", file=request.kernel_file)
        return FakeProblem(**fields)

    module = ModuleType("evolve.search.task")
    module.__dict__["open_problem"] = open_problem
    return module


def run_main() -> None:
    """For subprocesses: `python -c '...' arguments`, on the fake problem, slowed down."""
    from evolve.cli.main import main

    sys.modules["evolve.search.task"] = fake_task(jitter_s=0.01)
    sys.exit(main())


def kernel_file(folder: Path) -> Path:
    path = folder / "fake.cu"
    path.write_text("__global__ void fake() {}\n")
    return path
