"""The block that a kernel's text speaks of, where no launch is known, and the one that a workload gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evolve.frontend.lift import Lifted
from evolve.ir.errors import EvolveError
from evolve.ir.printer import print_expr, print_kernel
from evolve.search.problem import ProblemRequest
from evolve.search.task import KernelProblem, open_problem

Lift = Callable[..., Lifted]

HEAD = "__global__ void k(const float *x, float *y, int n, int m) {\n"
ONE = "int p = blockIdx.x * 1024 + j * 256 + threadIdx.x; if (p < n) y[p] = 2.f * x[p];"
TRANSPOSE = (
    "int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;"
    "for (int j = 0; j < 32; j += 8) if (c < n && r + j < m) y[c * m + r + j] = x[(r + j) * n + c];"
)
ROWS = (
    "for (int j = 0; j < (m + 255) / 256; ++j) { int c = j * 256 + threadIdx.x;"
    "if (c < m) y[blockIdx.x * m + c] = 2.f * x[blockIdx.x * m + c]; }"
)
GAP = f"for (int j = 0; j < 3; ++j) {{ {ONE} }}"

SAID = {
    "a tile": (f"for (int j = 0; j < 4; ++j) {{ {ONE} }}", [256, 1, 1]),
    "tiles of two axes": (TRANSPOSE, [32, 8, 1]),
    "rows taken in steps": (ROWS, [256, 1, 1]),
    "a sum of all": (
        "for (int j = 0; j < 4; ++j) { int p = blockIdx.x * 1024 + j * 256 + threadIdx.x;"
        "if (p < n) atomicAdd(&y[0], x[p]); }",
        [256, 1, 1],
    ),
    "two loops": (
        "for (int a = 0; a < 2; ++a) for (int b = 0; b < 2; ++b) {"
        "int p = blockIdx.x * 1024 + a * 512 + b * 256 + threadIdx.x; if (p < n) y[p] = x[p]; }",
        [256, 1, 1],
    ),
    "four elements at once": (
        "for (int j = 0; j < 2; ++j) for (int v = 0; v < 4; ++v) {"
        "int p = blockIdx.x * 1024 + j * 512 + threadIdx.x * 4 + v; if (p < n) y[p] = x[p]; }",
        [128, 1, 1],
    ),
    "sums of a tile of registers": (
        "int r = blockIdx.y * 64 + threadIdx.y, c = blockIdx.x * 64 + threadIdx.x;"
        "for (int a = 0; a < 4; ++a) for (int b = 0; b < 4; ++b) if (r + a * 16 < n && c + b * 16 < m) {"
        "float s = 0; for (int i = 0; i < m; ++i) s += x[(r + a * 16) * m + i];"
        "y[(r + a * 16) * m + c + b * 16] = s; }",
        [16, 16, 1],
    ),
    "taps that reach over": (
        "int i = blockIdx.x * 256 + threadIdx.x; if (i < n) { float s = 0;"
        "for (int j = 0; j < 7; ++j) s += x[i + 2 * j]; y[i] = s; }",
        [256, 1, 1],
    ),
    "updates that reach over": (
        "int i = blockIdx.x * 256 + threadIdx.x; if (i < n) for (int j = 0; j < 3; ++j)"
        "atomicAdd(&y[i + 2 * j], x[i]);",
        [256, 1, 1],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(SAID))
def test_the_assumed_block_is_the_one_of_the_loops(name: str, lift_text: Lift) -> None:
    body, block = SAID[name]
    lifted = lift_text(f"{HEAD}{body}\n}}\n")
    assert [print_expr(e) for e in lifted.original.block] == [str(b) for b in block]
    assert lifted.doubt is None and lifted.launch is None
    shown = " x ".join(str(b) for b in block if b > 1)
    assert any(f"launched with blocks of {shown} threads" in note for note in lifted.notes)


def test_each_thread_of_the_assumed_block_has_its_own_elements(lift_text: Lift) -> None:
    lifted = lift_text(f"{HEAD}{TRANSPOSE}\n}}\n")
    text = print_kernel(lifted.kernel)
    assert "for col in 0..8:   # parallel" in text and "for j in 0..4:" in text
    assert [print_expr(e) for e in lifted.original.grid] == ["(n + 31) // 32", "(m + 31) // 32", "1"]


@pytest.mark.parametrize(
    ("bounds", "body", "block"),
    [
        ("128", "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 1.f;", ["128", "1", "1"]),
        (
            "N, 2",
            "int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;"
            "if (i < n && j < m) y[j * n + i] = 1.f;",
            ["16", "4", "1"],
        ),
        ("256", TRANSPOSE, ["32", "8", "1"]),
        ("512", "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 1.f;", ["256", "1", "1"]),
    ],
)
def test_an_assumed_block_keeps_to_launch_bounds(
    bounds: str, body: str, block: list[str], lift_text: Lift
) -> None:
    head = HEAD.replace("void", f"void __launch_bounds__({bounds})")
    lifted = lift_text(f"#define N 64\n{head}{body}\n}}\n")
    assert [print_expr(e) for e in lifted.original.block] == block and lifted.doubt is None


def test_launch_bounds_bound_the_sizes(lift_text: Lift) -> None:
    head = HEAD.replace("void", "void __launch_bounds__(128)")
    lifted = lift_text(f"{head}int i = threadIdx.x; if (i < n) y[i] = 1.f;\n}}\n")
    assert [print_expr(f) for f in lifted.no_wrap] == ["n <= 128"]


def opened(text: str, workload: str | None = None) -> KernelProblem:
    request = ProblemRequest(
        "k.cu", text, workload_text=workload, workload_file=workload and "w.toml", device="sim:h200-sxm"
    )
    return open_problem(request)


@pytest.mark.parametrize(
    ("bounds", "body", "why"),
    [
        ("", GAP, "a loop has strides of 256 beside threadIdx.x"),
        (
            "",
            "int i = blockIdx.x * 1024 + threadIdx.x; if (i + 768 < n) { float s = 0;"
            "for (int j = 0; j < 4; ++j) s += x[i + j * 256]; y[i] = s; }",
            "loops have strides of 256 beside threadIdx.x",
        ),
        (
            "__launch_bounds__(128)",
            "int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = x[i];",
            "its text has blocks of 256 threads, and at most 128 are allowed",
        ),
    ],
)
def test_where_no_block_suits_the_launch_is_asked_for(bounds: str, body: str, why: str) -> None:
    with pytest.raises(EvolveError) as caught:
        opened(f"{HEAD.replace('void', f'void {bounds}')}{body}\n}}\n")
    assert caught.value.code == "launch-unknown"
    assert why in caught.value.message
    assert 'grid = ["' in caught.value.message and 'block = ["' in caught.value.message
    assert "[launch]" in (caught.value.hint or "")


def test_who_says_the_launch_is_not_asked() -> None:
    text = f"{HEAD}{GAP}\n}}\n"
    problem = opened(text, '[launch]\ngrid = ["(n + 1023) // 1024"]\nblock = [256]\n')
    assert "for col in 0..256:" in print_kernel(problem.task.source.kernel)
    assert problem.info().assumed_launch == ""


def test_rows_taken_in_steps_have_the_block_of_the_workload() -> None:
    text = f"{HEAD}{ROWS}\n}}\n"
    problem = opened(text, '[launch]\ngrid = ["n"]\nblock = [256]\n')
    assert "for col in 0..256:   # parallel" in print_kernel(problem.task.source.kernel)
    compiled = problem.compile(problem.parse("bind(row, grid.x)\nbind(col, thread.x)\n"))
    assert compiled.verdict == "PROVED", compiled.diagnostics


def test_rows_taken_in_steps_by_a_launch_in_the_file(lift_text: Lift) -> None:
    go = "void go(float *a, float *b, int n, int m) { k<<<n, 256>>>(a, b, n, m); }"
    lifted = lift_text(f"{HEAD}{ROWS}\n}}\n{go}\n")
    assert "for col in 0..256:   # parallel" in print_kernel(lifted.kernel)
    assert not any(print_expr(f).endswith("<= 256") for f in lifted.no_wrap)


def test_an_assumed_launch_is_known_as_such() -> None:
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i];"
    assumed = 'grid = ["(n + 255) // 256", "1", "1"] and block = ["256", "1", "1"]'
    assert opened(f"{HEAD}{body}\n}}\n").info().assumed_launch == assumed
    go = "void go(float *a, float *b, int n, int m) { k<<<(n + 255) / 256, 256>>>(a, b, n, m); }"
    assert opened(f"{HEAD}{body}\n}}\n{go}\n").info().assumed_launch == ""
