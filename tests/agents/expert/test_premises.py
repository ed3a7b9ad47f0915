"""Sketches begin with what the launches say of flags and with what the contract allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from evolve.agents.expert import chains
from evolve.agents.expert.agent import sketches
from evolve.agents.expert.premises import assumed, begun, loosened
from evolve.agents.holes import read_template
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.legality.verdict import Limits

KERNELS = Path(__file__).parents[3] / "kernels"
POOL = """
__global__ void pool(const float *x, float *y, int n, int m, int mode, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0.0f;
    if (mode == 1) {
        for (int k = 0; k < m; k++) s += expf(x[i * m + k]);
    } else {
        for (int k = 0; k < m; k++) s = fmaxf(s, x[i * m + k]);
    }
    y[i] = scale > 0.0f ? s * scale : s;
}
"""
MAP = """
__global__ void map(const float *x, float *y, int n, int a, int b, double s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    %s
    y[i] = v;
}
"""
AT = {"n": 4096, "m": 1024, "mode": 1, "scale": 1.0}


def test_sketches_for_a_kernel_with_flags_are_proved_behind_what_is_assumed() -> None:
    found = lift("k.cu", None, POOL)
    kernel, head = assumed(found.kernel, [AT])
    assert head == "assume(mode == 1 and scale > 0)\n"
    head += loosened(kernel, "fast")
    assert head.endswith("set_precision(s, fast)\n")
    first, *_ = begun(sketches(kernel, {"n": 4096, "m": 1024}), head)
    template = read_template(first.text)
    program = parse(template.fill((0,) * len(template.choices)))
    source = Source(found.kernel, found.original, found.no_wrap)
    done = compile_program(source, program, Limits(numerics="fast"))
    assert done.module is not None, done.verdict.diagnostics


@pytest.mark.parametrize(
    ("step", "head"),
    [
        ("v *= a;", ""),
        ("if (a == 1) { if (b == 2) v *= 2.0f; }", "assume(a != 1)\n"),
        ("if (a == 1 && b == 2) v *= 2.0f; if (a > 0) v += 1.0f;", "assume(a >= 1 and a != 1)\n"),
        ("if (s < 1e30) v *= 2.0f;", ""),
        ("if (a < 0) v *= 2.0f;", ""),
    ],
    ids=["a value", "a condition in what does not run", "both", "no number of the language", "negative"],
)
def test_what_decides_nothing_is_not_assumed(step: str, head: str) -> None:
    """One such term would refuse every sketch."""
    found = lift("k.cu", None, MAP % step)
    kernel, begin = assumed(found.kernel, [{"n": 4096, "a": 3, "b": 3, "s": 2.0}])
    assert begin == head
    first, *_ = begun(sketches(kernel, {"n": 4096}), begin)
    template = read_template(first.text)
    program = parse(template.fill((0,) * len(template.choices)))
    done = compile_program(Source(found.kernel, found.original, found.no_wrap), program, Limits())
    assert done.module is not None, done.verdict.diagnostics


@pytest.mark.parametrize("name", ["row_sum", "matvec"])
def test_rows_are_added_up_in_their_order_under_exact(name: str) -> None:
    found = lift(KERNELS / f"{name}.cu")
    sizes = {s.name: 8192 for s in found.kernel.scalars}
    (sketch,) = chains.sketches(found.kernel, sizes)
    source = Source(found.kernel, found.original, found.no_wrap)
    done = compile_program(source, parse(sketch.text), Limits(numerics="exact"))
    assert done.module is not None, done.verdict.diagnostics
    assert not list(chains.sketches(found.kernel, dict.fromkeys(sizes, 100)))
    assert not list(chains.sketches(lift(KERNELS / "softmax.cu").kernel, sizes))


def test_launches_that_differ_decide_nothing() -> None:
    kernel = lift("k.cu", None, POOL).kernel
    same, head = assumed(kernel, [AT, AT | {"mode": 2, "scale": -1.0}])
    assert same is kernel and head == ""
    _, head = assumed(kernel, [AT, AT | {"mode": 2}])
    assert head == "assume(scale > 0)\n"
    assert loosened(kernel, "reassociate") == "" and loosened(kernel, "exact") == ""
    assert begun([], "x") == []
