"""Grid-stride loops go on beyond the threads that there are: their variable is not the thread's own index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evolve.frontend.lift import Lifted
from evolve.frontend.refuse import CannotLiftError
from evolve.ir.printer import print_kernel
from tests.frontend.differential import assert_same

Lift = Callable[..., Lifted]

HEAD = "__global__ void k(const float *x, float *y, float *z, int n, int m) {\n"
GO = "void go(float *a, float *b, float *c, int n, int m) {{ k<<<{}>>>(a, b, c, n, m); }}\n"
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
LOOP = "for (int j = i; j < m; j += gridDim.x * blockDim.x)\n"
COPY = f"{INDEX}{LOOP}y[j] = x[j];\n"
BLOCKS = "for (int r = blockIdx.x; r < n; r += gridDim.x) {\n"
ROW = f"{BLOCKS}for (int c = threadIdx.x; c < m; c += blockDim.x) y[r * m + c] = x[r * m + c];\n"
FEW = "2, 32"
"""Fewer threads, and fewer blocks, than most of MANY have elements and rows."""
MANY = tuple({"n": n, "m": m} for n, m in ((1, 1), (2, 63), (5, 300), (70, 33)))

SAME = {
    "each element": (COPY, FEW),
    "a literal block": (
        "int i = blockIdx.x * 32 + threadIdx.x;"
        "for (int j = i; j < m; j += gridDim.x * 32) y[j] = 2.f * x[j] * j;", FEW,
    ),
    "up to a bound": (COPY.replace("j < m", "j <= m - 1"), FEW),
    "an unsigned variable": (COPY.replace("int j", "unsigned j"), FEW),
    "the launch's own sizes": (f"{INDEX}{LOOP}y[j] = x[j] * gridDim.x + blockDim.x;", FEW),
    "only with a flag": (f"{INDEX}if (n > 5) {LOOP}y[j] = x[j];", FEW),
    "some of its steps": (f"{INDEX}{LOOP}if (j < 70) y[j] = x[j];", FEW),
    "a sum of its own": (
        f"{INDEX}{LOOP}{{ float t = 0; for (int r = 0; r < n; ++r) t += x[r * m + j]; y[j] = t; }}", FEW,
    ),
    "one sum": (f"{INDEX}{LOOP}atomicAdd(&z[0], x[j]);", FEW),
    "a guard that the loop has too": (f"{INDEX}if (i < m && n > 5) {LOOP}y[j] = x[j];", FEW),
    "an early return that the loop has too": (f"{INDEX}if (i >= m) return; {LOOP}y[j] = x[j];", FEW),
    "an early return of blocks that the loop has too": (f"if (blockIdx.x >= n) return; {ROW}}}", FEW),
    "an index that nobody uses": (f"{INDEX}int twice = 2 * i; {LOOP}y[j] = x[j];", FEW),
    "rows by blocks, columns by threads": (f"{ROW}}}", FEW),
    "and what the first thread adds": (f"{ROW}if (threadIdx.x == 0) z[r] = 1.f; }}", FEW),
    "rows by blocks, a thread a column": (
        f"{BLOCKS}int c = threadIdx.x; if (c < 30) y[r * 30 + c] = x[r * 30 + c] * c; }}", FEW,
    ),
    "rows and columns": (
        "for (int r = blockIdx.y * blockDim.y + threadIdx.y; r < n; r += gridDim.y * blockDim.y)"
        "for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < m; c += gridDim.x * blockDim.x)"
        "y[r * m + c] = x[r * m + c] + c;", "dim3(2, 2), dim3(8, 4)",
    ),
    "rows, and a thread a column": (
        "int c = blockIdx.x * blockDim.x + threadIdx.x;"
        "for (int r = blockIdx.y * blockDim.y + threadIdx.y; r < n; r += gridDim.y * blockDim.y)"
        "if (c < m) y[r * m + c] = x[r * m + c] + c;", "dim3((m + 7) / 8, 2), dim3(8, 4)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(SAME))
def test_lifted_as_it_computes(name: str, lift_text: Lift, cache: Path) -> None:
    body, launch = SAME[name]
    lifted = lift_text(f"{HEAD}{body}\n}}\n{GO.format(launch)}")
    assert assert_same(lifted, MANY, cache_dir=cache) == len(MANY)


OWN = "thread index"
BLOCK = "block index"
# name: body, construct, line
REFUSED = {
    "a value": (f"{INDEX}{LOOP}y[j] = x[j] * i;", OWN, 4),
    "a value under another name": (f"{INDEX}int t = i + 1;\n{LOOP}y[j] = x[j] * t;", OWN, 5),
    "a value in a register": (
        f"{INDEX}float t = 0; for (int c = 0; c < n; ++c) t += i;\n if (n > 5) {{ {LOOP}y[j] = x[j] * t; }}",
        OWN, 3,
    ),
    "the grid-wide index itself": (f"{COPY[:-2]} * (blockIdx.x * blockDim.x + threadIdx.x);", OWN, 4),
    "the thread in its block": (f"{COPY[:-2]} + threadIdx.x;", OWN, 4),
    "the block": (f"{COPY[:-2]} + blockIdx.x;", OWN, 4),
    "a distance": (f"{INDEX}{LOOP}y[j] = x[j - i];", OWN, 4),
    "partial results of threads": (f"{INDEX}{LOOP}atomicAdd(&z[i], x[j]);", OWN, 4),
    "partial results of blocks": (f"{INDEX}{LOOP}atomicAdd(&z[blockIdx.x], x[j]);", OWN, 4),
    "a place": (f"{INDEX}{LOOP}z[i] = x[j];", OWN, 4),
    "the first step": (f"{INDEX}{LOOP}if (j == i) y[j] = x[j];", OWN, 4),
    "a condition": (f"{INDEX}{LOOP}if (i < 5) y[j] = x[j];", OWN, 4),
    "a choice": (f"{INDEX}{LOOP}y[j] = i < 5 ? x[j] : 0.f;", OWN, 4),
    "a choice before": (f"{INDEX}float t = i < 5 ? 2.f : 3.f;\n{LOOP}y[j] = x[j] * t;", OWN, 5),
    "the first thread of a block": (f"{INDEX}{LOOP}if (threadIdx.x == 0) y[j] = x[j];", OWN, 4),
    "an early return": (f"{INDEX}if (i >= n) return;\n{LOOP}y[j] = x[j];", OWN, 3),
    "an early return of blocks": (f"{INDEX}if (blockIdx.x > 1) return;\n{LOOP}y[j] = x[j];", OWN, 3),
    "a guard around": (f"{INDEX}if (i < n)\n{LOOP}y[j] = x[j];", OWN, 3),
    "a guard around that is nearly the loop's": (f"{INDEX}if (i < m - 1)\n{LOOP}y[j] = x[j];", OWN, 3),
    "a return unless": (f"{INDEX}if (i < m) return;\n{LOOP}y[j] = x[j];", OWN, 3),
    "a write beside the loop": (
        f"{INDEX}if (i < m) {{ z[0] = 1.f;\n{LOOP}y[j] = x[j]; }}", "grid-stride loop", 4
    ),
    "a write beyond the loop": (f"{INDEX}if (i < m) {{\n{LOOP}y[j] = x[j];\nz[0] = 1.f; }}", "store", 6),
    "a guard with another side": (
        f"{INDEX}if (i < m) {LOOP}y[j] = x[j]; else\nz[0] = 1.f;", OWN, 3
    ),
    "a bound": (f"{INDEX}{LOOP.replace('m;', 'm + i;')}y[j] = x[j];", OWN, 3),
    "a loop's bound inside": (f"{INDEX}{LOOP}for (int c = 0; c < i; ++c) atomicAdd(&y[j], x[c]);", OWN, 4),
    "a write of the first thread": (f"{COPY}if (i == 0) z[0] = 3.f;", OWN, 5),
    "a write of some threads": (f"{COPY}if (i < n) z[i] = 3.f;", OWN, 5),
    "a write of each thread": (f"{COPY}z[i] = 1.f;", OWN, 5),
    "one write of all threads": (f"{COPY}z[0] = 1.f;", "store", 5),
    "a write of all threads before": (f"if (n > 5) z[0] = 1.f;\n{COPY}", "grid-stride loop", 4),
    "a second loop": (f"{COPY}{LOOP}z[j] = y[m - 1 - j];", "grid-stride loop", 5),
    "one of two loops": (
        f"{INDEX}if (n > 5) {{ {LOOP}y[j] = 1.f; }} else\n{LOOP}y[j] = x[j];", "grid-stride loop", 5
    ),
    "a loop in itself": (
        f"{INDEX}{LOOP}{LOOP.replace('j', 'c')} y[j * m + c] = 1.f;", "grid-stride loop", 4
    ),
    "a loop over the block's threads inside": (
        f"{INDEX}{LOOP}for (int c = threadIdx.x; c < n; c += blockDim.x) y[j * n + c] = 1.f;",
        "loop over threads", 4,
    ),
    "a sum carried along": (f"{INDEX}float t = 0;\n{LOOP}{{ t += x[j]; y[j] = t; }}", "grid-stride loop", 4),
    "a sum carried along in a register": (
        f"{INDEX}float t = 0; for (int c = 0; c < n; ++c) t += x[c];\n"
        f"if (n > 5) {LOOP}{{ t += x[j]; y[j] = t; }}",
        "grid-stride loop", 4,
    ),
    "an array carried along": (
        f"{INDEX}float t[1]; t[0] = 0; if (n > 5) {LOOP}{{ t[0] += x[j]; y[j] = t[0]; }}",
        "grid-stride loop", 3,
    ),
    "blocks that go on by the grid's threads": (
        "for (int r = blockIdx.x; r < n; r += gridDim.x * blockDim.x) y[r] = x[r];", "grid-stride loop", 2
    ),
    "a start beyond": (f"{INDEX}{LOOP.replace('= i', '= i + 5')}y[j] = x[j];", "grid-stride loop", 3),
    "a variable cut off": (
        f"{INDEX}{LOOP.replace('int j', 'long long j').replace('j < m', '(int)j < m')}y[j] = x[j];",
        "grid-stride loop", 3,
    ),
    "partial results of blocks, by rows": (
        f"{BLOCKS}for (int c = threadIdx.x; c < m; c += blockDim.x)\n"
        "atomicAdd(&z[blockIdx.x], x[r * m + c]); }",
        BLOCK, 4,
    ),
    "a place of the block": (f"{BLOCKS}if (threadIdx.x == 0) z[blockIdx.x] = x[r]; }}", BLOCK, 3),
    "a row of the block": (
        f"int b = blockIdx.x;\n{BLOCKS}int c = threadIdx.x; if (c < m)\ny[r * m + c] = x[b * m + c]; }}",
        BLOCK, 5,
    ),
    "a value of the block": (f"{ROW.replace(';' + chr(10), ' * blockIdx.x;' + chr(10))}}}", BLOCK, 3),
    "a condition on the block": (f"{BLOCKS}if (blockIdx.x < 4)\n{ROW[len(BLOCKS):]}}}", BLOCK, 3),
    "an early return of some blocks": (f"if (blockIdx.x >= 4) return;\n{ROW}}}", BLOCK, 2),
    "the grid-wide index beside blocks": (
        f"{BLOCKS}if (threadIdx.x < 9)\ny[r] = blockIdx.x * blockDim.x + threadIdx.x; }}", BLOCK, 4
    ),
    "a write of each block": (f"{ROW}}}\nif (threadIdx.x == 0) z[blockIdx.x] = 1.f;", BLOCK, 5),
    "a write of one block": (f"{ROW}}}\nif (threadIdx.x == 0 && blockIdx.x == 0) z[0] = 1.f;", BLOCK, 5),
    "one write of all blocks": (f"{ROW}}}\nif (threadIdx.x == 0) z[0] = 1.f;", "store", 5),
    "a row's write beside its columns": (
        "for (int r = blockIdx.y; r < n; r += gridDim.y) {\n"
        "for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < m; c += gridDim.x * blockDim.x)\n"
        "y[r * m + c] = x[r * m + c];\nz[r] = 1.f; }",
        "store", 5,
    ),
    "the thread's number in a shared loop": (
        "int r = blockIdx.x; for (int c = threadIdx.x; c < m; c += blockDim.x) y[r * m + c] = threadIdx.x;",
        "threadIdx.x", 1,
    ),
    "partial results of a block's threads": (
        "int r = blockIdx.x; for (int c = threadIdx.x; c < m; c += blockDim.x)"
        "atomicAdd(&z[threadIdx.x], x[r * m + c]);",
        "threadIdx.x", 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("launch", [FEW, "(m + 31) / 32, 32", None])
@pytest.mark.parametrize("name", list(REFUSED))
def test_what_depends_on_who_runs_a_step_is_refused(name: str, launch: str | None, lift_text: Lift) -> None:
    body, construct, line = REFUSED[name]
    with pytest.raises(CannotLiftError) as caught:
        lift_text(f"{HEAD}{body}\n}}\n{GO.format(launch) if launch else ''}")
    assert (caught.value.construct, caught.value.line) == (construct, line), caught.value


def test_why_it_is_refused(lift_text: Lift) -> None:
    with pytest.raises(CannotLiftError, match=r"takes each thread along x further .* use j"):
        lift_text(f"{HEAD}{REFUSED['a value'][0]}\n}}\n")
    with pytest.raises(CannotLiftError, match=r"takes each block along x further .* use r"):
        lift_text(f"{HEAD}{REFUSED['a place of the block'][0]}\n}}\n")


def test_a_loop_that_no_size_bounds_is_not_bounded_by_its_launch(lift_text: Lift) -> None:
    head = HEAD.replace("int n", "const int *end, int n")
    go = GO.replace("float *c,", "float *c, int *e,").replace("c, n", "c, e, n").format(FEW)
    with pytest.raises(CannotLiftError, match="no guard bounds the thread index"):
        lift_text(f"{head}{COPY.replace('j < m', 'j < end[0]')}\n}}\n{go}")


def test_the_loop_is_named_after_its_variable(lift_text: Lift) -> None:
    assert "for j in 0..m:   # parallel" in print_kernel(lift_text(f"{HEAD}{COPY}\n}}\n").kernel)
