"""Moves are offered at once, and most of them are proved: in the record, and in a few drawn here."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import benchmarks
from benchmarks.legal_moves import KERNELS, Record, try_moves
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem

RESULT = Path(benchmarks.__path__[0]) / "results" / "legal-moves.json"
LEAST = 0.9


def test_the_record_says_so_of_every_kernel() -> None:
    record = json.loads(RESULT.read_text())
    assert len(record["kernels"]) > 20
    assert record["all"]["proved"] >= LEAST and record["all"]["usable"] >= LEAST
    assert record["all"]["drawn"] == sum(one["drawn"] for one in record["primitives"].values()) > 2000


def test_the_record_says_that_no_list_took_long() -> None:
    """100 ms of processor time, after each prefix of each program, on a machine that does nothing else."""
    times = json.loads(RESULT.read_text())["times"]
    assert times["milliseconds"]["under_100"] == 1.0
    assert times["moves_listed"]["times"] > 1000


def test_few_drawn_here_are_refused() -> None:
    record, rng = Record(), Random(7)
    for name, text in (
        ("vecadd", "split(i, 256)\n"),
        ("softmax", "split(row, 8)\ndistribute(row.i)\n"),
        ("transpose", "tile([i, j], [32, 32])\nbind(i.o, grid.y)\nbind(j.o, grid.x)\n"),
        ("row_sum", "bind(r, grid.x)\nsplit(c, 32)\nwarp_reduce(c.i)\n"),
    ):
        path = KERNELS / f"{name}.cu"
        problem = open_problem(ProblemRequest(str(path), path.read_text(), device="sim:h200-sxm"))
        try_moves(problem, text, 1, rng, record)
    found = record.to_json()["all"]
    assert isinstance(found, dict)
    assert found["drawn"] > 25 and found["proved"] >= LEAST, found
