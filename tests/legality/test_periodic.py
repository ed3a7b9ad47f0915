"""Subscripts modulo a size, of which isl knows nothing: equal where their operands are, and only there."""

import pytest

from evolve.compiler.compile import Source, compile_program
from evolve.dsl.parser import parse
from evolve.frontend.lift import Lifted, lift
from evolve.legality.prove import prove
from evolve.legality.verdict import Limits

PROGRAM = "split(i, 4)\nbind(i.o, grid.x)\nbind(i.i, thread.x)\n"


def kernel(subscript: str) -> Lifted:
    text = f"""__global__ void k(const float *u, float *v, int n) {{
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) v[i] = u[{subscript}] + u[i];
    }}"""
    return lift("k.cu", None, text)


@pytest.mark.parametrize(
    ("given", "computed", "proved"),
    [
        ("(i + n - n / 2) % n", "(i + n - n / 2) % n", True),
        ("(i + n - n / 2) % n", "(i + n + 1 - n / 2) % n", False),
        ("(i + n - n / 2) % n", "(i + n - n / 3) % n", False),
        ("(i + n - 1) % n", "(i + n - 1) % n", True),
        ("(i + n - 1) % n", "(i + 1) % n", False),
        ("(i + n - 1) % n", "(i + n - 1) % (n + 1) % n", False),
        ("(i + 7) % n", "(i + 7) % (n + n) % n", False),
    ],
)
def test_a_subscript_modulo_a_size(given: str, computed: str, proved: bool) -> None:
    found = kernel(computed)
    source = Source(found.kernel, found.original, found.no_wrap)
    module = compile_program(source, parse(PROGRAM), Limits()).module
    assert module is not None
    verdict = prove(kernel(given).kernel, module.variants[0].kernels[0])
    assert verdict.proved == proved, verdict.diagnostics
    if not proved:
        assert verdict.diagnostics[0].code == "E-EXPR"
