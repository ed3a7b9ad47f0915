"""Whole numbers of the source that are used as floats: literals, whatever an index can hold."""

from __future__ import annotations

import pytest

from evolve.codegen.module import render
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.legality.verdict import Limits
from evolve.validation.validate import validate

SOURCE = """
__global__ void g(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + VALUE;
}
"""
PROGRAM = parse("split(i, 128)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n")


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("(-2147483647 - 1)", "(-2.1474836e+09f)"),
        ("2147483648u", "2.1474836e+09f"),
        ("4294967295u", "4.2949673e+09f"),
        ("0xffffffffffffffffull", "1.8446744e+19f"),
    ],
)
def test_a_number_that_is_only_converted_is_no_index(value: str, literal: str) -> None:
    found = lift("g.cu", text=SOURCE.replace("VALUE", value))
    done = compile_program(Source(found.kernel, found.original, found.no_wrap), PROGRAM, Limits())
    assert done.module is not None, done.verdict
    rendered = render(done.module)
    assert f"= x[i] + {literal};" in rendered.text
    assert validate(done.module, rendered).proved
