"""The time model against programs that were drawn before they were timed on an H200.

`benchmarks/validation/h200.jsonl.xz` has 150 legal programs of each of ten kernels; every tenth is evaluated
here, all of them by `python benchmarks/validation/evaluate.py benchmarks/validation/h200.jsonl.xz`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import median

import pytest

from benchmarks.validation.evaluate import Row, evaluate, figures, ranks, read, regret, spearman, summary

RECORDS = Path(__file__).parents[2] / "benchmarks" / "validation" / "h200.jsonl.xz"
EVERY = 10


@cache
def rows() -> tuple[Row, ...]:
    _, records = read(RECORDS)
    return tuple(evaluate(records[::EVERY]))


def test_programs_rank_as_measured() -> None:
    found = summary(rows())
    assert len(found["kernels"]) == 10
    assert found["median_spearman"] > 0.93
    assert found["least_spearman"] > 0.6


def test_the_best_is_among_the_favourites() -> None:
    assert summary(rows())["median_regret"] < 0.05


def test_times_are_close() -> None:
    errors = [abs(r.estimated / r.measured - 1) for r in rows()]
    assert median(errors) < 0.10
    assert sum(e < 0.25 for e in errors) > 0.7 * len(errors)


def test_neighbours_within_the_noise_are_ties() -> None:
    assert ranks([3.0, 1.0, 2.0]) == [3, 1, 2]
    assert ranks([1.0, 1.005, 2.0], noise=0.01) == [1.5, 1.5, 3]
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert spearman([1, 2, 3, 4], [40, 30, 20, 10]) == pytest.approx(-1)


def test_regret_is_what_the_favourites_miss() -> None:
    times = [(1.0, 9.0), (1.2, 1.0), (1.5, 2.0), (1.6, 3.0), (1.7, 4.0), (3.0, 5.0)]
    made = [Row("k", "walk", "", measured, (), estimated) for measured, estimated in times]
    assert regret(made) == pytest.approx(0.2)
    assert figures(made)["programs"] == 6
