"""Under `exact`: what a maximum begins with decides whether it may have parts, which begin at -infinity.

`fmaxf` of a NaN and a number is the number, so a NaN that a maximum begins with counts if nothing else does.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from evolve.compiler.compile import Compiled, Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.ir.expr import Const
from evolve.ir.types import DType
from evolve.ir.visit import map_block_exprs
from evolve.legality.verdict import Limits, Status

KERNEL = """
__global__ void k(const float *x, const int *z, float *y, int *w, int rows) {
    int r = blockIdx.x;
    if (r < rows) {
        %s
    }
}
"""
ROW = "float m = %s; for (int c = 0; c < 64; c++) m = fmaxf(m, x[r * 64 + c]); y[r] = m;"
INTEGERS = "int q = z[r * 64]; for (int d = 0; d < 64; d++) q = max(q, z[r * 64 + d]); w[r] = q;"
PARTS = "bind(r, grid.x)\nsplit(c, 32)\nwarp_reduce(c.i)\n"
NUMBERS = ("-INFINITY", "-1.5f", "(float)z[r * 64]", "-(float)z[r * 64]", "(float)(-z[r * 64])")
MAY_BE_NAN = ("x[r * 64]", "-x[r * 64]", "0.0f * x[r * 64]")
PICKED = """float m = -INFINITY;
        for (int c = 0; c < 64; c++) m = x[r * 64 + c] > m ? x[r * 64 + c] : m;
        y[r] = m;"""


def compiled(
    body: str, program: str, folder: Path, numerics: str = "exact", *, exact: bool = True
) -> Compiled:
    path = folder / "k.cu"
    path.write_text(KERNEL % body)
    found = lift(path, exact=exact)
    source = Source(found.kernel, found.original, found.no_wrap)
    return compile_program(source, parse(program), Limits(numerics=numerics))


@pytest.mark.parametrize("start", NUMBERS)
def test_a_maximum_that_begins_with_a_number_may_have_parts(start: str, tmp_path: Path) -> None:
    assert compiled(ROW % start, PARTS, tmp_path).verdict.proved


@pytest.mark.parametrize("start", MAY_BE_NAN)
def test_one_that_may_begin_with_a_nan_may_not(start: str, tmp_path: Path) -> None:
    refused = compiled(ROW % start, PARTS, tmp_path)
    assert refused.verdict.status is Status.REFUTED and refused.verdict.diagnostics[0].code == "E-ORDER"
    assert "may be a NaN" in refused.verdict.diagnostics[0].message
    assert compiled(ROW % start, "bind(r, grid.x)", tmp_path).verdict.proved
    assert compiled(ROW % start, PARTS, tmp_path, "reassociate").verdict.proved


def test_a_literal_may_be_a_nan(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(KERNEL % (ROW % "-1.5f"))
    found = lift(path, exact=True)
    nan = Const(math.nan, DType.F32)
    body = map_block_exprs(found.kernel.body, lambda e: nan if e == Const(-1.5, DType.F32) else e)
    assert body != found.kernel.body
    source = Source(replace(found.kernel, body=body), found.original, found.no_wrap)
    refused = compile_program(source, parse(PARTS), Limits(numerics="exact"))
    assert refused.verdict.status is Status.REFUTED and refused.verdict.diagnostics[0].code == "E-ORDER"


def test_parts_of_integers_do_not_matter(tmp_path: Path) -> None:
    parts = "bind(r, grid.x)\nsplit(d, 32)\nwarp_reduce(d.i)\n"
    assert compiled(ROW % "x[r * 64]" + INTEGERS, parts, tmp_path).verdict.proved


def test_a_kernel_that_was_not_lifted_bit_for_bit_has_no_exact_proof(tmp_path: Path) -> None:
    """Otherwise a comparison that picks the larger one is a maximum, which a NaN does not survive."""
    refused = compiled(PICKED, "bind(r, grid.x)", tmp_path, exact=False)
    assert refused.verdict.status is Status.UNKNOWN and refused.verdict.diagnostics[0].code == "E-NUMERICS"
    assert compiled(PICKED, "bind(r, grid.x)", tmp_path, "reassociate", exact=False).verdict.proved
    assert compiled(PICKED, "bind(r, grid.x)", tmp_path).verdict.proved
