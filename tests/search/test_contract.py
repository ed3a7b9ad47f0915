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


def test_sums_that_threads_make_together_have_no_exact_order() -> None:
    with pytest.raises(EvolveError) as caught:
        open_problem(_request("total", "exact"))
    assert caught.value.code == "exact-sum"
    assert caught.value.line is not None


def test_a_sum_keeps_its_order_under_exact_and_another_is_refused() -> None:
    """Executed under checks beside the kernel itself: the same bits."""
    text = (KERNELS / "programs" / "conv1d.dsl").read_text()
    exact = open_problem(_request("conv1d", "exact"))
    compiled = exact.compile(exact.parse(text))
    assert compiled.verdict == "PROVED" and exact.score(compiled).status == "scored"
    assert "__fmul_rn(" in exact.render(compiled)
    mapped = "bind(b, grid.y)\nsplit(t, 64)\nbind(t.o, grid.x)\nbind(t.i, thread.x)\n"
    other = exact.parse(f"{mapped}split(k, 3)\nreorder([k.i, k.o])\n")
    assert [d["code"] for d in exact.compile(other).diagnostics] == ["E-ORDER"]
    # What only the contract refuses is found by execution too.
    loose = open_problem(_request("conv1d", "reassociate"))
    reordered = loose.compile(other)
    assert reordered.verdict == "PROVED" and loose.score(reordered).status == "scored"
    said = exact.score(reordered)
    assert said.status == "incorrect" and "bit for bit" in said.message


@pytest.mark.parametrize("name", ["vecadd", "transpose", "stencil"])
def test_kernels_without_sums_may_be_exact(name: str) -> None:
    assert open_problem(_request(name, "exact")).info().numerics == "exact"
