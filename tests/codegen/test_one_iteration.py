"""Loops that are one iteration because of those around them: neither they nor their names are emitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evolve.codegen.module import render
from evolve.codegen.rendered import Rendered
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.kernel import Module
from evolve.legality.verdict import Limits
from evolve.toolchain.nvrtc import compile_cuda
from evolve.validation.validate import validate
from tests.codegen.conftest import Runner

ROWS = """
__global__ void k(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float s = 0.0f;
        for (int j = 0; j <= i; ++j) s += x[i * n + j];
        y[i] = s;
    }
}
"""
CORNERS = ROWS.replace("s += x[i * n + j]", "for (int l = 0; l <= j; ++l) s += x[j * n + l]")
UNROLLED = "peel(i, first=2)\nunroll(i.first)\n"
PROGRAMS = (
    (ROWS, "peel(i, first=1)\n"),
    (ROWS, "peel(i, first=1)\nxs = stage(x, at=j.first, scope=register)\n"),
    (ROWS, "split(i, 64)\nbind(i.o, grid.x)\npeel(i.i, first=1)\n"),
    (ROWS, "peel(i, first=1)\nsplit(j.first, 4)\nvectorize(j.first.i, 4)\n"),
    (ROWS, UNROLLED),
    (CORNERS, "peel(i, first=1)\n"),
    (CORNERS, "peel(i, first=1)\nws = stage(x, at=l.first, scope=register)\n"),
    (CORNERS, UNROLLED),
)


def made(source: str, program: str) -> tuple[Module, Rendered]:
    found = lift("k.cu", None, source)
    done = compile_program(Source(found.kernel, found.original, found.no_wrap), parse(program), Limits())
    assert done.module is not None, done.verdict
    return done.module, render(done.module)


@pytest.mark.parametrize(("source", "program"), PROGRAMS)
def test_the_text_compiles_is_proved_and_computes_it(source: str, program: str, run_rendered: Runner) -> None:
    module, rendered = made(source, program)
    assert compile_cuda(rendered.text).ok
    verdict = validate(module, rendered)
    assert verdict.proved, str(verdict)
    for n in (1, 2, 70):
        x = np.random.default_rng(n).normal(size=(n, n)).astype(np.float32)
        rows = np.tril(x).sum(1)
        arrays = {"x": x, "y": np.zeros(n, np.float32)}
        got = run_rendered(rendered, arrays, {"n": n}, {"y"})["y"]
        np.testing.assert_allclose(got, np.cumsum(rows) if source is CORNERS else rows, atol=1e-3)


@pytest.mark.parametrize(
    ("program", "old", "new"),
    [
        ("peel(i, first=1)\n", "s_first += x[0];", "s_first += x[1];"),
        (UNROLLED, "j_first < i_first + 1;", "j_first < i_first + 2;"),
        (UNROLLED, "x[i_first * n + j_first];", "x[i_first * n + j_first + 1];"),
        (UNROLLED, "s_first += x", "s_first = x"),
    ],
)
def test_another_iteration_or_element_is_found(program: str, old: str, new: str) -> None:
    """Also in the last of the places, where a partial tile is one row, and its row one element."""
    module, rendered = made(ROWS, program)
    before, _, after = rendered.text.rpartition(old)
    assert before
    assert not validate(module, replace(rendered, text=before + new + after)).proved
