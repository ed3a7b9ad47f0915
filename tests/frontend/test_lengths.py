"""How long arrays are taken to be: what a guard of the address ends at is all that there is."""

from __future__ import annotations

import pytest

from evolve.codegen.module import render
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.expr import index, var
from evolve.ir.printer import print_expr, print_kernel
from evolve.ir.stmt import For
from evolve.ir.visit import walk
from evolve.legality.verdict import Limits
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem

TILES = """
__global__ void k(const float *x, float *y, int n) {
    int b = blockIdx.x, t = threadIdx.x;
    for (int j = 0; j < 4; j++) {
        int p = b * 1024 + j * 256 + t;
        %s y[p] = 2.0f * x[p];
    }
}
void run(const float *x, float *y, int n) { k<<<%s, 256>>>(x, y, n); }
"""
GUARDED = TILES % ("if (p < n)", "(n + 1023) / 1024")


def test_a_tile_that_a_guard_cuts_is_not_taken_to_be_whole() -> None:
    kernel = lift("k.cu", None, GUARDED).kernel
    assert [b.extents for b in kernel.buffers] == [(var("n"),)] * 2
    whole = lift("k.cu", None, TILES % ("", "n")).kernel
    assert [len(b.extents) for b in whole.buffers] == [3, 3]


@pytest.mark.parametrize(
    ("address", "bound", "extent"),
    [
        ("b * 4 + j", "n", "min(tiles * 4, n)"),
        ("b * 4 + j", "n - 5", "min(tiles * 4, max(n + -5, 0))"),
        ("b * n + j", "tiles * n", "tiles"),
        ("b * n + j", "m", "min(n * tiles, m)"),
    ],
)
def test_rows_that_a_guard_may_cut_are_not_taken_to_be_whole(address: str, bound: str, extent: str) -> None:
    text = f"""
    __global__ void k(const float *x, float *y, int tiles, int n, int m) {{
        int b = blockIdx.x * blockDim.x + threadIdx.x;
        if (b >= tiles) return;
        for (int j = 0; j < {4 if "4" in address else "n"}; j++)
            if ({address} < {bound}) y[{address}] = 2.0f * x[{address}];
    }}
    """
    kernel = lift("k.cu", None, text).kernel
    assert {print_expr(b.extents[0]) for b in kernel.buffers} == {extent}


def test_what_lies_behind_the_last_element_is_not_copied() -> None:
    found = lift("k.cu", None, GUARDED)
    program = parse("X = stage(x, at=b, scope=shared)\nbind(b, grid.x)\nbind(t, thread.x)\n")
    done = compile_program(Source(found.kernel, found.original, found.no_wrap), program, Limits())
    assert done.module is not None
    assert (
        "if (b * 1024 + X_0 < n) {\n                    X[X_0] = x[b * 1024 + X_0];"
        in render(done.module).text
    )


def test_the_block_is_the_one_that_is_launched() -> None:
    """`blockIdx.x * 1024 + threadIdx.x` need not mean blocks of 1024, whoever knows it: file or workload."""
    text = """
    __global__ void k(const float *x, float *y, int n) {
        int i = blockIdx.x * 1024 + threadIdx.x;
        for (int j = 0; j < 4; j++)
            if (i + j * 256 < n) y[i + j * 256] = 2.0f * x[i + j * 256];
    }
    """
    launched = text + "void run(const float *x, float *y, int n) { k<<<(n + 1023) / 1024, 256>>>(x, y, n); }"
    told = '/* evolve\n[launch]\ngrid = ["(n + 1023) // 1024"]\nblock = [256]\n*/' + text
    assert lift("k.cu", None, text).original.block[0] == index(256)
    for source, threads in ((launched, 256), (told, 256), (told.replace("[256]", "[512]"), 512)):
        task = open_problem(ProblemRequest("k.cu", source, device="sim:h200-sxm")).task
        loops = [s.stmt for s in walk(task.source.kernel.body) if isinstance(s.stmt, For)]
        assert task.source.original.block[0] == index(threads)
        assert [x.extent for x in loops[1:]] == [index(threads), index(4)]


def test_half_of_the_elements_are_what_a_launch_of_half_the_threads_does() -> None:
    text = """
    /* evolve
    timed = [{n = 4096}]
    families = ["normal"]
    */
    __global__ void k(float *y, int n) { int i = blockIdx.x * 128 + threadIdx.x; if (i < n) y[i] += 1.0f; }
    void go(float *y, int n) { k<<<(n + 127) / 128, 64>>>(y, n); }
    """
    problem = open_problem(ProblemRequest("k.cu", text, device="sim:h200-sxm"))
    assert "for col in 0..64:" in print_kernel(problem.task.source.kernel)
    score = problem.baseline()
    assert score.status == "scored", score.message


ROWS = """
__global__ void k(const float *w, const int *rowptr, const float *x, float *y, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        float s = 0.0f;
        for (int k = rowptr[r]; k < rowptr[r + 1]; ++k) s += x[k]%s;
        y[r] = s%s;
    }
}
"""


@pytest.mark.parametrize(
    ("inside", "after", "extent"),
    [
        ("", " + w[rowptr[0]]", "1"),
        ("", " + w[rowptr[0] + 3]", "4"),
        ("", " + w[rowptr[1]]", "w_size + 1"),
        ("", " + w[rowptr[rows]]", "w_size + 1"),
        ("", " + w[rowptr[r + 1]]", "w_size + 1"),
        (" * w[k - rowptr[r]]", "", "x_size"),
        (" * w[rowptr[r + 1] - 1 - k]", "", "w_size"),
        (" + w[k]", " + (rowptr[r] < rowptr[r + 1] ? w[rowptr[r]] : 0.0f)", "w_size"),
        ("", " + (rowptr[r + 1] == 5 ? w[rowptr[r + 1]] : 0.0f)", "6"),
    ],
)
def test_an_ordered_array_begins_with_0_and_ends_with_its_largest(
    inside: str, after: str, extent: str
) -> None:
    kernel = lift("k.cu", None, ROWS % (inside, after)).kernel
    assert print_expr(kernel.buffer("w").extents[0]) == extent


@pytest.mark.parametrize(
    ("inside", "after"),
    [
        ("", " + w[rowptr[r]]"),
        ("", " + (rowptr[r] < rowptr[r + 1] ? w[rowptr[r]] : 0.0f)"),
        (" * w[k + rowptr[r]]", ""),
        ("", " + w[rowptr[r + 1] + rowptr[r]]"),
    ],
)
def test_no_length_is_shown_that_a_single_row_does_not_reach(inside: str, after: str) -> None:
    """With one row the first element, 0, and the last are all that there are."""
    with pytest.raises(CannotLiftError, match="no access is sure to reach the last"):
        lift("k.cu", None, ROWS % (inside, after))


def test_the_last_of_every_second_element_is_taken_to_be_there() -> None:
    found = lift("k.cu", None, (ROWS % ("", "")).replace("++k", "k += 2"))
    assert print_expr(found.kernel.buffer("x").extents[0]) == "x_size"
    assert "x has x_size elements, the last of which the kernel does not touch" in found.notes


def test_what_the_length_rests_on_is_said() -> None:
    found = lift("k.cu", None, ROWS % ("", " + w[rowptr[0] + 3]"))
    program = "split(r, 64)\nbind(r.o, grid.x)\nbind(r.i, thread.x)\n"
    done = compile_program(Source(found.kernel, found.original, found.no_wrap), parse(program), Limits())
    assert done.verdict.proved, done.verdict
    assert done.verdict.premises == ("the input has rowptr[0] == 0 and rowptr[rows] == w_size",)


@pytest.mark.parametrize(("begin", "ordered"), [("r", True), ("rows - 1 - r", True), ("2 * r", False)])
def test_pairs_of_ends_are_in_no_order(begin: str, ordered: bool) -> None:
    text = (ROWS % ("", "")).replace("[r]; k", f"[{begin}]; k").replace("[r + 1]", f"[{begin} + 1]")
    (found,) = lift("k.cu", None, text).kernel.contents
    assert found.nondecreasing is ordered
