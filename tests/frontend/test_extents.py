"""Arrays have no more elements than the kernel's accesses under all of their guards show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evolve.codegen.original import original_name, render_original
from evolve.devices.sim.build import HostProgram, compile_host
from evolve.frontend.lift import Lifted, lift
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.printer import print_expr
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from tests.frontend.differential import NOT_TOUCHED, assert_no_longer_than_touched


def _kernel(body: str, params: str, launch: str) -> str:
    names = ", ".join(p.split()[-1] for p in params.split(","))
    return f"""
__global__ void NAME(const float *x, float *y, {params}) {{
    int b = blockIdx.x, t = threadIdx.x;
    {body}
}}
void run_NAME(const float *x, float *y, {params}) {{ NAME<<<{launch}>>>(x, y, {names}); }}
"""


def _rows(body: str, params: str, launch: str) -> str:
    return _kernel(f"for (int j = 0; j < 4; j++) {{ int row = b * 4 + j; {body} }}", params, launch)


def _tiles(body: str) -> str:
    body = f"for (int j = 0; j < 4; j++) {{ int p = b * 1024 + j * 256 + t; {body} }}"
    return _kernel(body, "int n", "(n + 1023) / 1024, 256")


KERNELS = {
    "rows": (
        _rows("if (row < m) y[row * 1024 + t] = 2.0f * x[row * 1024 + t];", "int m", "(m + 3) / 4, 1024"),
        ["m", "1024"],
    ),
    "rows_and_columns": (
        _rows(
            "if (row < m && t < cols) y[row * cols + t] = 2.0f * x[row * cols + t];",
            "int m, int cols",
            "(m + 3) / 4, 1024",
        ),
        ["m", "cols"],
    ),
    "constant_rows": (
        _rows("if (row < 22) y[row * 64 + t] = x[row * 64 + t] * n;", "int n", "6, 64"),
        ["22", "64"],
    ),
    "quads": (_tiles("if (p < n) for (int c = 0; c < 4; c++) y[4 * p + c] = x[4 * p + c];"), ["n * 4"]),
    "every_second": (_tiles("if (2 * p < n) y[2 * p] = x[2 * p];"), ["(n + 1) // 2 * 2 + -1"]),
    "other_slopes": (_tiles("if (p < n) y[p] = x[p] + x[3 * p];"), ["n * 3 + -2"]),
    "another_variable": (
        _kernel(
            "for (int j = 0; j < 4; j++) { int from = b * 1024 + j * 256, left = n - from;"
            " if (t < left) y[from + t] = x[from + t]; }",
            "int n",
            "(n + 1023) / 1024, 256",
        ),
        ["n"],
    ),
    "guarded_writes": (_tiles("float v = x[p]; if (p < n) y[p] = v;"), ["n"]),
    "interior": (_tiles("if (p > 0 && p < n - 1) y[p] = x[p - 1] + x[p + 1];"), ["n"]),
    "behind": (
        _tiles("if (p >= 2 && p < n) y[p] = x[p - 2];"),
        ["min((n + 1023) // 1024 * 1024 + -2, max(n + -2, 0))"],
    ),
    "planes": (
        _rows(
            "if (row < d) for (int r = 0; r < h; r++) for (int c = 0; c < w; c++)"
            " y[(row * h + r) * w + c] = x[(row * h + r) * w + c];",
            "int d, int h, int w",
            "(d + 3) / 4, 1",
        ),
        ["d", "h", "w"],
    ),
    "round": (
        """
__global__ void NAME(const float *x, float *y, int n) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < n) y[p] = x[(p + n - 1) % n];
}""",
        ["n"],
    ),
    "round_rows": (
        """
__global__ void NAME(const float *x, float *y, int m) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < m) for (int c = 0; c < 32; c++) y[r * 32 + c] = x[((m - r) % m) * 32 + c];
}""",
        ["m", "32"],
    ),
    "transposed": (
        _rows(
            "if (row < m) for (int c = 0; c < n; c++) y[c * m + row] = x[row * n + c];",
            "int m, int n",
            "(m + 3) / 4, 1",
        ),
        ["m", "n"],
    ),
    "early_return": (
        """
__global__ void NAME(const float *x, float *y, int n) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (8 * p >= n) return;
    for (int c = 0; c < 8; c++) if (8 * p + c < n) y[8 * p + c] = x[8 * p + c];
}""",
        ["n"],
    ),
    "grid_stride": (
        """
__global__ void NAME(const float *x, float *y, int n) {
    int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) y[i] = x[3 * i];
}""",
        ["n * 3 + -2"],
    ),
}
TEXT = "\n".join(text.replace("NAME", name) for name, (text, _) in KERNELS.items())
STAGED = {
    "rows": "b * 4 + X_0 < m",
    "quads": "b * 4096 + X_0 < n * 4",
    "every_second": "b * 2048 + X_0 < (n + 1) / 2 * 2 - 1",
    "another_variable": "b * 1024 + X_0 < n",
    "interior": "b * 1024 + X_0 >= 1 && b * 1024 + X_0 - 1 < n",
}
"""What a copy of a tile has to ask for each element, or row, in the last one."""
REFUSED = {
    "one condition or the other": (
        "if (row < m || row < n) y[row * 64 + t] = x[row * 64 + t];",
        "nothing shows that x has (m + n + 3) // 4 * 256 elements",
    ),
    "a count of its own": (
        "float s = 0.f, seen = 0.f; for (int c = 0; c < 4; c++) { seen += 1.f; if (seen < 3.f)"
        " s += x[c * 64 + t]; } if (row < m) y[row * 64 + t] = s;",
        "nothing shows that x has 256 elements",
    ),
    "every second, round and round": (
        "if (row < m) y[row * 64 + t] = x[(2 * row) % m];",
        "nothing shows that x has m elements",
    ),
    "the lower triangle of what is not square": (
        "for (int c = 0; c <= row && c < n; c++) if (row < m) y[row * n + c] = x[row * n + c];",
        "nothing shows that x has",
    ),
}


@pytest.fixture(scope="module")
def lifted() -> dict[str, Lifted]:
    return {name: lift("k.cu", name, TEXT) for name in KERNELS}


@pytest.fixture(scope="module")
def program(lifted: dict[str, Lifted], tmp_path_factory: pytest.TempPathFactory) -> HostProgram:
    originals = [x.original for x in lifted.values()]
    text = "\n".join(render_original(o) for o in originals)
    return compile_host(text, [original_name(o) for o in originals], tmp_path_factory.mktemp("host"))


@pytest.mark.parametrize("name", KERNELS)
def test_the_last_element_is_one_that_the_kernel_reads(
    name: str, lifted: dict[str, Lifted], program: HostProgram
) -> None:
    kernel = lifted[name].kernel
    assert [print_expr(e) for e in kernel.buffer("x").extents] == KERNELS[name][1]
    assert assert_no_longer_than_touched(lifted[name], program=program) >= 2


@pytest.mark.parametrize("name", STAGED)
def test_nothing_is_copied_from_behind_the_end(name: str) -> None:
    problem = open_problem(ProblemRequest("k.cu", TEXT, entry=name, device="sim:h200-sxm"))
    copied = problem.compile(problem.parse("X = stage(x, at=b, scope=shared)\nbind(b, grid.x)\n"))
    assert copied.verdict == "PROVED"
    source = problem.render(copied).partition("// The original kernel")[0]
    partial = source[: source.rindex(" = x[")].rpartition("partial tile")[2]
    assert f"if ({STAGED[name]})" in partial
    if name in ("rows", "quads"):
        score = problem.score(copied)
        assert score.status == "scored", score.message


@pytest.mark.parametrize("name", REFUSED)
def test_what_shows_nothing_is_refused(name: str) -> None:
    body, why = REFUSED[name]
    text = _rows(body, "int m, int n", "(m + n + 3) / 4, 64").replace("NAME", "k")
    with pytest.raises(CannotLiftError, match=re.escape(why)):
        lift("k.cu", None, text)


def test_the_end_of_a_last_row_is_said_to_be_assumed() -> None:
    found = lift(Path(__file__).parents[2] / "kernels" / "stencil.cu")
    (note,) = (n for n in found.notes if n.endswith(NOT_TOUCHED))
    assert note.startswith("x has cols * rows elements")


def test_an_array_that_a_flag_leaves_out_is_said_to_be_there() -> None:
    """A pointer that may be null where it is not used: a program may copy from it before it asks the flag."""
    text = """
    __global__ void k(const float *x, const float *bias, float *y, int n, int has) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) { float s = x[i]; if (has > 0) s += bias[i]; y[i] = s; }
    }
    """
    notes = [n for n in lift("k.cu", None, text).notes if n.endswith("touches none of them")]
    assert notes == ["bias has n elements also where the kernel touches none of them"]
