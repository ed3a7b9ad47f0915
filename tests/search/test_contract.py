"""The numerics contract is kept, or the kernel is refused under it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evolve.ir.errors import EvolveError
from evolve.scoring.estimated import EstimatedScorer, Executed
from evolve.scoring.task import Outcome
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem

KERNELS = Path(__file__).parents[2] / "kernels"


def _request(name: str, numerics: str) -> ProblemRequest:
    path = KERNELS / f"{name}.cu"
    return ProblemRequest(str(path), path.read_text(), device="sim:h200-sxm", numerics=numerics)


def test_sums_that_threads_make_together_have_no_exact_order() -> None:
    with pytest.raises(EvolveError) as caught:
        open_problem(_request("total", "exact"))
    assert caught.value.code == "exact-sum"
    assert caught.value.line is not None


def test_a_sum_keeps_its_order_under_exact_and_another_is_refused() -> None:
    """Executed under checks beside the kernel itself: the same bits."""
    text = (KERNELS / "programs" / "alternatives" / "row_sum-exact.dsl").read_text()
    exact = open_problem(_request("row_sum", "exact"))
    compiled = exact.compile(exact.parse(text))
    assert compiled.verdict == "PROVED"
    few = replace(exact.task, workload=replace(exact.task.workload, families=("normal",)))
    scorer = EstimatedScorer(few)
    assert isinstance(scorer.begin(compiled.payload), Executed)
    mapped = "split(r, 64)\nbind(r.o, grid.x)\nbind(r.i, thread.x)\n"
    other = exact.parse(f"{mapped}split(c, 3)\nreorder([c.i, c.o])\n")
    assert [d["code"] for d in exact.compile(other).diagnostics] == ["E-ORDER"]
    # What only the contract refuses is found by execution too.
    reordered = open_problem(_request("row_sum", "reassociate")).compile(other)
    assert reordered.verdict == "PROVED"
    said = scorer.begin(reordered.payload)
    assert isinstance(said, Outcome)
    assert said.status == "incorrect" and "bit for bit" in said.message


@pytest.mark.parametrize("name", ["vecadd", "transpose", "stencil"])
def test_kernels_without_sums_may_be_exact(name: str) -> None:
    assert open_problem(_request(name, "exact")).info().numerics == "exact"
