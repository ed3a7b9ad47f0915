"""A kernel is lifted with the launch that its workload says, and who should say one is told how."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from evolve.frontend.refuse import CannotLiftError
from evolve.ir.errors import EvolveError
from evolve.ir.printer import print_expr
from evolve.search.lifting import lifted_as_said
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from tests.frontend.differential import assert_same

HEAD = "__global__ void k(const float *x, float *y, int n)"
STRIDED = (
    HEAD + "{ int r = blockIdx.x; for (int c = threadIdx.x; c < n; c += blockDim.x) y[r*n+c] = x[r*n+c]; }"
)
WHOLE = HEAD + "{ int p = blockIdx.x * blockDim.x + threadIdx.x; y[p] = x[p]; }"
GUARDED = HEAD + "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }"
LAUNCH = '[launch]\ngrid = ["(n + 255) / 256"]\nblock = [256]\n'
COMMENT = f"/* evolve\n{LAUNCH}*/\n"


def request(text: str, workload: str | None = None) -> ProblemRequest:
    return ProblemRequest("k.cu", text, workload_text=workload, workload_file="w.toml")


@pytest.mark.parametrize("kernel", [STRIDED, WHOLE])
@pytest.mark.parametrize("where", ["file", "comment"])
def test_the_launch_of_a_workload_is_the_one_to_lift_with(kernel: str, where: str) -> None:
    asked = request(kernel, LAUNCH) if where == "file" else request(COMMENT + kernel)
    lifted, workload = lifted_as_said(asked)
    assert lifted.launch is not None and lifted.launch.name == "the workload's launch"
    grids = [print_expr(g[0]) for g in (lifted.launch.grid, workload.launch.grid)]
    assert grids == ["(n + 255) // 256"] * 2


TILED = HEAD + (
    "{ int first = blockIdx.x * blockDim.x * 4 + threadIdx.x;"
    "  for (int j = 0; j < 4; j++) { int p = first + j * blockDim.x; if (p < n) y[p] = x[p] + p; } }"
)
ROWS = (
    "__global__ void k(const float *x, float *y, int rows, int cols)"
    "{ int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;"
    "  for (int j = 0; j < 32; j += blockDim.y)"
    "    if (c < cols && r + j < rows) y[(r + j) * cols + c] = 2.0f * x[(r + j) * cols + c]; }"
)
SEVERAL = {
    TILED: ('[launch]\ngrid = ["(n + 1023) / 1024"]\nblock = [256]\n', ["n"]),
    ROWS: (
        '[launch]\ngrid = ["(cols + 31) / 32", "(rows + 31) / 32"]\nblock = [32, 8]\n',
        ["rows", "cols"],
    ),
}


@pytest.mark.parametrize("kernel", SEVERAL)
def test_tiles_of_several_blocks_are_known_once_the_launch_is(kernel: str) -> None:
    launch, extents = SEVERAL[kernel]
    lifted, _ = lifted_as_said(request(kernel, launch))
    assert [[print_expr(e) for e in b.extents] for b in lifted.kernel.buffers] == [extents, extents]
    assert assert_same(lifted) > 2
    with pytest.raises(CannotLiftError) as caught:
        lifted_as_said(request(kernel))
    assert "[launch]" in (caught.value.hint or "")


@pytest.mark.parametrize("kernel", [STRIDED, WHOLE])
def test_without_one_the_refusal_says_how_to_say_it(kernel: str) -> None:
    with pytest.raises(CannotLiftError, match="no guard bounds") as caught:
        lifted_as_said(request(kernel))
    assert "[launch]" in (caught.value.hint or "") and "--workload" in (caught.value.hint or "")
    with pytest.raises(CannotLiftError) as caught:
        lifted_as_said(request(kernel, "timed = [{ n = 4096 }]\n"))
    assert "[launch]" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("launch", "fact"),
    [
        ('[launch]\ngrid = ["(n + 255) / 256"]\nblock = [256]\n', []),
        ('[launch]\ngrid = ["16"]\nblock = [256]\n', ["n <= 4096"]),
    ],
)
def test_the_grid_that_a_workload_says_is_the_one_to_lift_with(launch: str, fact: list[str]) -> None:
    lifted, _ = lifted_as_said(request(GUARDED, "[[timed]]\nn = 4096\n" + launch))
    assert [print_expr(f) for f in lifted.no_wrap] == fact


@pytest.mark.parametrize(
    "launch",
    [
        '[launch]\ngrid = ["(n + 255) / 256", "2"]\nblock = [256]\n',
        '[launch]\ngrid = ["(n + 255) / 256"]\nblock = [32, 8]\n',
    ],
)
def test_several_threads_that_do_the_same_are_refused_whoever_says_so(launch: str) -> None:
    with pytest.raises(CannotLiftError, match="all threads along y do the same, and the workload's launch"):
        lifted_as_said(request(GUARDED, launch))


def test_a_launch_does_not_help_with_everything() -> None:
    text = HEAD + "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = lgammaf(x[i]); }"
    with pytest.raises(EvolveError) as caught:
        lifted_as_said(request(text))
    assert "[launch]" not in (caught.value.hint or "")


def test_a_launch_that_does_not_fit_is_refused_as_before() -> None:
    with pytest.raises(EvolveError) as caught:
        lifted_as_said(request(WHOLE, '[launch]\ngrid = ["m"]\nblock = [256]\n'))
    assert caught.value.code == "unknown-scalar" and caught.value.message == "launch: m uses m"


def test_an_array_that_the_file_passes_twice_is_found_whoever_says_the_launch() -> None:
    text = WHOLE + "\nvoid f(float *a, int n, int blocks) { k<<<blocks * 2 + n, 256>>>(a, a, n); }"
    with pytest.raises(EvolveError, match="passes the array a twice"):
        lifted_as_said(request(text, LAUNCH))


def test_no_launch_is_asked_for_where_none_helps() -> None:
    """What a thread gathers over a grid-stride loop depends on who runs which step, however many do."""
    partial = HEAD + (
        "{ float s = 0.0f; int i = blockIdx.x * blockDim.x + threadIdx.x;"
        "  for (int j = i; j < n; j += gridDim.x * blockDim.x) s += x[j]; y[i] = s; }"
    )
    for workload in (None, LAUNCH):
        with pytest.raises(CannotLiftError, match="grid-stride") as caught:
            lifted_as_said(request(partial, workload))
        assert "[launch]" not in (caught.value.hint or "")


VALID = (
    "__global__ void k(const float *x, float *y, int n, int taps)"
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n - taps + 1) y[i] = x[i + taps - 1]; }"
)


@pytest.mark.parametrize("kernel", [GUARDED, VALID])
def test_an_assumed_launch_comes_back_as_assumed(kernel: str) -> None:
    """The file that a run writes is the problem that it had; what is said in it is said."""
    first = open_problem(replace(request(kernel), device="sim:h200-sxm"))
    text = first.info().workload_toml
    again = open_problem(replace(request(kernel, text), device="sim:h200-sxm"))
    assert again.info().assumed_launch == first.info().assumed_launch != ""
    assert again.assumptions[1:] == first.assumptions[1:]
    assert again.info().workload_toml.splitlines()[1:] == text.splitlines()[1:]
    said = re.sub(r"^# (\[launch\]|grid|block)", r"\1", text, flags=re.MULTILINE)
    lifted, workload = lifted_as_said(request(kernel, said))
    assert lifted.launch is not None and workload.launch == first.task.workload.launch
    assert lifted.no_wrap == first.task.source.no_wrap


def test_a_launch_that_the_file_says_is_said_in_the_workload() -> None:
    launched = (
        VALID + " void f(float *x, float *y, int n, int t) { k<<<(n - t + 256) / 256, 256>>>(x, y, n, t); }"
    )
    problem = open_problem(replace(request(launched), device="sim:h200-sxm"))
    assert "\n[launch]\n" in problem.info().workload_toml
