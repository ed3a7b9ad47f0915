"""Tasks that cannot tell right from wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evolve.scoring.references import Expected, References
from evolve.scoring.selftest import WRONG, too_loose
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem

KERNELS = Path(__file__).parents[2] / "kernels"


def run(want: np.ndarray, tolerance: float, **inputs: np.ndarray) -> Expected:
    like = np.zeros(want.shape, np.float32)
    return Expected({**inputs, "y": like}, {"y": want}, {"y": np.full(want.shape, tolerance)})


VALUES = np.random.default_rng(0).standard_normal(100)


def test_a_tight_task_tells_all_of_them() -> None:
    x = np.random.default_rng(1).standard_normal(100).astype(np.float32)
    assert too_loose([run(VALUES, 1e-5, x=x)], ["y"]) is None


def test_the_classic_softmax_under_an_absolute_tolerance() -> None:
    small = np.full(100, 4e-6) + 1e-8 * VALUES
    said = too_loose([run(small, 1e-2)], ["y"])
    assert said is not None and said.startswith("zeros")


@pytest.mark.parametrize(
    ("want", "tolerance", "starts"),
    [(5.0 + 1e-3 * VALUES, 1e-2, "a constant"), (VALUES, 1e-3 * np.abs(VALUES).max(), "a result of lower")],
)
def test_each_kind_by_itself(want: np.ndarray, tolerance: float, starts: str) -> None:
    said = too_loose([run(want, tolerance)], ["y"])
    assert said is not None and said.startswith(starts)


def test_a_copy_of_an_input() -> None:
    x = VALUES.astype(np.float32)
    said = too_loose([run(VALUES + 1e-4 * VALUES[::-1], 1e-3, x=x)], ["y"])
    assert said is not None and ("copy" in said or "lower" in said)


def test_one_family_that_tells_is_enough() -> None:
    loose, tight = run(np.full(100, 1e-6), 1e-2), run(VALUES, 1e-6)
    assert too_loose([loose], ["y"]) is not None and too_loose([loose, tight], ["y"]) is None


def test_what_equals_the_reference_is_right() -> None:
    """A kernel that copies, and one that writes zeros."""
    x = VALUES.astype(np.float32)
    assert too_loose([run(x.astype(np.float64), 0.0, x=x)], ["y"]) is None
    assert too_loose([run(np.zeros(100), 0.0)], ["y"]) is None


def test_one_number_is_its_own_mean() -> None:
    """Sums of everything, whose reference no float holds exactly."""
    sums = [run(VALUES[n : n + 1], 1e-6) for n in range(3)]
    assert too_loose(sums, ["y"]) is None
    zeros = [run(1e-9 * VALUES[n : n + 1], 1e-6) for n in range(3)]
    said = too_loose(zeros, ["y"])
    assert said is not None and said.startswith("zeros")


def test_lower_precision_is_asked_of_floats_only() -> None:
    e = Expected({"y": np.zeros(9, np.int32)}, {"y": np.arange(9.0)}, {"y": np.zeros(9)})
    assert list(WRONG["a result of lower precision"](e, "y")) == []
    assert too_loose([e], ["y"]) is None


@pytest.mark.parametrize(
    "name", ["softmax", "layernorm", "row_sum", "transpose", "saxpy", "total", "cumsum", "histogram"]
)
def test_the_examples_are_tight(name: str) -> None:
    path = KERNELS / f"{name}.cu"
    task = open_problem(ProblemRequest(str(path), path.read_text(), device="sim:h200-sxm")).task
    references = References(task)
    sizes = max(task.workload.check, key=task.workload.bytes_at)
    runs = [references.expected(sizes, f) for f in task.workload.families]
    assert too_loose(runs, task.outputs) is None
