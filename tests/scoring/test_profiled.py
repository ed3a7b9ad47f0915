"""Counters for champions: inputs once, and what cannot work once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.module import render
from evolve.devices.cuda.alone import Run
from evolve.devices.cuda.profiler import Unavailable
from evolve.scoring import profiled
from evolve.scoring.built import Built
from evolve.scoring.profiled import Profiling, headline
from evolve.sol.breakdown import Breakdown
from evolve.sol.counters import MEMORY, Counters
from tests.scoring.measured_task import task

MODEL = Breakdown(1e-3, "measured", {}, {}, {"coalescing": 0.5})


def built() -> Built:
    return Built(render(task().original), b"\x7fELF")


def test_the_champion_runs_at_the_timed_size(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Run] = []

    def counters(cubin: bytes, run: Run, ordinal: int) -> Counters:
        runs.append(run)
        return Counters(0.2, 0.9)

    monkeypatch.setattr(profiled, "profile", counters)
    of = Profiling(task(), 7)
    got = [of.counted(built(), MODEL) for _ in range(2)]
    assert all(g.facts == {"coalescing": 0.5, MEMORY: 0.9, "compute_throughput": 0.2} for g in got)
    assert of.unavailable is None
    first, second = (r.arrays for r in runs)
    assert first == second and first["c"] == 4 * 100_000  # nothing is written to outputs
    a = first["a"]
    assert isinstance(a, Path) and np.load(a).shape == (100_000,)
    of.close()
    assert not a.exists()


def test_the_headline_is_nvidia_s(monkeypatch: pytest.MonkeyPatch) -> None:
    got: Counters | Unavailable = Counters(0.2, 0.9, waves=4.0)
    monkeypatch.setattr(profiled, "profile", lambda cubin, run, ordinal: got)
    found = headline(task(), built(), 7)
    assert found == {
        "state": "counted",
        "limiter": "memory",
        "near_limit": True,
        "memory": 0.9,
        "compute": 0.2,
        "facts": {MEMORY: 0.9, "compute_throughput": 0.2, "waves": 4.0},
    }
    got = Counters(0.2, 0.5, waves=0.5)
    assert headline(task(), built(), 7)["limiter"] == "small grid"
    got = Unavailable("not permitted", "this user may not")
    assert headline(task(), built(), 7) == {"state": "not permitted", "message": "this user may not"}


@pytest.mark.parametrize(("kind", "tries"), [("not permitted", 1), ("not installed", 1), ("failed", 2)])
def test_where_nothing_is_counted_the_model_s_stays(
    kind: str, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    def none(cubin: bytes, run: Run, ordinal: int) -> Unavailable:
        nonlocal asked
        asked += 1
        return Unavailable(kind, "why")  # type: ignore[arg-type]

    monkeypatch.setattr(profiled, "profile", none)
    of = Profiling(task(), 7)
    assert [of.counted(built(), MODEL) for _ in range(2)] == [MODEL, MODEL]
    assert asked == tries and of.unavailable is not None and of.unavailable.message == "why"
    of.close()
