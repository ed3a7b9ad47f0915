"""The numerics contract is kept, or the kernel is refused under it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evolve.ir.errors import EvolveError
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem

KERNELS = Path(__file__).parents[2] / "kernels"


def _request(name: str, numerics: str) -> ProblemRequest:
    path = KERNELS / f"{name}.cu"
    return ProblemRequest(str(path), path.read_text(), device="sim:h200-sxm", numerics=numerics)


@pytest.mark.parametrize("name", ["row_sum", "matmul", "softmax"])
def test_sums_have_no_exact_order(name: str) -> None:
    with pytest.raises(EvolveError) as caught:
        open_problem(_request(name, "exact"))
    assert caught.value.code == "exact-sum"
    assert caught.value.line is not None
    reordered = open_problem(_request("row_sum", "reassociate"))
    program = reordered.parse("split(c, 8)\nreorder([c.i, c.o])\n")
    assert reordered.compile(program).verdict == "PROVED"


@pytest.mark.parametrize("name", ["vecadd", "transpose", "stencil"])
def test_kernels_without_sums_may_be_exact(name: str) -> None:
    assert open_problem(_request(name, "exact")).info().numerics == "exact"
