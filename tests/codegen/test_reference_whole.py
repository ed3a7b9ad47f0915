"""Integers that come from floats: exact unless a rounding decides, then as wide as it reaches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evolve.codegen.module import render
from evolve.codegen.reference import render_reference
from evolve.codegen.reference_cuda import render_reference_cuda
from evolve.codegen.reference_runtime import TOLERANCE_FACTOR
from evolve.devices.sim.build import compile_host
from evolve.frontend.lift import lift
from evolve.scoring.correctness import Checked, Correctness, Failure
from evolve.scoring.references import References
from evolve.search.problem import ProblemRequest
from evolve.search.task import open_problem
from evolve.toolchain.nvrtc import compile_cuda
from tests.codegen.test_reference import reference

HEAD = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)"
F = np.float32


def kernel(body: str, out: str = "int") -> str:
    return f"__global__ void k({out} *q, const float *x, float s, int n) {{ {HEAD} {{ {body} }} }}"


def run(
    text: str, x: np.ndarray, s: float, cache: Path, out: type = np.int32
) -> tuple[np.ndarray, np.ndarray]:
    """Values and tolerances of q."""
    lifted = lift("k.cu", None, text).kernel
    arrays = {"q": np.zeros(len(x), out), "x": x}
    values, errors = reference(lifted, arrays, {"s": s, "n": len(x)}, cache)
    return values["q"], errors["q"] * TOLERANCE_FACTOR


def near_boundaries(s: float) -> np.ndarray:
    """Inputs whose product with s lies on whole numbers and halves, next to them, and in between."""
    at = np.concatenate([np.arange(-40, 40) / 2 / s, np.linspace(-20, 20, 400) / s]).astype(F)
    return np.concatenate([np.nextafter(at, F(-np.inf)), at, np.nextafter(at, F(np.inf))])


BODIES = {
    "truncated": ("q[i] = (int)(x[i] * s);", lambda p: np.trunc(p)),
    "to nearest": ("q[i] = (int)floorf(x[i] * s + 0.5f);", lambda p: np.floor(p + F(0.5))),
    "up": ("q[i] = (int)ceilf(x[i] * s);", lambda p: np.ceil(p)),
    "clamped": (
        "int v = (int)(x[i] * s); if (v > 5) v = 5; if (v < -5) v = -5; q[i] = v;",
        lambda p: np.clip(np.trunc(p), -5, 5),
    ),
    "min and max": ("q[i] = max(min((int)(x[i] * s), 5), -5);", lambda p: np.clip(np.trunc(p), -5, 5)),
    "low bits": ("q[i] = (int)(x[i] * s) & 3;", lambda p: np.trunc(p).astype(np.int32) & 3),
    "linear": ("q[i] = 7 - 3 * (int)(x[i] * s);", lambda p: 7 - 3 * np.trunc(p)),
    "halved": ("q[i] = ((int)(x[i] * s) + 100) / 2;", lambda p: (np.trunc(p) + 100) // 2),
    "shifted": ("q[i] = ((int)(x[i] * s) + 100) >> 3;", lambda p: (np.trunc(p) + 100) // 8),
    "compared": ("q[i] = x[i] * s > 1.5f ? 10 : 20;", lambda p: np.where(p > F(1.5), 10, 20)),
    "whole compared": ("q[i] = (int)(x[i] * s) >= 3 ? 1 : 2;", lambda p: np.where(np.trunc(p) >= 3, 1, 2)),
    "both": ("q[i] = x[i] * s > 1.5f && x[i] * s < 4.5f ? 1 : 0;", lambda p: (p > F(1.5)) & (p < F(4.5))),
}  # fmt: skip


@pytest.mark.parametrize("name", list(BODIES))
def test_every_rounding_is_within_tolerance_and_only_boundaries_have_one(name: str, cache: Path) -> None:
    body, wanted = BODIES[name]
    s = 1.7
    x = near_boundaries(s)
    values, tolerances = run(kernel(body), x, float(F(s)), cache)
    product = x.astype(np.float64) * np.float64(F(s))
    for off in (0.0, -2.0, 2.0):  # the product as it is, and two units in its last place away
        rounded = (product.astype(F) + F(off) * np.spacing(np.abs(product.astype(F)))).astype(F)
        got = np.asarray(wanted(rounded), np.float64)
        assert np.all(np.abs(got - values) <= tolerances), name
    sure = np.abs(product * 2 - np.round(product * 2)) > 1e-4  # every boundary is a half or a whole
    assert sure.any() and np.all(tolerances[sure] == 0)
    assert np.any(tolerances > 0)


def test_inputs_as_they_are_leave_no_doubt(cache: Path) -> None:
    x = np.concatenate([np.arange(-5, 6), np.linspace(-4, 4, 41)]).astype(F)
    for body in ("q[i] = (int)x[i];", "q[i] = (int)floorf(x[i]);", "q[i] = x[i] >= 2.0f ? 1 : 0;"):
        _, tolerances = run(kernel(body), x, 1.0, cache)
        assert np.all(tolerances == 0), body


def test_integers_that_no_float_made_stay_exact(cache: Path) -> None:
    text = (
        "__global__ void k(int *q, const int *x, int s, int n) { " + HEAD + " q[i] = x[i] * s + (x[i] & 3); }"
    )
    x = np.arange(-50, 50, dtype=np.int32)
    values, tolerances = run(text, x, 3, cache)
    np.testing.assert_array_equal(values, x * 3 + (x & 3))
    assert np.all(tolerances == 0)
    assert "ev_value" not in render_reference(lift("k.cu", None, text).kernel).text


def test_floats_made_of_whole_numbers_carry_the_step(cache: Path) -> None:
    x = near_boundaries(1.7)
    s = float(F(1.7))
    for body in ("q[i] = floorf(x[i] * s) * 0.25f;", "int v = (int)(x[i] * s); q[i] = (float)v * 0.25f;"):
        values, tolerances = run(kernel(body, "float"), x, s, cache, np.float32)
        product = x.astype(np.float64) * s
        step = np.floor if "floorf" in body else np.trunc
        for got in (step((product - 1e-6).astype(F)) * 0.25, step((product + 1e-6).astype(F)) * 0.25):
            assert np.all(np.abs(got - values)[np.abs(product) < 8] <= tolerances[np.abs(product) < 8])
        sure = np.abs(product - np.round(product)) > 1e-4
        assert np.all(tolerances[sure] < 1e-4) and np.any(tolerances > 0.2)


def test_sums_of_whole_numbers_add_their_doubts(cache: Path) -> None:
    text = """__global__ void k(int *q, const float *x, float s, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) { int t = 0; for (int j = 0; j < 8; j++) t += (int)(x[i * 8 + j] * s); q[i] = t; } }"""
    s = float(F(1.7))
    x = near_boundaries(1.7)
    x = x[: len(x) // 8 * 8]
    lifted = lift("k.cu", None, text).kernel
    arrays = {"q": np.zeros(len(x) // 8, np.int32), "x": x}
    _, errors = reference(lifted, arrays, {"s": s, "n": len(x) // 8}, cache)
    _, each = run(kernel("q[i] = (int)(x[i] * s);"), x, s, cache)
    # Each doubt reaches up or down, so the larger of both sums is between half of all and all.
    tolerances, doubts = errors["q"] * TOLERANCE_FACTOR, each.reshape(-1, 8).sum(axis=1)
    assert doubts.max() >= 4
    assert np.all(tolerances <= doubts) and np.all(2 * tolerances >= doubts)


def test_what_has_no_meaning_is_not_judged(cache: Path) -> None:
    x = np.array([1e10, -1e10, np.nan, np.inf, 7.0], F)
    values, tolerances = run(kernel("q[i] = (int)(x[i] * s);"), x, 1.0, cache)
    np.testing.assert_array_equal(np.isposinf(tolerances), [True, True, True, True, False])
    assert values[4] == 7


def test_unsigned_and_wide_types(cache: Path) -> None:
    x = np.array([0.5, 3.999, 3e9], F)
    text = kernel("q[i] = (unsigned)(x[i] * s) + 4000000000u;", "unsigned")
    values, tolerances = run(text, x, 1.0, cache, np.uint32)
    want = (np.array([0, 3, 3_000_000_000], np.uint64) + 4_000_000_000) % 2**32
    np.testing.assert_array_equal(values, want.astype(np.float64))
    assert tolerances[0] == tolerances[1] == 0
    values, _ = run(kernel("q[i] = (long long)(x[i] * s) * 5;", "long long"), x, 1.0, cache, np.int64)
    np.testing.assert_array_equal(values, [0, 15, 15_000_000_000])


def test_operands_at_the_end_of_their_type(cache: Path) -> None:
    """What tries all values of a range must end where no value is larger."""
    text = kernel("q[i] = (long long)(x[i] * s) & 0x7fffffffffffffffLL;", "long long")
    values, tolerances = run(text, np.array([0.5, 3.75, 1000.5], F), 1.0, cache, np.int64)
    np.testing.assert_array_equal(values, [0, 3, 1000])
    assert not tolerances.any()


@pytest.mark.parametrize("name", list(BODIES))
def test_the_gpu_text_compiles(name: str) -> None:
    text = render_reference_cuda(lift("k.cu", None, kernel(BODIES[name][0])).kernel).text
    built = compile_cuda(text, "sm_90")
    assert built.cubin is not None, built.log


def test_quantising_kernels_are_their_own_baselines_and_wrong_ones_are_not() -> None:
    body = "int v = (int)floorf(x[i] * s + 0.5f); if (v > 127) v = 127; if (v < -127) v = -127; q[i] = v;"
    problem = open_problem(ProblemRequest("k.cu", kernel(body), device="sim:h100-sxm"))
    rendered = render(problem.task.original)
    correctness = Correctness(problem.task, References(problem.task))

    def check(old: str, new: str) -> Failure | Checked:
        assert old in rendered.text
        program = compile_host(rendered.text.replace(old, new), list(rendered.signatures))
        return correctness.check_original(rendered, program)

    assert isinstance(check("0.5f", "0.5f"), Checked)
    for old, new in (("0.5f", "0.51f"), ("floorf", "ceilf"), ("127", "126")):
        assert isinstance(check(old, new), Failure), new
