"""Blocks along axes of a grid that has only one there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evolve.codegen.module import render
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.legality.verdict import Limits
from evolve.validation.validate import validate

PLANES = """
__global__ void planes(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        for (int k = 0; k < 8; ++k) y[k * n + i] = 2.0f * x[k * n + i];
}
"""
PROGRAM = "bind(i, grid.x)\nsplit(k, 8)\nbind(k.o, grid.y)\nbind(k.i, thread.x)\n"


@pytest.mark.parametrize("wrong", [("blockIdx.x", "blockIdx.y"), ("threadIdx.x", "blockIdx.y")])
def test_the_only_block_along_an_axis_is_0(wrong: tuple[str, str], tmp_path: Path) -> None:
    """Its index times a size is nothing, whether the text has it or not."""
    path = tmp_path / "planes.cu"
    path.write_text(PLANES)
    found = lift(path)
    done = compile_program(Source(found.kernel, found.original, found.no_wrap), parse(PROGRAM), Limits())
    assert done.module is not None
    rendered = render(done.module)
    assert validate(done.module, rendered).proved
    verdict = validate(done.module, replace(rendered, text=rendered.text.replace(*wrong, 1)))
    assert not verdict.proved
