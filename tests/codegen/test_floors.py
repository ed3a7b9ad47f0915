"""Floor division in C: what is raised is never negative, and periodic neighbours are read where they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from evolve.codegen.errors import CodegenError
from evolve.codegen.floors import raised, raised_by, with_raised
from evolve.frontend.lift import lift
from evolve.ir.affine import Ranges
from evolve.ir.evaluate import evaluate
from evolve.ir.expr import Expr, add, floordiv, index, mod, sub, var
from tests.codegen.conftest import Runner
from tests.codegen.test_atomics import rendered

N, ROW = var("n"), var("i")
RANGES = Ranges({"n": (1, None), "i": (0, None), "m": (-3, None)}, {}, {"i": N})


@pytest.mark.parametrize(
    ("dividend", "divisor", "times"),
    [
        (ROW, N, 0),
        (sub(ROW, index(1)), N, 1),
        (sub(ROW, index(3)), N, 3),
        (sub(ROW, index(3)), index(2), 2),
        (sub(ROW, floordiv(N, index(2))), N, 1),
        (sub(ROW, N), N, 1),
        (sub(var("m"), index(1)), index(4), 1),
        (sub(ROW, var("q")), N, None),
    ],
)
def test_no_dividend_is_negative(dividend: Expr, divisor: Expr, times: int | None) -> None:
    assert raised_by(dividend, divisor, RANGES) == times
    if times is None:
        assert with_raised(mod(dividend, divisor), RANGES) == add(mod(dividend, divisor), divisor)
        return
    e = floordiv(dividend, divisor)
    for n in range(1, 9):
        for i in range(n):
            at = {"n": n, "i": i, "m": i - 3}
            assert evaluate(raised(dividend, divisor, times), at) >= 0
            assert evaluate(with_raised(e, RANGES), at) == evaluate(e, at) + times


@pytest.mark.parametrize("divisor", [sub(N, index(1)), var("m")])
def test_a_divisor_that_may_be_zero_is_refused(divisor: Expr) -> None:
    with pytest.raises(CodegenError, match="may be 0 or less"):
        raised_by(ROW, divisor, RANGES)


def test_it_is_raised_inside_too() -> None:
    inner = mod(sub(ROW, index(1)), N)
    found = with_raised(add(mod(add(inner, index(2)), index(4)), N), RANGES)
    assert found == add(mod(add(mod(add(sub(ROW, index(1)), N), N), index(2)), index(4)), N)


SHIFTS: dict[str, tuple[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]]] = {
    "before": ("u[((i - 1) + n) % n]", lambda u: np.roll(u, 1)),
    "far": ("u[(i - 1 + 2 * n) % n]", lambda u: np.roll(u, 1)),
    "half": ("u[(i + n - n / 2) % n]", lambda u: np.roll(u, u.size // 2)),
    "mirrored": ("u[(n - i) % n]", lambda u: np.roll(u[::-1], 1)),
    "both": ("u[(i + n - 1) % n] - u[(i + 1) % n]", lambda u: np.roll(u, 1) - np.roll(u, -1)),
}
TILED = "split(i, 4)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n"
VECTORS = "specialize(n % 8 == 0)\nsplit(i, 4)\nvectorize(i.i, 4)\nsplit(i.o, 2)\nbind(i.o.o, grid.x)\n"


@pytest.mark.parametrize("name", SHIFTS)
@pytest.mark.parametrize(
    ("program", "sizes"), [(TILED, (1, 2, 3, 17)), (VECTORS + "bind(i.o.i, thread.x)\n", (8, 24))]
)
def test_neighbours_across_a_periodic_edge(
    name: str, program: str, sizes: tuple[int, ...], run_rendered: Runner
) -> None:
    subscript, right = SHIFTS[name]
    found = lift(
        "k.cu",
        None,
        f"""__global__ void k(const float *u, float *v, int n) {{
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) v[i] = {subscript};
        }}""",
    )
    code = rendered(found, program)
    for n in sizes:
        u = np.arange(n, dtype=np.float32) ** 2
        got = run_rendered(code, {"u": u, "v": np.zeros(n, np.float32)}, {"n": n}, {"v"})["v"]
        np.testing.assert_array_equal(got, right(u))


def test_a_loop_that_counts_down(run_rendered: Runner) -> None:
    found = lift(
        "k.cu",
        None,
        """__global__ void k(const float *u, float *v, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) {
            float s = 0.0f;
            for (int k = 5; k >= 0; k--) s += u[i] * (float)(k % 3) + (float)(k / 2);
            v[i] = s;
          }
        }""",
    )
    u = np.arange(9, dtype=np.float32)
    got = run_rendered(rendered(found, TILED), {"u": u, "v": np.zeros(9, np.float32)}, {"n": 9}, {"v"})["v"]
    np.testing.assert_array_equal(got, 6 * u + 6)
