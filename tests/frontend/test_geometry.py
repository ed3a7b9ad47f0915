"""Blocks and threads that are indices of their own, and loops that the threads of a block share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evolve.frontend.lift import Lifted
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.printer import print_expr, print_kernel
from tests.frontend.differential import assert_same

Lift = Callable[..., Lifted]

GO = "void go(float *a, float *b, float *c, float *d, "
HEAD = "__global__ void k(const float *x, const float *s, float *y, float *z, int rows, int cols) {\n"
MANY = tuple({"rows": r, "cols": c} for r, c in ((1, 1), (3, 5), (4, 300), (70, 33)))

# name: body, grid, block
SAME = {
    "a block a row and threads along it": (
        "int c = blockIdx.x * blockDim.x + threadIdx.x; int r = blockIdx.y; z[r * cols + c] = 0.f;"
        "if (r >= rows || c >= cols) return; y[r * cols + c] = x[r * cols + c] * s[r];".replace(
            "z[r * cols + c] = 0.f;", ""
        ),
        ["(cols + 255) // 256", "rows", "1"], ["256", "1", "1"],
    ),
    "the row has no guard": (
        "int c = blockIdx.x * blockDim.x + threadIdx.x; int r = blockIdx.y;"
        "if (c < cols) y[r * cols + c] = x[r * cols + c] * s[r];",
        ["(cols + 255) // 256", "rows", "1"], ["256", "1", "1"],
    ),
    "one thread a block": (
        "int r = blockIdx.x; if (r < rows) { float t = 0.f;"
        "for (int c = 0; c < cols; ++c) t += x[r * cols + c]; y[r * cols] = t; }",
        ["rows", "1", "1"], ["1", "1", "1"],
    ),
    "threads stride along the row": (
        "int r = blockIdx.x; const float *in = x + r * cols; float f = s[r]; if (r >= rows) return;"
        "for (int c = threadIdx.x; c < cols; c += blockDim.x) y[r * cols + c] = in[c] * f;",
        ["rows", "1", "1"], ["256", "1", "1"],
    ),
    "several strided loops, each from another start": (
        "unsigned r = blockIdx.x; if (r < rows) { float f = s[r];"
        "for (int c = threadIdx.x; c < cols; c += blockDim.x) y[r * cols + c] = x[r * cols + c] * f;"
        "for (int c = threadIdx.x + 1; c < cols; c += blockDim.x) z[r * cols + c] = x[r * cols + c - 1];"
        "if (threadIdx.x == 0) z[r * cols] = f; }",
        ["rows", "1", "1"], ["256", "1", "1"],
    ),
    "four elements a thread": (
        "int r = blockIdx.x; if (r < rows) for (int c = threadIdx.x * 4; c < cols; c += blockDim.x * 4)"
        " for (int e = 0; e < 4; ++e) if (c + e < cols) y[r * cols + c + e] = x[r * cols + c + e];",
        ["rows", "1", "1"], ["256", "1", "1"],
    ),
    "a literal stride": (
        "int r = blockIdx.x; if (r < rows) for (int c = threadIdx.x; c < cols; c += 64)"
        " y[r * cols + c] = x[r * cols + c];",
        ["rows", "1", "1"], ["64", "1", "1"],
    ),
    "rows strided over the grid, columns over the block": (
        "for (int r = blockIdx.x; r < rows; r += gridDim.x)"
        " for (int c = threadIdx.x; c < cols; c += blockDim.x) y[r * cols + c] = x[r * cols + c];",
        ["rows", "1", "1"], ["256", "1", "1"],
    ),
    "strided in two directions": (
        "if (blockIdx.x < rows) for (int q = threadIdx.y; q < 3; q += blockDim.y)"
        " for (int c = threadIdx.x; c < cols; c += blockDim.x)"
        "  y[(blockIdx.x * 3 + q) * cols + c] = x[(blockIdx.x * 3 + q) * cols + c];",
        ["rows", "1", "1"], ["16", "16", "1"],
    ),
    "what each thread works out for itself": (
        "int r = blockIdx.x; if (r >= rows) return; float t = 0.f;"
        "for (int c = 0; c < cols; ++c) t += x[r * cols + c];"
        "for (int c = threadIdx.x; c < cols; c += blockDim.x) y[r * cols + c] = x[r * cols + c] - t;",
        ["rows", "1", "1"], ["256", "1", "1"],
    ),
    "a thread a column": (
        "int r = blockIdx.x, c = threadIdx.x; if (r < rows && c < cols) y[r * cols + c] += s[r];",
        ["rows", "1", "1"], ["cols", "1", "1"],
    ),
    "only the first thread": (
        "if (threadIdx.x != 0) return; if (blockIdx.x < rows) y[blockIdx.x] = s[blockIdx.x];",
        ["rows", "1", "1"], ["256", "1", "1"],
    ),
    "a block a tile of several rows": (
        "int r = blockIdx.x / 4, part = blockIdx.x % 4; if (r < rows)"
        " for (int c = threadIdx.x; c < cols; c += blockDim.x)"
        " y[(r * 4 + part) * cols + c] = x[(r * 4 + part) * cols + c] * s[r];",
        ["rows * 4", "1", "1"], ["256", "1", "1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(SAME))
def test_lifted_as_it_computes(name: str, lift_text: Lift, cache: Path) -> None:
    body, grid, block = SAME[name]
    lifted = lift_text(f"{HEAD}  {body}\n}}\n")
    assert [print_expr(e) for e in lifted.original.grid] == grid
    assert [print_expr(e) for e in lifted.original.block] == block
    assert assert_same(lifted, MANY, cache_dir=cache) == len(MANY)


REFUSED = {
    "nothing bounds the row and two sizes are unused": (
        "int c = blockIdx.x * blockDim.x + threadIdx.x; if (c < 9) y[blockIdx.y * 9 + c] = 1.f;", "kernel"
    ),
    "two indices and one unused size": (
        "int c = threadIdx.x; if (c < cols) y[(blockIdx.z * 5 + blockIdx.y) * cols + c] = 1.f;", "kernel"
    ),
    "a sum kept by each thread": (
        "float t = 0.f; for (int c = threadIdx.x; c < cols; c += blockDim.x) t += x[c];"
        "for (int c = threadIdx.x; c < cols; c += blockDim.x) y[c] = t;", "loop over threads"
    ),
    "a count kept by each thread": (
        "int t = 0; for (int c = threadIdx.x; c < cols; c += blockDim.x) { y[c] = t; t += 1; }",
        "loop over threads",
    ),
    "a value that only the first thread has": (
        "float t = 0.f; for (int c = 0; c < cols; ++c) t += x[c]; if (threadIdx.x == 0) t = 1.f;"
        "for (int c = threadIdx.x; c < cols; c += blockDim.x) y[c] = t;", "loop over threads"
    ),
    "an index that only the first thread has": (
        "int t = 1; if (threadIdx.x == 0) t = 0;"
        "for (int c = threadIdx.x; c < cols; c += blockDim.x) y[c] = x[c] * t;", "threadIdx.x"
    ),
    "a write by all threads": (
        "int r = blockIdx.x; if (r < rows) { z[r] = 1.f;"
        " for (int c = threadIdx.x; c < cols; c += blockDim.x) y[r * cols + c] = 1.f; }", "store"
    ),
    "a write by all threads of a row of threads": (
        "for (int q = threadIdx.y; q < rows; q += blockDim.y) { z[q] = 1.f;"
        " for (int c = threadIdx.x; c < cols; c += blockDim.x) y[q * cols + c] = 1.f; }", "store"
    ),
    "shared out twice": (
        "for (int q = threadIdx.x; q < rows; q += blockDim.x)"
        " for (int c = threadIdx.x; c < cols; c += blockDim.x) y[q * cols + c] = 1.f;", "loop over threads"
    ),
    "shared out by the first thread": (
        "if (threadIdx.x == 0) for (int c = threadIdx.x; c < cols; c += blockDim.x) y[c] = 1.f;",
        "loop over threads",
    ),
    "the thread's own number in a shared loop": (
        "for (int c = threadIdx.x; c < cols; c += blockDim.x) y[c] = threadIdx.x;", "threadIdx.x"
    ),
    "a bounded thread number in a shared loop": (
        "if (threadIdx.x < 5) for (int c = threadIdx.x; c < cols; c += blockDim.x) y[c] = 1.f;", "threadIdx.x"
    ),
    "the grid-wide index beside a shared loop": (
        "int i = blockIdx.x * blockDim.x + threadIdx.x; for (int c = threadIdx.x; c < cols; c += blockDim.x)"
        " if (i < rows) y[i * cols + c] = 1.f;", "threadIdx.x"
    ),
    "the grid-wide index beside the block's": (
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < cols) y[i] = s[blockIdx.x];", "blockIdx.x"
    ),
    "strided until another value": (
        "for (int c = threadIdx.x; c != cols; c += blockDim.x) y[c] = 1.f;", "loop over threads"
    ),
    "a bound that moves with the thread": (
        "for (int c = threadIdx.x; c < cols; c += blockDim.x * 2) y[c] = 1.f;", "for loop"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(REFUSED))
def test_refused(name: str, lift_text: Lift) -> None:
    body, construct = REFUSED[name]
    with pytest.raises(CannotLiftError) as caught:
        lift_text(f"{HEAD}{body}\n}}\n")
    assert caught.value.construct == construct, caught.value


ROW = "int r = blockIdx.x; for (int c = threadIdx.x; c < cols; c += blockDim.x) y[r * cols + c] = x[c];"


@pytest.mark.parametrize(
    ("body", "launch", "construct"),
    [
        ("int r = blockIdx.x; if (r < rows) y[r] = 1.f;", "rows, 32", "blockIdx.x"),
        ("int c = threadIdx.x; if (c < cols) y[c] = 1.f;", "2, 32", "threadIdx.x"),
        ("for (int c = threadIdx.x; c < cols; c += blockDim.x) y[c] = 1.f;", "2, 32", "threadIdx.x"),
        (ROW.replace("blockDim.x", "64"), "rows, 32", "thread index"),
    ],
)
def test_launches_that_repeat_the_work_are_refused(
    body: str, launch: str, construct: str, lift_text: Lift
) -> None:
    call = f"{GO}int rows, int cols) {{ k<<<{launch}>>>(a, b, c, d, rows, cols); }}"
    with pytest.raises(CannotLiftError) as caught:
        lift_text(f"{HEAD}{body}\n}}\n{call}\n")
    assert caught.value.construct == construct


def test_the_launch_says_how_many_rows_there_are(lift_text: Lift, cache: Path) -> None:
    call = GO + "int n, int m) { k<<<n * 2, 128>>>(a, b, c, d, n, m); }"
    lifted = lift_text(f"{HEAD}{ROW}\n}}\n{call}\n")
    assert "for r in 0..rows * 2:   # parallel" in print_kernel(lifted.kernel)
    assert assert_same(lifted, MANY, cache_dir=cache) == len(MANY)


def test_grid_and_block_sizes_are_those_of_the_launch(lift_text: Lift, cache: Path) -> None:
    body = "int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;y[i] = x[i] * gridDim.y;"
    call = GO + "int n, int m) { k<<<dim3(m, n), 32>>>(a, b, c, d, n, m); }"
    text = f"{HEAD}{body}\n}}\n{call}\n"
    lifted = lift_text(text)
    assert "x: global f32[rows, cols * 32]" in print_kernel(lifted.kernel)
    assert assert_same(lifted, MANY[:2], cache_dir=cache) == 2


def test_a_launch_that_cannot_be_read_is_named(lift_text: Lift) -> None:
    call = GO + "int batch, int n, int m) { k<<<batch * n, 128>>>(a, b, c, d, m, m); }"
    with pytest.raises(CannotLiftError, match="launch at line 4 is computed from more than"):
        lift_text(f"{HEAD}{ROW.replace('cols +', 'rows +')}\n}}\n{call}\n")


def test_blocks_have_at_least_one_thread(lift_text: Lift) -> None:
    half = "int r = blockIdx.x, c = threadIdx.x; if (r < rows && c < cols / 2) y[r * cols + c] = 1.f;"
    lifted = lift_text(f"{HEAD}{half}\n}}\n")
    facts = [print_expr(f) for f in lifted.no_wrap]
    assert "cols // 2 <= 1024" in facts
    assert "cols // 2 >= 1" in facts


def test_an_assumed_grid_is_said(lift_text: Lift) -> None:
    lifted = lift_text(f"{HEAD}{ROW}\n}}\n")
    assert any("the grid has rows blocks along x" in note for note in lifted.notes)


def test_blocks_of_a_size_must_be_possible(lift_text: Lift) -> None:
    from evolve.workload.infer import infer

    lifted = lift_text(f"{HEAD}{SAME['a thread a column'][0]}\n}}\n")
    assert "cols <= 1024" in [print_expr(f) for f in lifted.no_wrap]
    (timed,) = infer(lifted).timed
    assert timed == {"rows": 65536, "cols": 1024}


def test_a_fixed_launch_bounds_the_sizes_unless_the_loop_strides(lift_text: Lift) -> None:
    call = GO + "int n) { k<<<4, 64>>>(a, b, c, d, 7, n); }"
    plain = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < cols) y[i] = 1.f;"
    lifted = lift_text(f"{HEAD}{plain}\n}}\n{call}\n")
    assert [print_expr(f) for f in lifted.no_wrap] == ["cols <= 256"]
    loop = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < cols; i += gridDim.x * blockDim.x)"
    lifted = lift_text(f"{HEAD}{loop} y[i] = 1.f;\n}}\n{call}\n")
    assert lifted.no_wrap == ()


def test_products_of_a_block_index_may_wrap(lift_text: Lift) -> None:
    lifted = lift_text(f"{HEAD}{ROW}\n}}\n")
    assert [print_expr(f) for f in lifted.no_wrap] == ["cols * rows <= 2147483648"]


@pytest.mark.parametrize(
    ("body", "grid", "block", "why"),
    [
        (ROW, "rows", "96", None),
        (ROW, "rows - 1", "96", None),  # all rows that there are, if it is launched so
        (SAME["one thread a block"][0], "rows", "1", None),
        (SAME["one thread a block"][0], "rows", "2", "all threads along x do the same"),
        (SAME["a thread a column"][0], "rows", "cols", None),
        (SAME["a thread a column"][0], "rows", "cols - 1", "it needs cols threads or blocks"),
        (SAME["only the first thread"][0], "rows", "32", None),
        (SAME["a literal stride"][0], "rows", "32", "it takes blocks of 64"),
        (SAME["a literal stride"][0], "rows", "128", "it takes blocks of 64"),
    ],
)
def test_a_launch_of_the_workload_that_does_not_fit_is_refused(
    body: str, grid: str, block: str, why: str | None
) -> None:
    from evolve.search.problem import ProblemRequest
    from evolve.search.task import open_problem

    launch = f'[launch]\ngrid = ["{grid}", "1", "1"]\nblock = ["{block}", "1", "1"]\n'
    sizes = "[[timed]]\nrows = 64\ncols = 96\n[[check]]\nrows = 5\ncols = 70\n"
    request = ProblemRequest(
        "k.cu", f"{HEAD}{body}\n}}\n", workload_text=sizes + launch, workload_file="w.toml",
        device="sim:h100-sxm",
    )  # fmt: skip
    if why is not None:
        with pytest.raises(CannotLiftError, match=why):
            open_problem(request)
        return
    score = open_problem(request).baseline()
    assert score.status == "scored", score.message


@pytest.mark.parametrize(
    "loop", ["int j = 0; j < i; ++j", "int j = i; j < cols; j += 2", "int j = 0; j < cols; ++j"]
)
def test_a_loop_that_depends_on_the_thread_bounds_the_timed_size(loop: str, lift_text: Lift) -> None:
    from evolve.workload.infer import infer

    body = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= cols) return; float a = 0;"
    lifted = lift_text(f"{HEAD}{body} for ({loop}) a += x[j]; y[i] = a;\n}}\n")
    (timed,) = infer(lifted).timed
    assert 2**16 <= timed["cols"] <= 2**18


def test_halves_of_a_row(lift_text: Lift, cache: Path) -> None:
    body = (
        "int r = blockIdx.x, c = threadIdx.x, half = cols / 2; if (r >= rows || c >= half) return;"
        "int base = r * cols; y[base + c] = x[base + c + half]; y[base + half + c] = -x[base + c];"
    )
    lifted = lift_text(f"{HEAD}{body}\n}}\n")
    assert "y[r, c + cols // 2] =" in print_kernel(lifted.kernel)
    assert assert_same(lifted, MANY[1:], cache_dir=cache) == 3


def test_facts_are_the_same_in_every_run(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    text = """__global__ void rope(const float *q, const float *w, float *y, int B, int H, int T, int D) {
      int t = blockIdx.x, h = blockIdx.y, b = blockIdx.z, d = threadIdx.x;
      if (t >= T || h >= H || b >= B || d >= D / 2) return;
      int base = ((b * H + h) * T + t) * D;
      y[base + d] = q[base + d] * w[t * (D / 2) + d];
      y[base + d + D / 2] = q[base + d + D / 2] * w[t * (D / 2) + d];
    }"""
    path = tmp_path / "rope.cu"
    path.write_text(text)
    code = (
        "from evolve.frontend.lift import lift;from evolve.ir.printer import print_kernel, print_expr;"
        f"l = lift({str(path)!r}); print(print_kernel(l.kernel), [print_expr(f) for f in l.no_wrap], l.notes)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
        ).stdout
        for seed in (1, 2, 3)
    }  # fmt: skip
    assert len(outputs) == 1


STEP = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < cols) y[i] = x[i] * 2.f;"
ALONG = "y[blockIdx.x * cols + threadIdx.x] = x[threadIdx.x];"


@pytest.mark.parametrize(
    ("body", "before", "launch"),
    [
        (ALONG, "int t = 32; t *= 2;", "rows, t"),
        (ALONG, "int t = 32; fit(t);", "rows, t"),
        (ALONG, "int t = 32; pick(&t);", "rows, t"),
        (ALONG, "int t = 32; std::cin >> t;", "rows, t"),
        (ALONG, "dim3 t(32); t.x = 64;", "rows, t"),
        (ALONG, "dim3 t(32); t = dim3(64);", "rows, t"),
        (ALONG, "for (int t = 1; t < rows; t *= 2)", "rows, t"),
        (ALONG, "int g = rows; rows = 5;", "g, 32"),
        (ALONG, "", "(unsigned char)rows, 32"),
        (ALONG, "float half = rows; int g = half / 2 * 2;", "g, 32"),
    ],
)
def test_host_variables_that_change_say_nothing_about_the_launch(
    body: str, before: str, launch: str, lift_text: Lift
) -> None:
    host = "void fit(int &t); void pick(int *t);\n" + GO
    call = f"{host}int rows, int cols) {{ {before} k<<<{launch}>>>(a, b, c, d, rows, cols); }}"
    with pytest.raises(CannotLiftError, match="launch at line 5 is computed from more than"):
        lift_text(f"{HEAD}{body}\n}}\n{call}\n")


def test_host_variables_that_change_before_they_are_used(lift_text: Lift) -> None:
    call = GO + "int rows, int cols) { rows /= 2; int t = rows; k<<<t, 32>>>(a, b, c, d, rows, cols); }"
    lifted = lift_text(f"{HEAD}{ALONG}\n}}\n{call}\n")
    assert print_expr(lifted.original.grid[0]) == "rows"


@pytest.mark.parametrize(
    ("grid", "facts"),
    [
        ("cols / 256", ["cols <= cols // 256 * 256"]),
        ("rows", ["cols <= rows * 256"]),
        ("(cols + 255) / 256", []),
        ("cols / 256 + 1", []),
    ],
)
def test_a_launch_that_does_not_reach_the_end_bounds_the_sizes(
    grid: str, facts: list[str], lift_text: Lift
) -> None:
    call = f"{GO}int rows, int cols) {{ k<<<{grid}, 256>>>(a, b, c, d, rows, cols); }}"
    lifted = lift_text(f"{HEAD}{STEP}\n}}\n{call}\n")
    assert [print_expr(f) for f in lifted.no_wrap] == facts


def test_a_launch_that_never_reaches_the_end_is_refused(lift_text: Lift) -> None:
    call = GO + "int rows, int cols) { k<<<2, 256>>>(a, b, c, d, rows, cols); }"
    with pytest.raises(CannotLiftError, match="needs 1000 threads or blocks, the launch has 512"):
        lift_text(f"{HEAD}{STEP.replace('i < cols', 'i < 1000')}\n}}\n{call}\n")


def test_threads_that_do_the_same_are_refused(lift_text: Lift) -> None:
    call = GO + "int rows, int cols) { k<<<(cols + 15) / 16, dim3(16, 16)>>>(a, b, c, d, rows, cols); }"
    with pytest.raises(CannotLiftError, match="all threads along y do the same"):
        lift_text(f"{HEAD}{STEP.replace('y[i] =', 'y[i] +=')}\n}}\n{call}\n")


def test_a_launch_with_one_array_twice_is_refused(lift_text: Lift) -> None:
    host = GO + "int rows, int cols) { k<<<(cols + 255) / 256, 256>>>"
    for arguments in ("c, b, c, d", "a, b, (float *)a, d"):
        with pytest.raises(CannotLiftError, match="twice"):
            lift_text(f"{HEAD}{STEP}\n}}\n{host}({arguments}, rows, cols); }}\n")
    lift_text(f"{HEAD}{STEP}\n}}\n{host}(a, a, c, d, rows, cols); }}\n")


def test_an_index_that_wraps_around_on_its_way_is_refused(lift_text: Lift) -> None:
    body = "long long i = (long long)blockIdx.x * blockDim.x + (threadIdx.x - 1u);"
    with pytest.raises(CannotLiftError, match="may be negative"):
        lift_text(f"{HEAD}{body} if (i >= 0 && i < cols) y[i] = 1.f;\n}}\n")


def test_a_part_of_an_index_that_wraps_around_bounds_the_sizes(lift_text: Lift) -> None:
    text = """__global__ void k(float *y, long long n) {
      size_t i = (size_t)(blockIdx.x * blockDim.x * 4096u) + threadIdx.x * 4096u; if (i < n) y[i] = 1.f; }"""
    facts = [print_expr(f) for f in lift_text(text).no_wrap]
    assert "(n + 4095) // 4096 * 4096 <= 4294971391" in facts
