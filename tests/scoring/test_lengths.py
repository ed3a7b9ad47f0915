"""Kernels with loops over data are executed where rows have several trips: damaged text is found."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from pathlib import Path

import pytest

from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered
from evolve.devices.sim.build import compile_host
from evolve.scoring.correctness import Checked, Correctness, Failure, original_plan, variant_plan
from evolve.scoring.references import References
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem
from evolve.workload.structure import structure

KERNELS = Path(__file__).parents[2] / "kernels"
BY_WARPS = """
split(row, 8)
bind(row.o, grid.x)
bind(row.i, thread.y)
split(k, 32)
reorder([k.i, k.o])
warp_reduce(k.i)
"""


@functools.cache
def problem() -> KernelProblem:
    path = KERNELS / "spmv.cu"
    return open_problem(ProblemRequest(str(path), path.read_text(), device="sim:h200-sxm"))


def rendered(program: str) -> Rendered:
    compiled = problem().compile(problem().parse(program))
    assert compiled.verdict == "PROVED", compiled.diagnostics
    return render(compiled.payload)


def check(r: Rendered) -> Failure | Checked:
    task = problem().task
    return Correctness(task, References(task)).check(r, compile_host(r.text, list(r.signatures)))


@pytest.mark.parametrize("program", [BY_WARPS, (KERNELS / "programs" / "spmv.dsl").read_text()])
def test_a_loop_over_data_that_ends_after_its_first_trip_is_found(program: str) -> None:
    good = rendered(program)
    assert isinstance(check(good), Checked)
    damaged_text, count = re.subn(r"\+\+(k_oo?)\)", r"\1 += 1000)", good.text)
    assert count >= 1
    damaged = replace(good, text=damaged_text)
    found = check(damaged)
    assert isinstance(found, Failure) and found.judged


def test_rows_are_longer_than_a_warp_and_a_block_and_some_are_empty() -> None:
    task = problem().task
    lengths = set()
    for sizes, _ in variant_plan(task, rendered(BY_WARPS)):
        pointers = structure(task.workload, sizes)["rowptr"]
        lengths |= set((pointers[1:] - pointers[:-1]).tolist())
    assert 0 in lengths and max(lengths) > 512 and any(32 < n < 256 for n in lengths)
    assert any(sizes["col_size"] > 32 * sizes["rows"] for sizes, _ in original_plan(task))


def test_a_histogram_whose_length_nothing_says_is_scored() -> None:
    """Its reference has to know the length, which is none of the kernel's parameters."""
    text = (
        "__global__ void count(const int *x, int *hist, int n) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i < n) atomicAdd(&hist[x[i]], 1);\n}\n"
    )
    opened = open_problem(ProblemRequest("count.cu", text, device="sim:h200-sxm"))
    compiled = opened.compile(opened.parse("split(i, 256)\nbind(i.o, grid.x)\nbind(i.i, thread.x)"))
    assert compiled.verdict == "PROVED", compiled.diagnostics
    good = render(compiled.payload)
    task = opened.task

    def judge(r: Rendered) -> Failure | Checked:
        return Correctness(task, References(task)).check(r, compile_host(r.text, list(r.signatures)))

    assert isinstance(judge(good), Checked)
    damaged = good.text.replace("atomicAdd(", "atomicSub(", 1)
    assert damaged != good.text
    found = judge(replace(good, text=damaged))
    assert isinstance(found, Failure) and found.judged
