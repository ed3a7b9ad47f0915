"""What is asked of the caches compiles for every type of element."""

from __future__ import annotations

from pathlib import Path

import pytest

from evolve.codegen.module import render
from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import lift
from evolve.legality.verdict import Limits
from evolve.toolchain.nvrtc import compile_cuda

TEXT = """
__global__ void copy(const TYPE *x, TYPE *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
"""


@pytest.mark.parametrize("policies", [("read_only", "l2"), ("streaming", "streaming")])
@pytest.mark.parametrize("of", ["bool", "unsigned char", "long long", "double"])
def test_elements_and_vectors_compile(of: str, policies: tuple[str, str], tmp_path: Path) -> None:
    """There are no such functions for bool: single ones are accessed plainly, vectors as those of bytes."""
    file = tmp_path / "copy.cu"
    file.write_text(TEXT.replace("TYPE", of))
    lifted = lift(file)
    loads, stores = policies
    program = f"cache_hint(x, {loads})\ncache_hint(y, {stores})\nsplit(i, 2)\nvectorize(i.i, 2)"
    made = compile_program(Source(lifted.kernel, lifted.original), parse(program), Limits())
    assert made.module is not None
    text = render(made.module).text
    assert ("__ldg(" if loads == "read_only" else "__ldcs(") in text
    done = compile_cuda(text)
    assert done.ok, done.log
