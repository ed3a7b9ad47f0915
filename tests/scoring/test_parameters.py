"""A variant that is right at the timed value of a flag only is found wrong, however it came to be."""

from __future__ import annotations

import pytest

from evolve.codegen.module import render
from evolve.compiler.compile import compile_program
from evolve.devices.sim.build import compile_host
from evolve.scoring.correctness import Correctness, Failure
from evolve.scoring.held_out import draw
from evolve.scoring.references import References
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem

KERNEL = """
/* evolve
[[timed]]
n = 1048576
mode = 0
alpha = 2.0
*/
__global__ void k(const float *x, const float *z, float *y, int n, int mode, float alpha) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i] * alpha;
    if (mode == 2) v += z[i];
    y[i] = v;
}
"""
PROGRAM = "split(i, 256)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n"


@pytest.fixture(scope="module")
def problem() -> KernelProblem:
    return open_problem(ProblemRequest("k.cu", KERNEL, device="sim:h200-sxm"))


@pytest.mark.parametrize(
    ("program", "right", "wrong"),
    [
        (PROGRAM, "mode == 2", "false"),
        (PROGRAM, "* alpha", "* 2.0f"),
        ("assume(mode != 2)\n" + PROGRAM, "* alpha", "* 2.0f"),
    ],
    ids=["flag", "factor", "factor of a variant"],
)
def test_what_is_right_at_the_timed_values_only_is_incorrect(
    problem: KernelProblem, program: str, right: str, wrong: str
) -> None:
    task = problem.task
    done = compile_program(task.source, problem.parse(program), problem.limits)
    assert done.module is not None
    rendered = render(done.module)
    name = rendered.variants[0].launches[0].kernel
    before, kernel = rendered.text.split(f"{name}(")
    damaged = f"{before}{name}({kernel.replace(right, wrong)}"
    assert damaged != rendered.text
    judge = Correctness(task, References(task))
    signatures = list(rendered.signatures)
    assert not isinstance(judge.check(rendered, compile_host(rendered.text, signatures)), Failure)
    found = judge.check(rendered, compile_host(damaged, signatures))
    assert isinstance(found, Failure) and found.judged and "off by" in found.message


def test_sizes_held_out_have_other_values_too(problem: KernelProblem) -> None:
    found = draw(problem.task, [], 7, 12)
    assert {s["mode"] for s in found} > {0, 2} and {s["alpha"] for s in found} == {1.0, 2.0}


def test_what_the_timed_flag_leaves_out_is_not_in_the_bound(problem: KernelProblem) -> None:
    task = problem.task
    (limit,), n = task.bounds, task.workload.timed[0]["n"]
    assert (limit.bytes_read, limit.bytes_written) == (4 * n, 4 * n)
